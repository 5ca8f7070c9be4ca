//! Converts rows of tables to requests.

use trackiops_schemas::ebpf::ring::{RequestRecord, flags};
use trackiops_schemas::identity::{Dev, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::Operation;
use trackiops_schemas::shortened::short_list;

use super::listed::{Listed, ListedNames};
use super::mapping::{Columns, Field, Mapping};
use super::table::{self, Rows};
use super::values::{Row, ValueError, Values};
use crate::captures::operations::sums_of;
use crate::error::ImportError;
use crate::hosts::{Completed, Done, Hosts, Target, is_in_store};
use crate::process::{Notice, Process};
use crate::source::Source;

/// The host of rows that name no host.
const NO_HOST: &str = "imported";
/// Most bytes of a record: a whole number of pages.
const LARGEST_RECORD: u64 = (u32::MAX as u64 + 1) - 4096;
/// Most bytes of an operation, exclusive: 1 PiB.
const MOST_BYTES: u64 = 1 << 50;
/// The largest errno of Linux (`MAX_ERRNO`, include/linux/err.h).
const MAX_ERRNO: u32 = 4095;

/// Imported tables.
pub struct Imported {
    /// The hosts that rows name.
    pub hosts: Hosts<ListedNames>,
    /// Number of rows, without calls.
    pub rows: u64,
    /// Rows that completed before the row above them.
    pub backwards: u64,
    /// Rows of single system calls, which are not requests.
    pub calls: u64,
    /// Times of the first and the last completion, ns since the epoch.
    pub time_range_ns: Option<(i64, i64)>,
}

/// Imports tables in order of time.
pub fn import(
    sources: &[Source],
    mappings: Vec<Mapping>,
    target: Target,
    process: &'static dyn Process,
) -> Result<Imported, ImportError> {
    let mut import = Import {
        imported: Imported {
            hosts: Hosts::new(target, process),
            rows: 0,
            backwards: 0,
            calls: 0,
            time_range_ns: None,
        },
        process,
        mappings,
        header: Vec::new(),
        columns: None,
    };
    for source in sources {
        table::read(source, process, &mut import)?;
        if process.was_ended() {
            break;
        }
    }
    let mut imported = import.imported;
    imported.hosts.finish()?;
    Ok(imported)
}

struct Import {
    imported: Imported,
    process: &'static dyn Process,
    mappings: Vec<Mapping>,
    header: Vec<String>,
    columns: Option<Columns>,
}

impl Rows for Import {
    fn header(&mut self, header: &[String]) -> Result<(), ImportError> {
        let columns = Columns::of(header, &self.mappings)?;
        let unused = columns.unused(header);
        if !unused.is_empty() && self.header != header {
            self.process.say(Notice::Unused(short_list(unused)));
        }
        self.columns = Some(columns);
        self.header = header.to_vec();
        Ok(())
    }

    fn row(&mut self, row: &dyn Row) -> Result<(), ImportError> {
        let imported = &mut self.imported;
        let Some(columns) = &self.columns else {
            return Ok(());
        };
        let values = Values {
            row,
            columns,
            header: &self.header,
        };
        if level(&values)?.is_some_and(|level| !IoLevel::OF_ROWS.contains(&level)) {
            imported.calls += 1;
            return Ok(());
        }
        imported.rows += 1;
        let times = match Times::of(&values)? {
            Some(times) if is_in_store(times.end_ns) => times,
            _ => {
                imported.hosts.leave_out();
                return Ok(());
            }
        };
        let range_ns = imported.time_range_ns;
        let (first, last) = range_ns.unwrap_or((times.end_ns, times.end_ns));
        imported.backwards += u64::from(times.end_ns < last);
        imported.time_range_ns = Some((first.min(times.end_ns), last.max(times.end_ns)));
        imported.hosts.tick(times.end_ns)?;
        add(&values, &times, &mut imported.hosts)?;
        Ok(())
    }
}

/// When a request began and completed, ns since the epoch.
struct Times {
    end_ns: i64,
    latency_ns: Option<u64>,
}

impl Times {
    /// `None` if one of them is out of range.
    fn of(values: &Values<'_>) -> Result<Option<Self>, ValueError> {
        let [end, start] = [values.time_ns(Field::Time)?, values.time_ns(Field::Start)?];
        let (Ok(end), Ok(start)) = (end.transpose(), start.transpose()) else {
            return Ok(None);
        };
        let latency_ns = values.length_ns(Field::Latency)?;
        let end_ns = match (end, start, latency_ns) {
            (Some(end), ..) => end,
            (None, Some(start), latency) => {
                start.saturating_add_unsigned(latency.unwrap_or_default())
            }
            (None, None, _) => {
                let has_time = values.columns.place(Field::Time).is_some();
                let field = if has_time { Field::Time } else { Field::Start };
                return Err(values.error(field, &"a request needs a time"));
            }
        };
        let between = end.zip(start).map(|(end, start)| end.saturating_sub(start));
        Ok(Some(Self {
            end_ns,
            latency_ns: latency_ns.or(between.and_then(|ns| u64::try_from(ns).ok())),
        }))
    }

    fn begin_ns(&self) -> i64 {
        self.end_ns
            .saturating_sub_unsigned(self.latency_ns.unwrap_or_default())
    }
}

fn add(
    values: &Values<'_>,
    times: &Times,
    hosts: &mut Hosts<ListedNames>,
) -> Result<(), ValueError> {
    let op = values.needed(Field::Op)?.to_ascii_uppercase();
    let direction = match &*op {
        "R" | "READ" => Some(("READ", false)),
        "W" | "WRITE" => Some(("WRITE", true)),
        _ => None,
    };
    let is_wire = level(values)?.unwrap_or_default() == IoLevel::Wire;
    if !is_wire && direction.is_none() {
        return Err(values.error(Field::Op, &"requests to devices are READ or WRITE"));
    }
    let listed = listed(values)?;
    let mount = listed.mount.clone();
    let mut names = hosts.names();
    let tenant = names.tenant(tenant(values)?);
    let file = names.file(listed);
    drop(names);
    let errno = values.parsed::<i32>(Field::Errno, "an error as in errno(3)")?;
    let errno = errno.unwrap_or_default();
    if errno.unsigned_abs() > MAX_ERRNO {
        return Err(values.error(Field::Errno, &format!("there is no error {errno}")));
    }
    let records = match direction {
        None => Vec::new(),
        Some((_, is_write)) => {
            let record = RequestRecord {
                fileid: file.fileid,
                dev: file.dev.0,
                handle_hash: file.handle_hash,
                uid: tenant.uid,
                cgroup: tenant.cgroup,
                error: -errno.abs(),
                ..record(values, times, is_write)?
            };
            values.needed(Field::Bytes)?;
            let done = bytes(values, Field::Bytes)?.unwrap_or_default();
            in_pieces(record, bytes(values, Field::Asked)?, done)
        }
    };
    let operation = Operation {
        mount,
        op: direction.map_or(op, |(name, _)| name.to_owned()),
        transport: None,
    };
    let done = Done {
        operation,
        sums: sums_of(times.latency_ns, errno != 0),
        file: direction.is_none().then_some((file, tenant)),
    };
    // Operations of mounts are RPCs.
    let operations = is_wire.then_some(done);
    let completed = Completed {
        begin_ns: times.begin_ns(),
        end_ns: times.end_ns,
        operations: operations.as_slice(),
        records: &records,
    };
    let host = values.text(Field::Host).unwrap_or(NO_HOST);
    hosts.add(host, &completed);
    Ok(())
}

fn listed(values: &Values<'_>) -> Result<Listed, ValueError> {
    let text = |field| values.text(field).map(str::to_owned);
    // Exports contain numbers above 2^63 as negative numbers.
    let fileid = values.parsed::<i128>(Field::Fileid, "a whole number")?;
    Ok(Listed {
        mount: text(Field::Mount),
        path: text(Field::Path),
        path_inferred: values.flag(Field::PathInferred)?.unwrap_or_default(),
        fileid: fileid.map(|fileid| fileid as u64),
        key: values.parsed(Field::Key, "a whole number of 64 bits")?,
        dev: values.parsed::<Dev>(Field::Dev, "a device, such as 0:49")?,
        level: level(values)?.unwrap_or_default(),
    })
}

fn level(values: &Values<'_>) -> Result<Option<IoLevel>, ValueError> {
    values.parsed(Field::Level, "a level, such as wire")
}

fn tenant(values: &Values<'_>) -> Result<Tenant, ValueError> {
    let uid = values.count(Field::Uid)?;
    let text = |field| values.text(field).map(Into::into);
    let (cgroup, name) = (text(Field::Cgroup), text(Field::Tenant));
    Ok(Tenant {
        uid,
        user: text(Field::User).filter(|_| uid.is_some()),
        container: text(Field::Container).filter(|_| cgroup.is_some()),
        labels: text(Field::Labels).filter(|_| name.is_some()),
        cgroup,
        name,
    })
}

/// A request of this many bytes. Bytes beyond the limit of a record go to further records, which are pieces of the same request.
fn in_pieces(request: RequestRecord, asked: Option<u64>, bytes: u64) -> Vec<RequestRecord> {
    let asked = asked.unwrap_or(bytes);
    let count = bytes.div_ceil(LARGEST_RECORD).max(1);
    let piece = |place: u64| {
        let begin = place * LARGEST_RECORD;
        let part = |of: u64| of.saturating_sub(begin).min(LARGEST_RECORD) as u32;
        RequestRecord {
            asked_bytes: part(asked),
            done_bytes: part(bytes),
            offset: request.offset.saturating_add(begin),
            flags: request.flags | if place > 0 { flags::PIECE } else { 0 },
            ..request
        }
    };
    (0..count).map(piece).collect()
}

/// Bytes of an operation. A sum over many operations may exceed the limit of a request.
fn bytes(values: &Values<'_>, field: Field) -> Result<Option<u64>, ValueError> {
    let bytes = values.parsed::<u64>(field, "a whole number below 2^50")?;
    match bytes.filter(|bytes| *bytes >= MOST_BYTES) {
        Some(bytes) => {
            Err(values.error(field, &format!("{bytes} is not a whole number below 2^50")))
        }
        None => Ok(bytes),
    }
}

/// A READ or WRITE, without its bytes, file, user and error.
fn record(values: &Values<'_>, times: &Times, is_write: bool) -> Result<RequestRecord, ValueError> {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let is = |field| Ok::<_, ValueError>(values.flag(field)? == Some(true));
    let parts = values.length_ns(Field::Queue)?;
    let parts = parts.zip(values.length_ns(Field::Rtt)?);
    let (queue_ns, rtt_ns) = parts.unwrap_or_default();
    Ok(RequestRecord {
        end_ns: times.end_ns.max(0).cast_unsigned(),
        latency_ns: times.latency_ns.unwrap_or_default(),
        queue_ns,
        rtt_ns,
        offset: values
            .parsed(Field::Offset, "a whole number that is not negative")?
            .unwrap_or_default(),
        flags: flag(is_write, flags::WRITE)
            | flag(times.latency_ns.is_none(), flags::UNTIMED)
            | flag(parts.is_none(), flags::UNSPLIT)
            | flag(is(Field::Eof)?, flags::EOF)
            | flag(is(Field::Direct)?, flags::DIRECT)
            | flag(is(Field::Stable)?, flags::STABLE)
            | flag(level(values)? == Some(IoLevel::Block), flags::BLOCK)
            | flag(is(Field::Piece)?, flags::PIECE),
        pid: values.count(Field::Pid)?.unwrap_or_default(),
        xid: values.count(Field::Xid)?.unwrap_or_default(),
        retransmissions: values.count(Field::Retrans)?.unwrap_or_default(),
        ..RequestRecord::default()
    })
}
