//! Parses docs/reference/endings.md: which event ends which command.

use std::collections::BTreeMap;

use rustix::process::Signal;

/// A way to run a command. A column may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Waits for the NFS client, on a host where it is not loaded.
    Record,
    /// Records the level `app`.
    RecordCalls,
    Top,
    TopOfThePast,
    Watch,
    WatchEvents,
    Metrics,
    Serve,
    Import,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Signal(Signal),
    TerminateBlocked,
    Stopped,
    TerminalClosed,
    TerminalClosedUnderNohup,
    ShellKilled,
    ParentKilled,
    ReaderGone,
    InputEnds,
    RecorderEnds,
    StoreGone,
}

/// The rows of the table.
const CASES: [(&str, &[Case]); 12] = [
    (
        "SIGINT (Ctrl-C), SIGTERM",
        &[Case::Signal(Signal::INT), Case::Signal(Signal::TERM)],
    ),
    (
        "SIGTERM, while its terminal or pipe takes no output",
        &[Case::TerminateBlocked],
    ),
    ("SIGTSTP, then `fg`", &[Case::Stopped]),
    ("SIGHUP", &[Case::Signal(Signal::HUP)]),
    ("its terminal is closed", &[Case::TerminalClosed]),
    (
        "its terminal is closed, and SIGHUP is ignored (`nohup`)",
        &[Case::TerminalClosedUnderNohup],
    ),
    (
        "the shell that its terminal belongs to is killed",
        &[Case::ShellKilled],
    ),
    (
        "its parent is killed, and the terminal stays",
        &[Case::ParentKilled],
    ),
    (
        "nobody reads its standard output any more",
        &[Case::ReaderGone],
    ),
    ("its standard input ends", &[Case::InputEnds]),
    ("the recorder ends", &[Case::RecorderEnds]),
    ("the store is moved away or deleted", &[Case::StoreGone]),
];

/// The columns of the table.
const COLUMNS: [(&str, &[Kind]); 6] = [
    ("`record`", &[Kind::Record]),
    ("`top`", &[Kind::Top, Kind::TopOfThePast]),
    ("`watch`", &[Kind::Watch, Kind::WatchEvents]),
    ("`metrics`", &[Kind::Metrics]),
    ("`serve`", &[Kind::Serve]),
    ("`import -`", &[Kind::Import]),
];

/// The entry of the table for each command and case.
pub fn documented() -> Vec<(Kind, Case, bool)> {
    let text = include_str!("../../docs/reference/endings.md");
    let cells = |line: &str| -> Vec<String> {
        let line = line.strip_prefix('|').unwrap().strip_suffix('|').unwrap();
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text.lines().filter(|line| line.starts_with('|'));
    let head = cells(lines.next().unwrap());
    assert_eq!(head[1..], COLUMNS.map(|(title, _)| title.to_owned()));
    let rows: BTreeMap<_, _> = lines
        .skip(1)
        .map(|line| {
            let mut cells = cells(line);
            (cells.remove(0), cells)
        })
        .collect();
    assert_eq!(rows.len(), CASES.len());
    let mut all = Vec::new();
    for (title, cases) in CASES {
        for (cell, (_, kinds)) in rows[title].iter().zip(COLUMNS) {
            let ends = match cell.as_str() {
                "ends" => true,
                "goes on" => false,
                "" => continue,
                other => panic!("{title}: {other}"),
            };
            for case in cases {
                all.extend(kinds.iter().map(|kind| (*kind, *case, ends)));
            }
        }
    }
    all
}
