//! Table of operations. The mount, or the file, is the last column, as in tables of files.

use crate::file_rows::answered_by;
use crate::table::{Cell, ESSENTIAL, KEY, NAME, NONE, Table, Times, left, right, whole};
use crate::units::{bytes, latency, rate, share};
use trackiops_query::answer::Answer;
use trackiops_query::columns::per_second;
use trackiops_query::operations::OperationAnswer;
use trackiops_query::times::Zone;

pub(super) fn table(answer: &Answer<OperationAnswer>, zone: Zone) -> Table {
    let shape = Shape::of(answer, zone);
    Table {
        title: shape.title(answer),
        header: shape.header(answer),
        lines: answer.rows.iter().map(|row| shape.line(row)).collect(),
        is_chosen: false,
    }
}

/// The columns of a table.
struct Shape {
    times: Times,
    host: bool,
    transport: bool,
    errors: bool,
    tcp: bool,
    mount: bool,
    tenant: bool,
    about: bool,
    /// Whether a row tells network and server apart.
    is_split: bool,
    /// Name of the part of latencies between queue and completion otherwise, as in tables of files.
    answered_by: &'static str,
}

impl Shape {
    fn of(answer: &Answer<OperationAnswer>, zone: Zone) -> Self {
        let rows = &answer.rows;
        let differ = |same: fn(&OperationAnswer, &OperationAnswer) -> bool| {
            rows.windows(2).any(|pair| !same(&pair[0], &pair[1]))
        };
        Self {
            times: Times::of(answer, zone, |row| row.time),
            host: differ(|a, b| a.host == b.host),
            transport: differ(|a, b| a.transport == b.transport),
            errors: rows.iter().any(|row| row.sums.errors > 0),
            tcp: rows.iter().any(|row| row.sums.tcp.readings > 0),
            mount: differ(|a, b| a.mount == b.mount),
            tenant: rows.iter().any(|row| row.tenant.is_known()),
            about: rows.iter().any(|row| row.about.is_some()),
            is_split: rows.iter().any(|row| row.sums.is_split()),
            answered_by: answered_by(rows.iter().map(|row| row.level)),
        }
    }

    /// Facts that all rows share.
    fn title(&self, answer: &Answer<OperationAnswer>) -> Vec<String> {
        let first = answer.rows.first();
        let mount = first
            .filter(|_| !self.mount)
            .and_then(|row| row.mount.as_deref());
        let transport = first
            .filter(|_| !self.transport)
            .and_then(|row| row.transport.as_deref());
        let held = mount.into_iter().chain(transport).map(str::to_owned);
        held.chain(self.times.title(answer)).collect()
    }

    fn header(&self, answer: &Answer<OperationAnswer>) -> Vec<Cell> {
        let first = answer.rows.first();
        let first = first.map_or(answer.range.start, |row| row.time);
        let mut cells: Vec<_> = self.times.header(first).into_iter().collect();
        if self.host {
            cells.push(left("host").weighs(KEY + 1));
        }
        cells.push(left("op").weighs(KEY + 8));
        if self.transport {
            cells.push(left("transport").weighs(KEY + 2));
        }
        let mut figures = vec![
            ("requests", ESSENTIAL + 9),
            ("share", 60),
            ("iops", 70),
            ("sent/op", 30),
            ("received/op", 30),
            ("queue", 50),
        ];
        let whole = [(self.answered_by, 75)];
        figures.extend(match self.is_split {
            true => [("network", 75), ("server", 76), ("unknown", 49)].as_slice(),
            false => &whole,
        });
        figures.extend([("mean", ESSENTIAL + 7), ("p99", ESSENTIAL + 8)]);
        for (figure, weight) in figures {
            cells.push(right(figure).weighs(weight));
        }
        if self.errors {
            cells.push(right("errors").weighs(80));
        }
        if self.tcp {
            for (figure, weight) in [("tcp-rtt", 65), ("tcp-rtt-min", 40), ("tcp-retrans", 64)] {
                cells.push(right(figure).weighs(weight));
            }
        }
        if self.tenant {
            let name = if answer.by.only_users {
                "user"
            } else {
                "tenant"
            };
            cells.push(left(name).weighs(KEY + 3));
        }
        if self.mount {
            cells.push(left("mount").weighs(KEY));
        }
        if self.about {
            cells.push(left("about").weighs(NAME));
        }
        cells
    }

    fn line(&self, row: &OperationAnswer) -> Vec<Cell> {
        let mut cells: Vec<_> = self.times.cell(row.time).into_iter().collect();
        if self.host {
            cells.push(left(&*row.host));
        }
        cells.push(whole(&*row.op));
        if self.transport {
            cells.push(left(row.transport.as_deref().unwrap_or(NONE)));
        }
        let sums = &row.sums;
        let mean_bytes = |sum: Option<u64>| {
            let mean = sums.per_request(sum?)?;
            Some(bytes(mean.round() as u64))
        };
        let mean_time = |ns| row.per_timed(ns).map(|ns| latency(ns / 1000.0));
        let part_of_time = |ns| row.part_per_timed(ns).map(|ns| latency(ns / 1000.0));
        let of_mount = sums.requests as f64 / row.mount_requests.max(1) as f64;
        cells.push(right(sums.requests.to_string()));
        cells.push(right(share(of_mount)));
        let side_of_time = |ns| row.side_per_timed(ns).map(|ns| latency(ns / 1000.0));
        let mut figures = vec![
            per_second(sums.requests, row.covered_ms).map(rate),
            mean_bytes(row.sent_bytes()),
            mean_bytes(row.received_bytes()),
            part_of_time(sums.queue_ns_sum),
        ];
        figures.extend(match self.is_split {
            true => vec![
                side_of_time(sums.network_ns_sum),
                side_of_time(sums.server_ns_sum),
                part_of_time(sums.either_ns_sum()),
            ],
            false => vec![part_of_time(sums.rtt_ns_sum)],
        });
        figures.extend([
            mean_time(sums.execute_ns_sum),
            sums.quantile_us(0.99).map(latency),
        ]);
        let figures = figures.into_iter();
        cells.extend(figures.map(|text| right(text.unwrap_or_else(|| NONE.into()))));
        if self.errors {
            cells.push(right(sums.errors.to_string()));
        }
        if self.tcp {
            let tcp = &sums.tcp;
            let time = |ns: f64| latency(ns / 1000.0);
            let figures = [
                tcp.per_reading(tcp.rtt_ns_sum).map(time),
                (tcp.rtt_ns_min > 0).then(|| time(tcp.rtt_ns_min as f64)),
                (tcp.readings > 0).then(|| tcp.retrans.to_string()),
            ];
            cells.extend(figures.map(|text| right(text.unwrap_or_else(|| NONE.into()))));
        }
        let text = |text: Option<&str>| left(text.unwrap_or(NONE));
        if self.tenant {
            cells.push(text(row.tenant.named().as_deref()));
        }
        if self.mount {
            cells.push(text(row.mount.as_deref()));
        }
        if self.about {
            cells.push(text(row.about.as_ref().map(|about| &*about.shown)));
        }
        cells
    }
}
