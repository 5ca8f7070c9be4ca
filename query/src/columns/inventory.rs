//! Columns of lists: files, mounts, and sizes on disk.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use trackiops_schemas::captured::{Stream, StreamBytes};
use trackiops_schemas::columns::{
    CGROUP, CLAIM, CLIENT, DEV, DIRECTION, DIRECTIONS, FILE_KEY, FILEID, HOST, LEVEL, MOUNT,
    MOUNTS, PATH, PID, PROCESS, SERVER, TIME, TRANSPORT, VOLUME, mount_item, time_type,
};
use trackiops_store::{Mark, MountSeen, Seen};

use crate::captures::HostStream;
use crate::column::{Column, Record, Unit, Value};
use crate::events::Event;
use crate::files::FileActivity;
use crate::processes::ProcessActivity;
use crate::stalls::ServerStall;
use crate::volume::Volume;

/// For files: start of the first and end of the last window with requests of the file, or of the file under a name. For
/// mounts: when they were first and last mounted.
const FIRST_SEEN: &str = "first_seen";
const LAST_SEEN: &str = "last_seen";

impl Record for FileActivity {
    fn columns() -> Vec<Column<Self>> {
        let id = |name, get: fn(&Self) -> Value<'static>| {
            Column::new(name, DataType::Int64, Unit::None, move |row: &Self| {
                get(row)
            })
        };
        let [read, write] = DIRECTIONS;
        let count = |direction: &str, of: &str, unit, get: fn(&Self) -> u64| {
            Column::count(&format!("{direction}_{of}"), unit, move |row: &Self| {
                Value::Count(get(row))
            })
        };
        let of_both = |name, unit, get: fn(&Self) -> u64| Column {
            is_usual: false,
            ..Column::count(name, unit, move |row: &Self| Value::Count(get(row)))
        };
        vec![
            Column::text(HOST, |row: &Self| Value::text(&*row.host)),
            Column::text(MOUNT, |row: &Self| {
                Value::some_text(row.file.mount.as_deref())
            }),
            Column::text(PATH, |row: &Self| {
                Value::some_text(row.file.path.as_deref())
            }),
            id(FILE_KEY, |row| Value::Key(row.file.key.0)),
            Column::text(DEV, |row: &Self| Value::text(row.file.dev.to_string())),
            id(FILEID, |row| Value::Fileid(row.file.fileid)),
            Column::time(FIRST_SEEN, |row: &Self| Value::Time(row.history.seen.0)),
            Column::time(LAST_SEEN, |row: &Self| Value::Time(row.history.seen.1)),
            Column::new("names", names_type(), Unit::None, |row: &Self| {
                names(&row.history.names)
            }),
            count(read, "requests", Unit::Count, |row| row.read_requests),
            count(read, "bytes", Unit::Bytes, |row| row.read_bytes),
            count(write, "requests", Unit::Count, |row| row.write_requests),
            count(write, "bytes", Unit::Bytes, |row| row.write_bytes),
            count("app_read", "calls", Unit::Count, |row| row.app_read_calls),
            count("app_read", "called_bytes", Unit::Bytes, |row| {
                row.app_read_called_bytes
            }),
            count("app_write", "calls", Unit::Count, |row| row.app_write_calls),
            count("app_write", "called_bytes", Unit::Bytes, |row| {
                row.app_write_called_bytes
            }),
            of_both("requests", Unit::Count, FileActivity::requests),
            of_both("bytes", Unit::Bytes, FileActivity::bytes),
            of_both("app_calls", Unit::Count, FileActivity::app_calls),
            of_both(
                "app_called_bytes",
                Unit::Bytes,
                FileActivity::app_called_bytes,
            ),
        ]
    }
}

fn names_type() -> DataType {
    let fields = Fields::from(vec![
        Field::new(PATH, DataType::Utf8, false),
        Field::new(FIRST_SEEN, time_type(), false),
        Field::new(LAST_SEEN, time_type(), false),
    ]);
    let element = Field::new("element", DataType::Struct(fields), false);
    DataType::List(Arc::new(element))
}

fn names(names: &[(String, Seen)]) -> Value<'_> {
    let element = |(path, (first, last)): &'_ (String, Seen)| {
        let path = Value::text(path.clone());
        vec![path, Value::Time(*first), Value::Time(*last)]
    };
    Value::List(names.iter().map(element).collect())
}

impl Record for MountSeen {
    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::text(HOST, |row: &Self| Value::text(&row.host)),
            Column::text(DEV, |row: &Self| Value::text(row.mount.dev.to_string())),
            Column::text(MOUNT, |row: &Self| Value::text(&row.mount.mount)),
            Column::text("source", |row: &Self| Value::text(&row.mount.source)),
            Column::text(PATH, |row: &Self| Value::text(&row.mount.path)),
            Column::text("version", |row: &Self| {
                Value::some_text(row.mount.version.as_deref())
            }),
            Column::text("options", |row: &Self| Value::text(&row.mount.options)),
            Column::new(
                "foreign_namespace",
                DataType::Boolean,
                Unit::None,
                |row: &Self| Value::Flag(row.mount.is_foreign),
            ),
            Column::text(VOLUME, |row: &Self| {
                Value::some_text(row.mount.volume.as_deref())
            }),
            Column::text(CLAIM, |row: &Self| {
                Value::some_text(row.mount.claim.as_deref())
            }),
            Column::time(FIRST_SEEN, |row: &Self| Value::Time(row.seen.0)),
            Column::time(LAST_SEEN, |row: &Self| Value::Time(row.seen.1)),
        ]
    }
}

