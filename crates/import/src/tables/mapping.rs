//! Maps columns of a table to fields of a request.

use std::str::FromStr;

use trackiops_schemas::columns;
use trackiops_schemas::shortened::{short_list, short_name};

/// A field of a request. The order is the order of [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// When it completed.
    Time,
    /// When it began.
    Start,
    /// READ, WRITE, or another operation.
    Op,
    /// Bytes transferred.
    Bytes,
    /// Requested bytes.
    Asked,
    /// First byte.
    Offset,
    /// Latency.
    Latency,
    /// Time in the client's queue.
    Queue,
    /// Time from transmission to reply.
    Rtt,
    /// The host that sent it.
    Host,
    /// `server:/export`.
    Mount,
    /// The file's path.
    Path,
    /// Whether the path was inferred.
    PathInferred,
    /// The file's number.
    Fileid,
    /// Key of the file on all hosts.
    Key,
    /// `major:minor`.
    Dev,
    /// User.
    Uid,
    /// The user's name.
    User,
    /// Path of the cgroup.
    Cgroup,
    /// Names of the container.
    Container,
    /// Name of the tenant.
    Tenant,
    /// Labels of the tenant.
    Labels,
    /// Process.
    Pid,
    /// Error, as in errno(3).
    Errno,
    /// Transaction id.
    Xid,
    /// How often it was sent again.
    Retrans,
    /// Whether a READ reached the end of the file.
    Eof,
    /// Whether it bypassed the page cache.
    Direct,
    /// Whether a WRITE asked for stable storage.
    Stable,
    /// Its level.
    Level,
    /// Whether it continues a request of another row.
    Piece,
}

/// Fields with their names and their columns in an export, the better one first.
pub const FIELDS: [(Field, &str, &[&str]); 31] = [
    (
        Field::Time,
        "time",
        &[columns::END_TIME_NS, columns::END_TIME],
    ),
    (Field::Start, "start", &[]),
    (Field::Op, "op", &[columns::OP]),
    (Field::Bytes, "bytes", &[columns::DONE_BYTES]),
    (Field::Asked, "asked", &[columns::ASKED_BYTES]),
    (Field::Offset, "offset", &[columns::OFFSET_BYTES]),
    (Field::Latency, "latency", &[columns::LATENCY_NS]),
    (Field::Queue, "queue", &[columns::QUEUE_NS]),
    (Field::Rtt, "rtt", &[columns::RTT_NS]),
    (Field::Host, "host", &[columns::HOST]),
    (Field::Mount, "mount", &[columns::MOUNT]),
    (Field::Path, "path", &[columns::PATH]),
    (
        Field::PathInferred,
        "path_inferred",
        &[columns::PATH_INFERRED],
    ),
    (Field::Fileid, "fileid", &[columns::FILEID]),
    (Field::Key, "file_key", &[columns::FILE_KEY]),
    (Field::Dev, "dev", &[columns::DEV]),
    (Field::Uid, "uid", &[columns::UID]),
    (Field::User, "user", &[columns::USER]),
    (Field::Cgroup, "cgroup", &[columns::CGROUP]),
    (Field::Container, "container", &[columns::CONTAINER]),
    (Field::Tenant, "tenant", &[columns::TENANT_NAME]),
    (Field::Labels, "labels", &[columns::LABELS]),
    (Field::Pid, "pid", &[columns::PID]),
    (Field::Errno, "errno", &[columns::ERRNO]),
    (Field::Xid, "xid", &[columns::XID]),
    (Field::Retrans, "retrans", &[columns::RETRANS]),
    (Field::Eof, "eof", &[columns::EOF]),
    (Field::Direct, "direct", &[columns::DIRECT]),
    (Field::Stable, "stable", &[columns::STABLE]),
    (Field::Level, "level", &[columns::LEVEL]),
    (Field::Piece, "piece", &[columns::PIECE]),
];

fn field_names() -> String {
    FIELDS.map(|(_, name, _)| name).join(", ")
}

/// The unit of a column of times, or their text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Units of this many ns; fractions are allowed.
    Ns(i64),
    /// A date, as `2026-11-21T03:00:00.5Z`.
    Rfc3339,
}

impl Unit {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "s" => Self::Ns(1_000_000_000),
            "ms" => Self::Ns(1_000_000),
            "us" => Self::Ns(1_000),
            "ns" => Self::Ns(1),
            "rfc3339" => Self::Rfc3339,
            _ => return None,
        })
    }
}

/// Why a mapping is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// It does not name a column.
    #[error("write FIELD=COLUMN, such as time=start_time:ms")]
    NoColumn,
    /// There is no field of this name.
    #[error("`{0}` is no field; fields are {fields}", fields = field_names())]
    NoField(String),
    /// The field of this name does not have the unit.
    #[error("`{0}` does not have that unit; leave it out")]
    OtherUnit(String),
}

