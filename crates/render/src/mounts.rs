//! Table of mounts.

use trackiops_store::MountSeen;

use crate::table::{ESSENTIAL, KEY, NAME, NONE, Table, Times, left, whole};
use trackiops_query::answer::Answer;
use trackiops_query::times::{Zone, show, show_offset};

pub(super) fn table(answer: &Answer<MountSeen>, zone: Zone) -> Table {
    let times = Times::of(answer, zone, |row| row.seen.0);
    let offset = |row: &MountSeen| [row.seen.0, row.seen.1].map(|at| show_offset(at, zone));
    let mut offsets: Vec<_> = answer.rows.iter().flat_map(offset).collect();
    offsets.dedup();
    let is_one_host = answer
        .rows
        .windows(2)
        .all(|rows| rows[0].host == rows[1].host);
    let mut header = vec![
        whole("first seen").weighs(60),
        whole("last seen").weighs(70),
        whole("device").weighs(65),
        whole("nfs").weighs(80),
    ];
    if !is_one_host {
        header.push(left("host").weighs(KEY));
    }
    header.extend([
        left("mounted at").weighs(NAME),
        whole("namespace").weighs(40),
        left("source").weighs(ESSENTIAL),
        left("options").weighs(50),
    ]);
    let line = |row: &MountSeen| {
        let mount = &row.mount;
        let time = |at| {
            let offset = match offsets.len() {
                1 => String::new(),
                _ => show_offset(at, zone),
            };
            whole(show(at, zone) + &offset)
        };
        let mut cells = vec![
            time(row.seen.0),
            time(row.seen.1),
            whole(mount.dev.to_string()),
            whole(mount.version.as_deref().unwrap_or(NONE)),
        ];
        if !is_one_host {
            cells.push(left(&row.host));
        }
        cells.extend([
            left(&mount.path),
            whole(if mount.is_foreign { "other" } else { "own" }),
            left(&mount.source),
            left(&mount.options),
        ]);
        cells
    };
    Table {
        title: times.title(answer).into_iter().collect(),
        header,
        lines: answer.rows.iter().map(line).collect(),
        is_chosen: false,
    }
}
