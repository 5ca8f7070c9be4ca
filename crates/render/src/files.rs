//! Table of files. A file with several names has one more line for each of them.

use trackiops_schemas::time::UtcMs;
use trackiops_store::Seen;

use crate::table::{Cell, ESSENTIAL, KEY, NAME, NONE, Table, Times, left, right, whole};
use crate::units::bytes;
use trackiops_query::answer::Answer;
use trackiops_query::files::FileActivity;
use trackiops_query::times::{Zone, show, show_offset};

/// Prefix of each of several names.
const NAMED: &str = "  named ";

pub(super) fn table(answer: &Answer<FileActivity>, zone: Zone) -> Table {
    let shape = Shape::of(answer, zone);
    let times = Times::of(answer, zone, |_| answer.range.start);
    Table {
        title: times.title(answer).into_iter().collect(),
        header: shape.header(),
        lines: answer
            .rows
            .iter()
            .flat_map(|row| shape.lines(row))
            .collect(),
        is_chosen: false,
    }
}

/// The columns of a table.
struct Shape {
    zone: Zone,
    /// The offset that all times share; `None` if they differ, and each time shows its own.
    offset: Option<String>,
    host: bool,
    mount: bool,
    /// Whether there are files without requests, but with calls.
    calls: bool,
}

impl Shape {
    fn of(answer: &Answer<FileActivity>, zone: Zone) -> Self {
        let rows = &answer.rows;
        let differ = |same: fn(&FileActivity, &FileActivity) -> bool| {
            rows.windows(2).any(|pair| !same(&pair[0], &pair[1]))
        };
        let times = rows.iter().flat_map(|row| {
            let (first, last) = row.history.seen;
            [first, last]
        });
        let mut offsets: Vec<_> = times.map(|at| show_offset(at, zone)).collect();
        offsets.dedup();
        Self {
            zone,
            offset: offsets.pop().filter(|_| offsets.is_empty()),
            host: differ(|a, b| a.host == b.host),
            mount: differ(|a, b| a.file.mount == b.file.mount),
            calls: rows.iter().any(|row| row.requests() == 0),
        }
    }

    fn header(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for direction in ["r", "w"] {
            cells.push(right(format!("{direction}-requests")).weighs(80));
            cells.push(right(format!("{direction}-bytes")).weighs(ESSENTIAL + 9));
        }
        if self.calls {
            cells.push(right("calls").weighs(79));
            cells.push(right("called-bytes").weighs(ESSENTIAL + 9));
        }
        for (text, weight) in [("first seen", 70), ("last seen", ESSENTIAL + 8)] {
            let header = match &self.offset {
                Some(offset) => whole(format!("{text} ({offset})")),
                None => whole(text),
            };
            cells.push(header.weighs(weight));
        }
        cells.push(whole("number").weighs(60));
        if self.host {
            cells.push(left("host").weighs(KEY + 1));
        }
        if self.mount {
            cells.push(left("mount").weighs(75));
        }
        cells.push(left("file").weighs(NAME));
        cells
    }

    fn lines(&self, row: &FileActivity) -> Vec<Vec<Cell>> {
        let file = &row.file;
        let mut cells = vec![
            right(row.read_requests.to_string()),
            right(bytes(row.read_bytes)),
            right(row.write_requests.to_string()),
            right(bytes(row.write_bytes)),
        ];
        if self.calls {
            cells.push(right(row.app_calls().to_string()));
            cells.push(right(bytes(row.app_called_bytes())));
        }
        let counts = cells.len();
        cells.extend(self.seen(row.history.seen));
        cells.push(whole(format!("{}:{}", file.dev, file.fileid)));
        if self.host {
            cells.push(left(&*row.host));
        }
        if self.mount {
            cells.push(left(file.mount.as_deref().unwrap_or(NONE)));
        }
        let columns = cells.len();
        cells.push(left(file.name()));
        let mut lines = vec![cells];
        let names = &row.history.names;
        let is_all = names.len() == 1 && file.path.as_ref() == names.first().map(|(n, _)| n);
        for (name, seen) in names.iter().filter(|_| !is_all) {
            let mut cells: Vec<_> = (0..counts).map(|_| right("")).collect();
            cells.extend(self.seen(*seen));
            cells.resize_with(columns, || left(""));
            cells.push(left(format!("{NAMED}{}", name)));
            lines.push(cells);
        }
        lines
    }

    fn seen(&self, (first, last): Seen) -> [Cell; 2] {
        let shown = |at: UtcMs| {
            let offset = match self.offset {
                Some(_) => String::new(),
                None => show_offset(at, self.zone),
            };
            whole(show(at, self.zone) + &offset)
        };
        [shown(first), shown(last)]
    }
}
