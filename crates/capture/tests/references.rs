//! Compares the decoder with tshark and nfstrace.
//!
//! The captures and the references are not in the repository: see `support::captures`.
#![allow(clippy::expect_used)] // helpers of tests are tests

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Found, counted, found_in};
use trackiops_capture::{
    Handle, NFS_PROGRAM, OperationCall, OperationReply, Peers, Report, Request, RpcStatus,
    operation_name, procedure_name,
};

/// Operations of NFSv4.
const COMMIT: u32 = 5;
const GETFH: u32 = 10;
const READ: u32 = 25;
const WRITE: u32 = 38;

type Counts = BTreeMap<(String, String), u64>;

#[test]
fn captures_have_the_messages_that_the_references_list() {
    let Some(folder) = support::captures() else {
        return;
    };
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains(".pcap"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{} has no captures", folder.display());
    let mut differing = 0;
    for path in names {
        let name = path.file_name().expect("a file").to_string_lossy();
        let stem = name.split(".pcap").next().expect("a name");
        let (found, report) = found_in(&support::read(&path));
        let differences = differences(&folder, stem, &found, &report);
        match differences.as_slice() {
            [] => println!(
                "equal    {stem}: {} calls, {} replies, {} answered",
                found.calls.len(),
                found.replies.len(),
                found.requests.len()
            ),
            some => {
                differing += 1;
                println!("differs  {stem}");
                some.iter().take(20).for_each(|line| println!("    {line}"));
                println!("    {:?}", report.total());
            }
        }
    }
    assert_eq!(differing, 0, "captures differ from their references");
}

fn differences(folder: &Path, stem: &str, found: &Found, report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let json = folder.join(format!("{stem}.json"));
    match fs::read_to_string(&json) {
        Ok(text) => {
            let reference: Value = serde_json::from_str(&text).expect("a JSON document");
            lines.extend(by_tshark(&reference, found, report));
            lines.extend(by_nfstrace(&reference, found, report));
        }
        Err(error) => lines.push(format!("{}: {error}", json.display())),
    }
    let messages = folder.join(format!("{stem}.messages.csv"));
    if messages.exists() {
        lines.extend(by_messages(&messages, found));
    }
    lines
}

fn is_nfs(request: &&Request) -> bool {
    request.call.program == NFS_PROGRAM
}

/// tshark counts executed calls by procedure, and counts repeated replies again.
fn by_tshark(reference: &Value, found: &Found, report: &Report) -> Vec<String> {
    let of = |call: &trackiops_capture::Call| {
        let name = procedure_name(call.version, call.procedure).unwrap_or("?");
        (call.version.to_string(), name.to_owned())
    };
    let first = found.requests.iter().filter(is_nfs);
    let first = first.filter(|request| request.reply.status == RpcStatus::Success);
    let mut ours: Counts = counted(first.map(|request| of(&request.call)));
    for (reply, _, is_repeated) in &found.replies {
        if let (Some(call), true) = (&reply.call, *is_repeated) {
            *ours.entry(of(call)).or_default() += 1;
        }
    }
    let mut theirs = Counts::new();
    let versions = reference["tshark_4.0.17_answered"].as_object();
    for (version, procedures) in versions.expect("counts of tshark") {
        for (name, count) in procedures.as_object().expect("procedures") {
            let count = count["answered_calls"].as_u64().expect("a count");
            theirs.insert((version.clone(), name.clone()), count);
        }
    }
    compared("tshark", &ours, &theirs, report.total().holes)
}

/// nfstrace counts all answered calls, and the operations of COMPOUNDs.
fn by_nfstrace(reference: &Value, found: &Found, report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for table in reference["nfstrace_reference"]
        .as_array()
        .unwrap_or(&Vec::new())
    {
        let version = table["version"].as_str().expect("a version");
        let (major, minor) = version.split_once('.').unwrap_or((version, ""));
        let requests = found.requests.iter().filter(is_nfs).filter(|request| {
            request.call.version.to_string() == major
                && match request.call.minor_version {
                    Some(number) => number.to_string() == minor,
                    // NULL has none.
                    None => matches!(minor, "" | "0"),
                }
        });
        let is_of_operations = major == "4" && table["what"] == "operations";
        let names = requests.flat_map(|request| {
            let call = &request.call;
            let names: Vec<String> = if is_of_operations {
                request
                    .reply
                    .operations
                    .iter()
                    .map(|result| name(call.version, result.number))
                    .collect()
            } else {
                vec![
                    procedure_name(call.version, call.procedure)
                        .unwrap_or("?")
                        .to_owned(),
                ]
            };
            names.into_iter().map(|name| (version.to_owned(), name))
        });
        let ours: Counts = counted(names);
        let theirs: Counts = table["counts"]
            .as_object()
            .expect("counts")
            .iter()
            .map(|(name, count)| {
                let key = (version.to_owned(), name.clone());
                (key, count.as_u64().expect("a count"))
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        lines.extend(compared(
            &format!("nfstrace, {}", table["what"]),
            &ours,
            &theirs,
            report.total().holes,
        ));
    }
    lines
}

fn name(version: u32, number: u32) -> String {
    operation_name(version, number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Next to a hole, the other tools lack messages that only lost data, or whose delivery only an acknowledgement proves.
fn compared(who: &str, ours: &Counts, theirs: &Counts, may_have_more: u64) -> Vec<String> {
    let mut keys: Vec<_> = ours.keys().chain(theirs.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut more = 0;
    let mut lines = Vec::new();
    for key in keys {
        let count = |of: &Counts| of.get(key).copied().unwrap_or(0);
        let (ours, theirs) = (count(ours), count(theirs));
        if ours > theirs && more + ours - theirs <= may_have_more {
            more += ours - theirs;
            println!("    beside a hole: {who} has {theirs} {} of {ours}", key.1);
        } else if ours != theirs {
            lines.push(format!("{who}: {} {}: {theirs}, here {ours}", key.0, key.1));
        }
    }
    lines
}

/// A message in the format of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    time_ns: i64,
    source: String,
    destination: String,
    transport: String,
    message: String,
    xid: String,
    version: String,
    procedure: String,
    operations: Vec<String>,
    handle: String,
    offset: String,
    count: String,
    status: String,
    eof: String,
    size: String,
    name: String,
    flavor: String,
}

fn by_messages(path: &Path, found: &Found) -> Vec<String> {
    let mut theirs = listed(path);
    let mut ours = lines_of(found);
    let key = |line: &Line| {
        (
            line.time_ns,
            line.message.clone(),
            line.xid.clone(),
            line.source.clone(),
        )
    };
    theirs.sort_by_key(key);
    ours.sort_by_key(key);
    if ours.len() != theirs.len() {
        let keys = |lines: &[Line]| counted(lines.iter().map(key));
        let (a, b) = (keys(&ours), keys(&theirs));
        let mut lines = vec![format!(
            "list: {} messages, here {}",
            theirs.len(),
            ours.len()
        )];
        lines.extend(
            b.keys()
                .filter(|key| !a.contains_key(key))
                .map(|key| format!("not here: {key:?}")),
        );
        lines.extend(
            a.keys()
                .filter(|key| !b.contains_key(key))
                .map(|key| format!("only here: {key:?}")),
        );
        return lines;
    }
    let pairs = ours.iter_mut().zip(&theirs);
    pairs
        .filter_map(|(ours, theirs)| {
            tolerate(ours, theirs);
            (ours != theirs).then(|| format!("list: {theirs:?}\n    here: {ours:?}"))
        })
        .collect()
}

/// tshark may lack the status of a failed operation. For NFSv2 and v4, it lacks some fields, and lists the first of several operations.
fn tolerate(ours: &mut Line, theirs: &Line) {
    if theirs.status.is_empty() && ours.status != "0" {
        ours.status.clear();
    }
    if ours.version != "3" {
        let fields = [
            (&mut ours.handle, &theirs.handle),
            (&mut ours.offset, &theirs.offset),
            (&mut ours.count, &theirs.count),
            (&mut ours.status, &theirs.status),
            (&mut ours.eof, &theirs.eof),
            (&mut ours.size, &theirs.size),
            (&mut ours.name, &theirs.name),
        ];
        for (ours, theirs) in fields {
            if theirs.is_empty() {
                ours.clear();
            }
        }
        if theirs.operations.is_empty() {
            ours.operations.clear();
        }
    }
}

fn listed(path: &Path) -> Vec<Line> {
    let mut reader = csv::Reader::from_path(path).expect("a list of messages");
    let rows = reader.deserialize::<BTreeMap<String, String>>();
    rows.map(|row| {
        let mut row = row.expect("a row");
        let mut take = |name: &str| row.remove(name).expect(name);
        let (seconds, fraction) = take("time_s")
            .split_once('.')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("a time");
        let fraction = format!("{fraction:0<9}");
        let end = |address: String, port: String| format!("{address} {port}");
        Line {
            time_ns: seconds.parse::<i64>().expect("seconds") * 1_000_000_000
                + fraction.parse::<i64>().expect("ns"),
            source: end(take("src"), take("src_port")),
            destination: end(take("dst"), take("dst_port")),
            transport: take("transport"),
            message: take("message"),
            xid: take("xid"),
            version: take("version"),
            procedure: take("procedure"),
            operations: take("v4_ops")
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            handle: take("fh_crc32"),
            offset: take("offset"),
            count: take("count"),
            status: take("status"),
            eof: take("eof"),
            size: take("file_size"),
            name: take("name"),
            flavor: take("auth_flavor"),
        }
    })
    .collect()
}

fn lines_of(found: &Found) -> Vec<Line> {
    let calls = found
        .calls
        .iter()
        .filter(|(call, ..)| call.program == NFS_PROGRAM);
    let calls = calls.map(|(call, seen, _)| {
        let operations = &call.operations;
        let of_4 = call.version == 4;
        let operation = |number| {
            operations
                .iter()
                .find(|operation: &&OperationCall| operation.number == number)
        };
        let io = if of_4 {
            operation(READ).or(operation(WRITE)).or(operation(COMMIT))
        } else {
            operations.first()
        };
        let first = operations.first();
        Line {
            operations: operations
                .iter()
                .filter(|_| of_4)
                .map(|operation| name(4, operation.number))
                .collect(),
            handle: hash(
                operations
                    .iter()
                    .find_map(|operation| operation.handle.as_ref()),
            ),
            offset: text(io.and_then(|operation| operation.offset)),
            count: text(io.and_then(|operation| operation.count)),
            name: text(
                operations.iter().find_map(named).or(first
                    .and_then(|first| first.target.as_ref())
                    .map(|(_, name)| lossy(name))),
            ),
            flavor: call.credential.flavor.to_string(),
            ..line(
                "call",
                call.peers,
                call.xid,
                seen.end_ns,
                call.version,
                call.procedure,
            )
        }
    });
    let replies = found.replies.iter().filter_map(|(reply, seen, _)| {
        let call = reply
            .call
            .as_ref()
            .filter(|call| call.program == NFS_PROGRAM)?;
        let results = &reply.operations;
        let of_4 = call.version == 4;
        let peers = Peers {
            client: reply.peers.server,
            server: reply.peers.client,
            ..reply.peers
        };
        let first = results.first();
        // A COMPOUND has the status of its last operation.
        let last = if of_4 { results.last() } else { first };
        let found = results
            .iter()
            .find(|result| !of_4 || result.number == GETFH);
        let any = |of: fn(&OperationReply) -> Option<u64>| text(results.iter().find_map(of));
        let entry = first
            .and_then(|result| result.entries.first())
            .map(|entry| &entry.handle);
        Some(Line {
            operations: results
                .iter()
                .filter(|_| of_4)
                .map(|result| name(4, result.number))
                .collect(),
            handle: hash(found.and_then(|result| result.handle.as_ref()).or(entry)),
            count: any(|result| result.count.map(u64::from)),
            status: text(last.and_then(|result| result.status)),
            eof: any(|result| result.is_eof.map(u64::from)),
            size: any(|result| result.attributes.or(result.directory)?.size_bytes),
            ..line(
                "reply",
                peers,
                reply.xid,
                seen.end_ns,
                call.version,
                call.procedure,
            )
        })
    });
    calls.chain(replies).collect()
}

fn line(message: &str, peers: Peers, xid: u32, time_ns: i64, version: u32, procedure: u32) -> Line {
    let end = |end: std::net::SocketAddr| format!("{} {}", end.ip(), end.port());
    Line {
        time_ns,
        source: end(peers.client),
        destination: end(peers.server),
        transport: peers.transport.to_string(),
        message: message.to_owned(),
        xid: xid.to_string(),
        version: version.to_string(),
        procedure: procedure.to_string(),
        ..Line::default()
    }
}

fn named(operation: &OperationCall) -> Option<String> {
    operation.name.as_deref().map(lossy)
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// CRC-32, as Wireshark shows a handle.
fn hash(handle: Option<&Handle>) -> String {
    let Some(Handle(bytes)) = handle else {
        return String::new();
    };
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    });
    format!("0x{:08x}", !crc)
}