impl Record for ProcessActivity {
    fn columns() -> Vec<Column<Self>> {
        let count = |name, unit, get: fn(&Self) -> u64| {
            Column::count(name, unit, move |row: &Self| Value::Count(get(row)))
        };
        let time = |name, get: fn(&Self) -> Option<f64>| {
            Column::new(
                name,
                DataType::Float64,
                Unit::Microseconds,
                move |row: &Self| Value::some_figure(get(row), Unit::Microseconds),
            )
        };
        vec![
            Column::text(HOST, |row: &Self| Value::text(&*row.host)),
            Column::text(PROCESS, |row: &Self| {
                Value::some_text(row.process.as_deref())
            }),
            Column::new(PID, DataType::Int64, Unit::None, |row: &Self| {
                row.pid.map_or(Value::Null, Value::Int)
            }),
            Column::text(CGROUP, |row: &Self| Value::some_text(row.cgroup.as_deref())),
            Column::text(LEVEL, |row: &Self| Value::text(row.level.as_str())),
            count("requests", Unit::Count, |row| row.requests),
            count("read_bytes", Unit::Bytes, |row| row.read_bytes),
            count("write_bytes", Unit::Bytes, |row| row.write_bytes),
            count("bytes", Unit::Bytes, Self::bytes).only_if_asked(),
            time("latency_us_mean", Self::latency_us_mean),
            time("latency_us_max", Self::latency_us_max),
        ]
    }
}

impl Record for Mark {
    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::time(TIME, |row: &Self| Value::Time(row.time)),
            Column::text(HOST, |row: &Self| Value::text(&row.host)),
            Column::text("text", |row: &Self| Value::text(&row.text)),
        ]
    }
}

impl Record for Event {
    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::time(TIME, |row: &Self| Value::Time(row.time)),
            Column::text(HOST, |row: &Self| Value::text(&row.host)),
            Column::text("kind", |row: &Self| Value::text(row.kind.as_str())),
            Column::text("text", |row: &Self| Value::text(&row.text)),
        ]
    }
}

impl Record for ServerStall {
    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::time("since", |row: &Self| Value::Time(row.stall.range.start)),
            Column::time("until", |row: &Self| Value::Time(row.stall.range.end)),
            Column::text(HOST, |row: &Self| Value::text(&row.host)),
            Column::text(SERVER, |row: &Self| {
                Value::some_text(row.stall.server.address.as_deref())
            }),
            Column::new(
                MOUNTS,
                DataType::List(Arc::new(mount_item())),
                Unit::None,
                |row: &Self| {
                    let mounts = row.stall.server.mounts.iter();
                    Value::List(mounts.map(|mount| vec![Value::text(mount)]).collect())
                },
            ),
            Column::count("age_ms", Unit::Milliseconds, |row: &Self| {
                Value::Count(row.stall.server.age_ms_max)
            }),
            Column::count("requests", Unit::Count, |row: &Self| {
                Value::Count(row.stall.server.requests_max)
            }),
        ]
    }
}

impl Record for HostStream {
    fn columns() -> Vec<Column<Self>> {
        let text = |name, of: fn(&Stream) -> String| {
            Column::text(name, move |row: &Self| {
                let stream = row.captured.stream.as_ref();
                stream.map_or(Value::Null, |stream| Value::text(of(stream)))
            })
        };
        let mut columns = vec![
            Column::time("since", |row: &Self| Value::Time(row.captured.range.start)),
            Column::time("until", |row: &Self| Value::Time(row.captured.range.end)),
            Column::text(HOST, |row: &Self| Value::text(&row.host)),
            text(CLIENT, |stream| stream.client.to_string()),
            text(SERVER, |stream| stream.server.to_string()),
            text(TRANSPORT, |stream| stream.carrier.to_string()),
            text(DIRECTION, |stream| stream.direction.to_string()),
        ];
        let counters = StreamBytes::COUNTERS.iter();
        columns.extend(counters.map(|counter| {
            Column::count(counter.name, counter.unit, |row: &Self| {
                Value::Count((counter.get)(&row.captured.bytes))
            })
        }));
        columns
    }
}

impl Record for Volume {
    fn columns() -> Vec<Column<Self>> {
        let bytes = |name, get: fn(&Self) -> Option<f64>| {
            Column::new(name, DataType::Float64, Unit::Bytes, move |row: &Self| {
                Value::some_figure(get(row), Unit::Bytes)
            })
        };
        vec![
            Column::text("dataset", |row: &Self| Value::text(row.dataset)),
            Column::count("granularity_ms", Unit::None, |row: &Self| {
                Value::Count(row.granularity.ms().unsigned_abs())
            }),
            Column::count("segments", Unit::Count, |row: &Self| {
                Value::Count(row.segments)
            }),
            Column::count("entries", Unit::Count, |row: &Self| {
                Value::Count(row.entries)
            }),
            Column::count("bytes", Unit::Bytes, |row: &Self| Value::Count(row.bytes)),
            bytes("bytes_per_entry", Volume::bytes_per_entry),
            Column::count("paper_bytes", Unit::Bytes, |row: &Self| {
                Value::some_count(row.paper_bytes)
            }),
            bytes("bytes_per_day", |row| row.bytes_per_day),
            bytes("bytes_at_most", |row| row.bytes_at_most),
        ]
    }
}
