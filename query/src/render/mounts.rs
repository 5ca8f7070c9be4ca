//! What was mounted where, for people.

use trackiops_store::MountSeen;

use super::table::{NONE, Table, Times, left, printable};
use crate::answer::Answer;
use crate::times::{Zone, show, show_offset};

pub(super) fn table(answer: &Answer<MountSeen>, zone: Zone) -> Table {
    let times = Times::of(answer, zone, |row| row.seen.0);
    let offset = |row: &MountSeen| [row.seen.0, row.seen.1].map(|at| show_offset(at, zone));
    let mut offsets: Vec<_> = answer.rows.iter().flat_map(offset).collect();
    offsets.dedup();
    let is_one_host = answer
        .rows
        .windows(2)
        .all(|rows| rows[0].host == rows[1].host);
    let mut header = Vec::from(["first seen", "last seen", "device", "nfs"].map(left));
    if !is_one_host {
        header.push(left("host"));
    }
    header.extend(["mounted at", "namespace", "source", "options"].map(left));
    let line = |row: &MountSeen| {
        let mount = &row.mount;
        let time = |at| {
            let offset = match offsets.len() {
                1 => String::new(),
                _ => show_offset(at, zone),
            };
            left(show(at, zone) + &offset)
        };
        let mut cells = vec![
            time(row.seen.0),
            time(row.seen.1),
            left(mount.dev.to_string()),
            left(mount.version.as_deref().unwrap_or(NONE)),
        ];
        if !is_one_host {
            cells.push(left(printable(&row.host)));
        }
        cells.extend([
            left(printable(&mount.path)),
            left(if mount.is_foreign { "other" } else { "own" }),
            left(printable(&mount.source)),
            left(printable(&mount.options)),
        ]);
        cells
    };
    Table {
        title: times.title(answer).into_iter().collect(),
        header,
        lines: answer.rows.iter().map(line).collect(),
    }
}
