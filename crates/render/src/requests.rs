//! Table of single requests.

use trackiops_schemas::columns::{
    ASKED_BYTES, CGROUP, CONTAINER, DONE_BYTES, END_TIME_NS, ERRNO, HOST, LABELS, LEVEL, MOUNT,
    OFFSET_BYTES, OP, PATH, PID, PROCESS, RETRANS, TENANT_NAME, TID, UID, USER, XID,
};
use trackiops_schemas::identity::Tenant;
use trackiops_schemas::time::UtcMs;

use crate::file_rows::answered_by;
use crate::table::{Cell, ESSENTIAL, KEY, NAME, NONE, Table, Times, left, right, whole};
use crate::units::{bytes, latency};
use trackiops_query::answer::Answer;
use trackiops_query::requests::KeptRequest;
use trackiops_query::times::{Zone, show, show_offset};

pub(super) fn table(answer: &Answer<KeptRequest>, zone: Zone) -> Table {
    let shape = Shape::of(answer, zone);
    let times = Times::of(answer, zone, |_| answer.range.start);
    Table {
        title: times.title(answer).into_iter().collect(),
        header: shape.header(),
        lines: answer.rows.iter().map(|row| shape.line(row)).collect(),
        is_chosen: false,
    }
}

/// The columns of a table.
struct Shape {
    zone: Zone,
    host: bool,
    mount: bool,
    tenant: bool,
    retrans: bool,
    errors: bool,
    level: bool,
    /// Whether there are calls of applications.
    calls: bool,
    requests: bool,
    processes: bool,
    /// Name of the part of latencies between queue and completion.
    answered_by: &'static str,
    offset: String,
}

impl Shape {
    fn of(answer: &Answer<KeptRequest>, zone: Zone) -> Self {
        let rows = &answer.rows;
        let differ = |column| {
            rows.windows(2)
                .any(|pair| pair[0].text(column) != pair[1].text(column))
        };
        let is_any = |column| {
            rows.iter()
                .any(|row| row.number(column).is_some_and(|n| n != 0))
        };
        Self {
            zone,
            host: differ(HOST),
            mount: differ(MOUNT),
            tenant: rows.iter().any(|row| tenant(row).is_known()),
            retrans: is_any(RETRANS),
            errors: is_any(ERRNO),
            level: differ(LEVEL),
            calls: rows.iter().any(is_call),
            requests: !rows.iter().all(is_call),
            processes: rows.iter().any(|row| row.text(PROCESS).is_some()),
            answered_by: answered_by(rows.iter().map(|row| {
                row.text(LEVEL)
                    .and_then(|level| level.parse().ok())
                    .unwrap_or_default()
            })),
            offset: show_offset(answer.range.start, zone),
        }
    }

    fn header(&self) -> Vec<Cell> {
        let mut cells = vec![
            whole(format!("completed ({})", self.offset)).weighs(ESSENTIAL + 7),
            whole("op").weighs(KEY + 8),
        ];
        cells.push(right("latency").weighs(ESSENTIAL + 9));
        if self.requests {
            for (text, weight) in [("queue", 80), (self.answered_by, 80), ("completion", 79)] {
                cells.push(right(text).weighs(weight));
            }
        }
        cells.push(right("offset").weighs(ESSENTIAL + 6));
        if self.requests {
            cells.push(right("asked").weighs(60));
        }
        cells.push(right("done").weighs(70));
        if self.retrans {
            cells.push(right("retrans").weighs(90));
        }
        if self.errors {
            cells.push(right("errno").weighs(95));
        }
        if self.requests {
            cells.push(right("xid").weighs(50));
        }
        if self.processes {
            cells.push(left("process").weighs(43));
        }
        cells.push(right("pid").weighs(40));
        if self.calls {
            cells.push(right("tid").weighs(41));
        }
        if self.host {
            cells.push(left("host").weighs(KEY + 1));
        }
        if self.tenant {
            cells.push(left("tenant").weighs(45));
        }
        if self.level {
            cells.push(left("level").weighs(KEY + 2));
        }
        if self.mount {
            cells.push(left("mount").weighs(75));
        }
        cells.push(left("file").weighs(NAME));
        cells
    }

    fn line(&self, row: &KeptRequest) -> Vec<Cell> {
        let number = |column| match row.number(column) {
            Some(number) => right(number.to_string()),
            None => right(NONE),
        };
        let size = |column| match row.number(column).and_then(|n| u64::try_from(n).ok()) {
            Some(number) => right(bytes(number)),
            None => right(NONE),
        };
        let text = |column| left(row.text(column).unwrap_or(NONE));
        let (all, [queue, network, completion]) = row.latency_us();
        let mut cells = vec![
            whole(self.time(row.number(END_TIME_NS).unwrap_or(0))),
            whole(row.text(OP).unwrap_or(NONE)),
        ];
        let time = |us: Option<f64>| right(us.map_or_else(|| NONE.into(), latency));
        cells.push(time(all));
        if self.requests {
            cells.extend([queue, network, completion].map(time));
        }
        cells.push(number(OFFSET_BYTES));
        if self.requests {
            cells.push(size(ASKED_BYTES));
        }
        cells.push(size(DONE_BYTES));
        if self.retrans {
            cells.push(number(RETRANS));
        }
        if self.errors {
            cells.push(number(ERRNO));
        }
        if self.requests {
            cells.push(number(XID));
        }
        if self.processes {
            cells.push(text(PROCESS));
        }
        cells.push(number(PID));
        if self.calls {
            cells.push(number(TID));
        }
        if self.host {
            cells.push(text(HOST));
        }
        if self.tenant {
            let tenant = tenant(row).named();
            cells.push(left(tenant.as_deref().unwrap_or(NONE)));
        }
        if self.level {
            cells.push(text(LEVEL));
        }
        if self.mount {
            cells.push(text(MOUNT));
        }
        cells.push(text(PATH));
        cells
    }

    /// A time with microseconds.
    fn time(&self, ns: i64) -> String {
        let second = UtcMs(ns.div_euclid(1_000_000_000) * 1000);
        let us = ns.rem_euclid(1_000_000_000) / 1000;
        format!("{}.{us:06}", show(second, self.zone))
    }
}

fn is_call(row: &KeptRequest) -> bool {
    row.number(TID).is_some()
}

fn tenant(row: &KeptRequest) -> Tenant {
    let text = |column| row.text(column).map(Into::into);
    Tenant {
        uid: row.number(UID).and_then(|uid| u32::try_from(uid).ok()),
        user: text(USER),
        cgroup: text(CGROUP),
        container: text(CONTAINER),
        name: text(TENANT_NAME),
        labels: text(LABELS),
    }
}