/// Why the columns of a table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsError {
    /// A mapping names a column that the table does not have.
    #[error("there is no column `{column}`; the columns are {columns}")]
    Missing {
        /// The column.
        column: String,
        /// The columns of the table.
        columns: String,
    },
    /// This column has durations, and its name does not end with a unit.
    #[error("the unit of column `{0}` is not known; name it in --map, such as latency={0}:ms")]
    NoUnit(String),
    /// No column is known to have a field that every request needs.
    #[error(
        "no column has {what} of a request; name one with --map {field}=COLUMN, or call it {known}; the columns are {columns}"
    )]
    Lacking {
        /// The field in words.
        what: &'static str,
        /// The field in a mapping.
        field: &'static str,
        /// Names of columns that are found without a mapping.
        known: &'static str,
        /// The columns of the table.
        columns: String,
    },
}

/// `FIELD=COLUMN`, or `FIELD=COLUMN:UNIT`.
#[derive(Clone, Debug)]
pub struct Mapping {
    field: Field,
    column: String,
    unit: Option<Unit>,
}

impl FromStr for Mapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        let Some((name, column)) = text.split_once('=') else {
            return Err(MappingError::NoColumn);
        };
        let found = FIELDS.iter().find(|(_, field, _)| *field == name);
        let Some((field, ..)) = found else {
            return Err(MappingError::NoField(name.to_owned()));
        };
        let with_unit = column.rsplit_once(':');
        let with_unit = with_unit.and_then(|(column, unit)| Some((column, Unit::named(unit)?)));
        let (column, unit) = match with_unit {
            Some((column, unit)) => (column, Some(unit)),
            None => (column, None),
        };
        let is_time = field.is_time() || field.is_length();
        if unit.is_some() && !is_time || unit == Some(Unit::Rfc3339) && field.is_length() {
            return Err(MappingError::OtherUnit(name.to_owned()));
        }
        Ok(Self {
            field: *field,
            column: column.to_owned(),
            unit,
        })
    }
}

impl Field {
    fn is_time(self) -> bool {
        matches!(self, Self::Time | Self::Start)
    }

    fn is_length(self) -> bool {
        matches!(self, Self::Latency | Self::Queue | Self::Rtt)
    }

    /// Whether a column has the field's name `own`, or if it is a time or a duration that name and a unit: `latency_us`. A duration
    /// without a unit does not count, because its unit would be a guess.
    fn is_name(self, own: &str, column: &str) -> bool {
        let ending = column
            .strip_prefix(own)
            .and_then(|rest| rest.strip_prefix('_'));
        match ending.and_then(Unit::named) {
            Some(Unit::Ns(_)) => self.is_time() || self.is_length(),
            Some(Unit::Rfc3339) => self.is_time(),
            None => column == own && !self.is_length(),
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Index of the column.
    pub column: usize,
    /// Unit of its times.
    pub unit: Unit,
}

/// Columns of an export that are not imported, as the guide says.
const NOT_IMPORTED: [&str; 1] = [columns::PROCESS];

/// The columns of a table, by field.
pub struct Columns {
    places: [Option<Place>; FIELDS.len()],
}

impl Columns {
    /// Finds the mapped columns, and columns with the names of an export or of a field.
    pub fn of(header: &[String], mappings: &[Mapping]) -> Result<Self, ColumnsError> {
        let all = || short_list(header.iter().map(String::as_str));
        let position = |name: &str| header.iter().position(|column| column == name);
        let mut places = [None; FIELDS.len()];
        for (field, own, names) in FIELDS {
            let mapped = mappings.iter().rfind(|mapping| mapping.field == field);
            let (column, unit) = match mapped {
                Some(mapping) => match position(&mapping.column) {
                    Some(column) => (column, mapping.unit),
                    None => {
                        return Err(ColumnsError::Missing {
                            column: mapping.column.clone(),
                            columns: all(),
                        });
                    }
                },
                None => {
                    let of_export = names.iter().find_map(|name| position(name));
                    let is_free = |column: &str| {
                        let bare_start = field == Field::Start && column == own;
                        // With a time of completion, a column `start` may be anything.
                        let may_be_anything = bare_start && places[Field::Time as usize].is_some();
                        let is_named = mappings.iter().any(|mapping| mapping.column == column);
                        !may_be_anything && !is_named
                    };
                    let is_own =
                        |column: &String| field.is_name(own, column) && is_free(column.as_str());
                    match of_export.or_else(|| header.iter().position(is_own)) {
                        Some(column) => (column, None),
                        None => continue,
                    }
                }
            };
            let unit = unit.or_else(|| {
                let ending = header[column].rsplit('_').next();
                ending.and_then(Unit::named)
            });
            let unit = match unit {
                None if field.is_length() => {
                    let name = short_name(&header[column]);
                    return Err(ColumnsError::NoUnit(name.into_owned()));
                }
                unit => unit.unwrap_or(Unit::Rfc3339),
            };
            places[field as usize] = Some(Place { column, unit });
        }
        let columns = Self { places };
        let lacks = |field| columns.place(field).is_none();
        let lacking = [
            (
                lacks(Field::Time) && lacks(Field::Start),
                "time",
                "a time",
                "time, time_ms, start, start_ms, end_time or end_time_ns",
            ),
            (lacks(Field::Op), "op", "an operation", "op"),
            (lacks(Field::Bytes), "bytes", "bytes", "bytes or done_bytes"),
        ];
        if let Some((_, field, what, known)) = lacking.into_iter().find(|(lacks, ..)| *lacks) {
            return Err(ColumnsError::Lacking {
                what,
                field,
                known,
                columns: all(),
            });
        }
        Ok(columns)
    }

    /// The columns that are not used, and do not have a name of an export.
    pub fn unused<'h>(&self, header: &'h [String]) -> Vec<&'h str> {
        let is_used = |column| {
            self.places
                .iter()
                .flatten()
                .any(|place| place.column == column)
        };
        let is_known = |name: &str| FIELDS.iter().any(|(_, _, names)| names.contains(&name));
        let unused = header.iter().enumerate().filter(|(column, name)| {
            !is_used(*column) && !is_known(name) && !NOT_IMPORTED.contains(&name.as_str())
        });
        unused.map(|(_, name)| name.as_str()).collect()
    }

    /// The column of a field.
    pub fn place(&self, field: Field) -> Option<Place> {
        self.places[field as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_their_order() {
        for (place, (field, ..)) in FIELDS.iter().enumerate() {
            assert_eq!(*field as usize, place);
        }
    }

    fn found(header: &str, map: &str) -> Result<Vec<(Field, usize, Unit)>, ColumnsError> {
        let header: Vec<_> = header.split(',').map(str::to_owned).collect();
        let mappings = map.split(',').filter(|text| !text.is_empty());
        let mappings: Vec<Mapping> = mappings.map(|text| text.parse().unwrap()).collect();
        let columns = Columns::of(&header, &mappings)?;
        let place = |field| Some((field, columns.place(field)?));
        let places = FIELDS.iter().filter_map(|(field, ..)| place(*field));
        Ok(places
            .map(|(field, place)| (field, place.column, place.unit))
            .collect())
    }

    #[test]
    fn columns_with_the_names_of_fields_are_found() {
        let date = Unit::Rfc3339;
        assert_eq!(
            found("time,op,bytes,latency_us", "").unwrap(),
            [
                (Field::Time, 0, date),
                (Field::Op, 1, date),
                (Field::Bytes, 2, date),
                (Field::Latency, 3, Unit::Ns(1000)),
            ]
        );
        let times = found("start_ms,time_s,op,bytes", "").unwrap();
        assert_eq!(times[0], (Field::Time, 1, Unit::Ns(1_000_000_000)));
        assert_eq!(times[1], (Field::Start, 0, Unit::Ns(1_000_000)));
        // The unit of a bare duration would be a guess, and a start beside a time may be anything.
        let fields = |header, map| {
            let found = found(header, map).unwrap().into_iter();
            found.map(|(field, ..)| field).collect::<Vec<_>>()
        };
        let needed = [Field::Time, Field::Op, Field::Bytes];
        assert_eq!(fields("time,start,op,bytes,latency", ""), needed);
        // Names of an export come first, and a mapped column has no other field.
        assert_eq!(found("bytes,done_bytes,op,time", "").unwrap()[2].1, 1);
        assert_eq!(
            fields("time,op,bytes", "start=time:ms"),
            [Field::Start, Field::Op, Field::Bytes]
        );
        let error = found("when,op,bytes", "").unwrap_err().to_string();
        assert!(
            error.contains("--map time=COLUMN, or call it time, time_ms"),
            "{error}"
        );
    }

    #[test]
    fn a_mapping_has_a_unit_where_its_field_is_a_time() {
        let unit = |text: &str| text.parse::<Mapping>().map(|mapping| mapping.unit);
        assert_eq!(unit("time=when:ms"), Ok(Some(Unit::Ns(1_000_000))));
        assert_eq!(unit("latency=a:b:us"), Ok(Some(Unit::Ns(1_000))));
        assert_eq!(unit("path=a:b"), Ok(None));
        for wrong in ["time", "when=time", "bytes=n:ms", "latency=l:rfc3339"] {
            assert!(unit(wrong).is_err(), "{wrong}");
        }
    }
}
