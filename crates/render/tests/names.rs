//! A name refers to the file that had it at the time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use trackiops_query::{
    Columns, EmptyReason, Entity, FileSelector, GroupBy, Outcome, Question, Step, ask, ask_files,
};
use trackiops_render::Format;
use trackiops_render::formats::Texts;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, OTHERS};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{Numbers, THREE, file, health};
use trackiops_testkit::questions::{found, question, range, select};
use trackiops_testkit::stores::{append, options_of};

const LIST: &str = "1s,10s,1m,1h";
const COUNT: i64 = 150;

/// Requests with distinct counts: a sum shows which windows it contains.
fn requests(numbers: &mut Numbers) -> Row {
    let mut row = Row::default();
    for direction in [&mut row.read, &mut row.write] {
        direction.requests = 1 + numbers.below(1 << 20);
        direction.bytes = numbers.below(1 << 30);
        direction.untimed = direction.requests;
    }
    row
}

/// Names of a file at a second of the recording, below /mnt.
fn name_at(fileid: u64, second: i64) -> Vec<Option<&'static str>> {
    match fileid {
        // Renamed twice within one window of 10 s, and back.
        1 if (33..37).contains(&second) => vec![Some("/mnt/tmp/one.new")],
        1 => vec![Some("/mnt/db/one.db")],
        // Takes a name that another file gives up.
        2 if second < 64 => vec![Some("/mnt/db/log")],
        2 => vec![Some("/mnt/db/log.1")],
        3 if second < 64 => vec![],
        3 => vec![Some("/mnt/db/log")],
        // Two names at the same time.
        4 => vec![Some("/mnt/db/hard"), Some("/mnt/logs/link")],
        // Its name is found late.
        5 if second < 5 => vec![None],
        5 => vec![Some("/mnt/logs/two\nlines \u{e9}")],
        // Its name is never found.
        6 => vec![None],
        // Its name is lost for a while, before and after it is renamed.
        7 if second < 40 => vec![Some("/mnt/db/a[1]")],
        7 if !(50..=110).contains(&second) => vec![None],
        7 => vec![Some("/mnt/db/deep/er/b")],
        _ => vec![Some(OTHERS)],
    }
}

fn windows_with_names() -> Vec<ClosedWindow> {
    let mut numbers = Numbers(11);
    let window = |i| {
        let mut rows = Vec::new();
        for fileid in 1..9 {
            for path in name_at(fileid, i) {
                let file = match fileid {
                    8 => others(),
                    _ => file(fileid, path),
                };
                let row = requests(&mut numbers);
                rows.push(FileRow { file, row });
            }
        }
        rows.sort_by_key(|row| row.file.key);
        ClosedWindow {
            start: UtcMs(THREE + i * 1000),
            ops: Vec::new(),
            health: health(1000, &rows),
            rows,
        }
    };
    (0..COUNT).map(window).collect()
}

fn others() -> Arc<FileAttributes> {
    let id = FileId::others(Dev(49));
    Arc::new(FileAttributes {
        key: FileKey::new(Some("srv:/even"), id),
        id,
        mount: Some("srv:/even".into()),
        path: Some(OTHERS.into()),
        path_inferred: false,
        tenant: Default::default(),
        level: Default::default(),
    })
}

/// Requests and bytes of the rows that count, in windows that start in `[since, until)`.
fn sum(
    windows: &[ClosedWindow],
    (since, until): (i64, i64),
    counts: impl Fn(i64, &FileAttributes) -> bool,
) -> [u64; 2] {
    let mut sum = [0, 0];
    for window in windows {
        let second = (window.start.0 - THREE) / 1000;
        if (since..until).contains(&second) {
            for row in window.rows.iter().filter(|row| counts(second, &row.file)) {
                sum[0] += row.row.read.requests + row.row.write.requests;
                sum[1] += row.row.read.bytes + row.row.write.bytes;
            }
        }
    }
    sum
}

fn totals(outcome: &Outcome) -> [u64; 2] {
    let Outcome::Found(answer) = outcome else {
        return [0, 0];
    };
    answer.rows.iter().fold([0, 0], |[requests, bytes], row| {
        let [r, w] = [row.sum.read(), row.sum.write()];
        [
            requests + r.requests + w.requests,
            bytes + r.bytes + w.bytes,
        ]
    })
}

/// Runs `check` while the last journal is open, and again after it is sealed.
fn open_and_sealed(check: impl Fn(&Path, &[ClosedWindow])) {
    let dir = tempfile::tempdir().unwrap();
    let recorded = windows_with_names();
    let writer = append(dir.path(), options_of("a", LIST, "1m"), &recorded);
    check(dir.path(), &recorded);
    writer.finish().unwrap();
    check(dir.path(), &recorded);
}

const RANGES: [(i64, i64); 6] = [(0, COUNT), (0, 60), (34, 36), (36, 65), (60, 120), (63, 64)];

fn in_range(store: &Path, (since, until): (i64, i64), step: &str) -> Question {
    let mut asked = question(store);
    asked.range = range(THREE + since * 1000, THREE + until * 1000);
    asked.step = Some(step.parse().unwrap());
    asked
}

#[test]
fn each_name_has_the_requests_of_its_time_at_every_step_and_edge() {
    let exactly = |names: &'static [&'static str]| {
        move |_: i64, file: &FileAttributes| names.iter().any(|n| file.path.as_deref() == Some(n))
    };
    type Counts = Box<dyn Fn(i64, &FileAttributes) -> bool>;
    let cases: Vec<(&[&str], Counts)> = vec![
        (&["/mnt/db/one.db"], Box::new(exactly(&["/mnt/db/one.db"]))),
        (&["/mnt/tmp/*"], Box::new(exactly(&["/mnt/tmp/one.new"]))),
        (&["/mnt/db/log"], Box::new(exactly(&["/mnt/db/log"]))),
        (&["/mnt/db/log.1"], Box::new(exactly(&["/mnt/db/log.1"]))),
        (
            &["/mnt/db/log*"],
            Box::new(exactly(&["/mnt/db/log", "/mnt/db/log.1"])),
        ),
        (
            &["/mnt/db/log.?", "/mnt/tmp/**"],
            Box::new(exactly(&["/mnt/db/log.1", "/mnt/tmp/one.new"])),
        ),
        (&["/mnt/logs/l*k"], Box::new(exactly(&["/mnt/logs/link"]))),
        // Rows without a name take the previous name, or else the first one.
        (&["/mnt/logs/two*"], Box::new(|_, file| file.id.fileid == 5)),
        (
            &["/mnt/db/a[1]"],
            Box::new(|second, file| file.id.fileid == 7 && second < 50),
        ),
        (
            &["/mnt/db/*/**"],
            Box::new(|second, file| file.id.fileid == 7 && second >= 50),
        ),
        (
            &["0:50:7", "/mnt/db/a*"],
            Box::new(|_, file| file.id.fileid == 7),
        ),
        (&["0:49:0"], Box::new(|_, file| file.id.fileid == 0)),
        (
            &["/**"],
            Box::new(|_, file| ![0, 6].contains(&file.id.fileid)),
        ),
    ];
    open_and_sealed(|store, recorded| {
        for (selectors, counts) in &cases {
            for range in RANGES {
                for step in ["1s", "10s", "1m", "1h", "all"] {
                    let mut asked = in_range(store, range, step);
                    asked.files = selectors.iter().map(|text| select(text)).collect();
                    let expected = sum(recorded, range, counts);
                    let got = totals(&ask(&asked).unwrap());
                    assert_eq!(got, expected, "{selectors:?} {range:?} {step}");
                }
            }
        }
    });
}

#[test]
fn a_range_ends_where_a_name_does() {
    open_and_sealed(|store, _| {
        let mut asked = in_range(store, (0, COUNT), "1s");
        asked.files = vec![select("/mnt/tmp/one.new")];
        let seconds: Vec<_> = found(&asked)
            .rows
            .iter()
            .map(|row| row.time.0 - THREE)
            .collect();
        assert_eq!(seconds, [33_000, 34_000, 35_000, 36_000]);
    });
}

#[test]
fn directories_mounts_and_hosts_are_sums_that_leave_nothing_out() {
    type DirOf = fn(&str) -> &'static str;
    let depths: [(&str, usize, DirOf); 4] = [
        ("", 0, |_| "/mnt"),
        ("", 1, |path| match &path[..8] {
            "/mnt/db/" => "/mnt/db",
            "/mnt/tmp" => "/mnt/tmp",
            _ => "/mnt/logs",
        }),
        ("", 9, |path| match path {
            "/mnt/db/deep/er/b" => "/mnt/db/deep/er",
            _ if path.starts_with("/mnt/db/") => "/mnt/db",
            _ if path.starts_with("/mnt/tmp") => "/mnt/tmp",
            _ => "/mnt/logs",
        }),
        ("/mnt/db", 1, |path| match path {
            "/mnt/db/deep/er/b" => "/mnt/db/deep",
            _ => "/mnt/db",
        }),
    ];
    open_and_sealed(|store, recorded| {
        for range in RANGES {
            for (below, depth, dir_of) in depths {
                let mut asked = in_range(store, range, "all");
                asked.by = GroupBy::dir(depth);
                if !below.is_empty() {
                    asked.files = vec![FileSelector::below(Path::new(below)).unwrap()];
                }
                let mut got = BTreeMap::new();
                for row in found(&asked).rows {
                    assert!(row.file.is_none());
                    let Entity::Dir(mount, dir) = &row.of else {
                        panic!("{row:?}");
                    };
                    let sum: &mut u64 = got.entry((mount.clone(), dir.clone())).or_default();
                    *sum += row.sum.bytes();
                }
                let mut expected = BTreeMap::new();
                for window in recorded {
                    let second = (window.start.0 - THREE) / 1000;
                    for FileRow { file, row } in &window.rows {
                        let path = match &file.path {
                            // As above: file 7 had a name below it at all times.
                            None if !below.is_empty() && file.id.fileid == 7 => None,
                            Some(path) if below.is_empty() || path.starts_with("/mnt/db/") => {
                                Some(&**path)
                            }
                            None if below.is_empty() => None,
                            _ => continue,
                        };
                        if (range.0..range.1).contains(&second) {
                            let dir = path.map(|path| match path {
                                OTHERS => OTHERS,
                                // The common directory of a mount depends on its own names.
                                _ => dir_of(path),
                            });
                            let key = (file.mount.as_deref().map(Arc::from), dir.map(Arc::from));
                            *expected.entry(key).or_default() += row.read.bytes + row.write.bytes;
                        }
                    }
                }
                assert_eq!(got, expected, "{range:?} {below} {depth}");
            }
            let everything = sum(recorded, range, |_, _| true);
            for by in [
                GroupBy::FILE,
                GroupBy::FILE_TENANT,
                GroupBy::NAME,
                GroupBy::MOUNT,
                GroupBy::HOST,
            ] {
                for step in ["1s", "1m", "all"] {
                    let mut asked = in_range(store, range, step);
                    asked.by = by;
                    assert_eq!(
                        totals(&ask(&asked).unwrap()),
                        everything,
                        "{range:?} {by:?}"
                    );
                }
            }
            let mut asked = in_range(store, range, "all");
            asked.by = GroupBy::MOUNT;
            for row in found(&asked).rows {
                let of = |_: i64, file: &FileAttributes| file.mount.as_deref() == row.mount();
                let got = row.sum.bytes();
                assert_eq!(got, sum(recorded, range, of)[1]);
            }
        }
    });
}

#[test]
fn the_top_directories_are_those_with_the_most_bytes() {
    open_and_sealed(|store, _| {
        let mut asked = in_range(store, (0, COUNT), "all");
        asked.by = GroupBy::dir(1);
        let all: Vec<_> = found(&asked).rows.into_iter().map(|row| row.of).collect();
        asked.top = std::num::NonZeroUsize::new(2);
        let top: Vec<_> = found(&asked).rows.into_iter().map(|row| row.of).collect();
        assert_eq!(top, all[..2]);
        asked.step = Some("10s".parse().unwrap());
        let rows = found(&asked).rows;
        assert!(rows.len() > 20 && rows.iter().all(|row| top.contains(&row.of)));
        assert!(rows.is_sorted_by_key(|row| (top.iter().position(|of| *of == row.of), row.time)));
    });
}

#[test]
fn files_are_listed_with_all_their_names_and_when_these_held() {
    open_and_sealed(|store, recorded| {
        let mut asked = in_range(store, (0, COUNT), "all");
        asked.files = vec![select("/mnt/db/*"), select("/mnt/logs/*")];
        let Outcome::Found(answer) = ask_files(&asked).unwrap() else {
            panic!("nothing found");
        };
        let at = |second: i64| UtcMs(THREE + second * 1000);
        let listed: Vec<_> = answer
            .rows
            .iter()
            .map(|row| {
                let names = row.history.names.iter();
                let names = names.map(|(name, (first, last))| (name.as_str(), (*first, *last)));
                (row.file.fileid, row.history.seen, names.collect::<Vec<_>>())
            })
            .collect();
        let whole = (at(0), at(COUNT));
        let two_lines = "/mnt/logs/two\nlines \u{e9}";
        assert_eq!(
            listed,
            [
                (
                    7,
                    whole,
                    vec![
                        ("/mnt/db/a[1]", (at(0), at(40))),
                        ("/mnt/db/deep/er/b", (at(50), at(111)))
                    ]
                ),
                (
                    3,
                    (at(64), at(COUNT)),
                    vec![("/mnt/db/log", (at(64), at(COUNT)))]
                ),
                (
                    2,
                    whole,
                    vec![
                        ("/mnt/db/log", (at(0), at(64))),
                        ("/mnt/db/log.1", (at(64), at(COUNT)))
                    ]
                ),
                (
                    1,
                    whole,
                    vec![
                        ("/mnt/db/one.db", whole),
                        ("/mnt/tmp/one.new", (at(33), at(37)))
                    ]
                ),
                // Two names at the same time: the last row of the window decides.
                (
                    4,
                    whole,
                    vec![("/mnt/db/hard", whole), ("/mnt/logs/link", whole)]
                ),
                (5, whole, vec![(two_lines, (at(5), at(COUNT)))]),
            ]
        );
        let hard = answer.rows.iter().find(|row| row.file.fileid == 4).unwrap();
        let [requests, bytes] = sum(recorded, (0, COUNT), |_, file| file.id.fileid == 4);
        assert_eq!(hard.read_requests + hard.write_requests, requests);
        assert_eq!(hard.read_bytes + hard.write_bytes, bytes);
        let written = |format: &str| {
            let mut out = Vec::new();
            let format: Format = format.parse().unwrap();
            trackiops_render::write(&answer, format, asked.zone, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (table, json) = (written("table"), written("json"));
        let mut csv = Vec::new();
        let all = Columns::usual();
        trackiops_render::write_columns(
            &answer,
            &all,
            Format::Csv(Texts::AsTheyAre),
            asked.zone,
            &mut csv,
        )
        .unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert!(table.contains("  named /mnt/tmp/one.new\n"), "{table}");
        assert!(
            table.contains("/mnt/logs/two\\u{a}lines \u{e9}\n"),
            "{table}"
        );
        assert_eq!(table.lines().count(), 2 + 6 + 8, "{table}");
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let header = reader.headers().unwrap().clone();
        let names = header.iter().position(|name| name == "names").unwrap();
        for ((line, record), row) in json.lines().zip(reader.records()).zip(&answer.rows) {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            let listed = object["names"].as_array().unwrap();
            assert_eq!(listed.len(), row.history.names.len());
            assert_eq!(listed[0]["path"], row.history.names[0].0);
            let cell: serde_json::Value = serde_json::from_str(&record.unwrap()[names]).unwrap();
            assert_eq!(cell, object["names"]);
        }
    });
}

#[test]
fn what_has_no_name_and_names_with_control_characters_are_shown_as_such() {
    open_and_sealed(|store, _| {
        let table = |by| {
            let mut asked = in_range(store, (0, COUNT), "all");
            asked.by = by;
            let mut out = Vec::new();
            let format: Format = "table".parse().unwrap();
            trackiops_render::write(&found(&asked), format, asked.zone, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let files = table(GroupBy::FILE);
        for name in ["/mnt/logs/two\\u{a}lines \u{e9}", "0:49:6", OTHERS] {
            assert!(
                files.lines().any(|line| line.ends_with(name)),
                "{name} in {files}"
            );
        }
        let dirs = table(GroupBy::dir(1));
        for name in [
            "srv:/even  (other)",
            "srv:/even  (no name)",
            "/mnt/logs",
            "directory",
        ] {
            assert!(
                dirs.lines().any(|line| line.ends_with(name)),
                "{name} in {dirs}"
            );
        }
    });
}

#[test]
fn what_was_never_recorded_is_told_with_what_is_near() {
    open_and_sealed(|store, _| {
        let why = |text: &str| {
            let mut asked = in_range(store, (0, COUNT), "all");
            asked.files = vec![select(text)];
            match ask(&asked).unwrap() {
                Outcome::Nothing { why, .. } => why.show(asked.zone),
                Outcome::Found(_) => panic!("{text} is found"),
            }
        };
        let said = why("/mnt/db/one.bd");
        assert!(said.contains("did you mean /mnt/db/one.db?"), "{said}");
        let said = why("/srv/logs/link");
        assert!(said.contains("did you mean /mnt/logs/link?"), "{said}");
        let said = why("/mnt/db");
        assert!(said.contains("--dir /mnt/db"), "{said}");
        let said = why("/mnt/*.db");
        assert!(
            said.contains("matches /mnt/*.db") && said.contains("trackiops files"),
            "{said}"
        );
        let said = why("0:77:1");
        assert!(said.contains("no file 0:77:1 was ever recorded"), "{said}");
    });
}

#[test]
fn of_several_files_those_that_there_are_not_are_told() {
    open_and_sealed(|store, recorded| {
        let mut asked = in_range(store, (0, 20), "all");
        asked.files = ["/mnt/db/one.db", "/mnt/none/*", "/mnt/tmp/one.new"]
            .map(select)
            .to_vec();
        let answer = found(&asked);
        let said: Vec<_> = answer
            .notes
            .iter()
            .map(|note| note.show(asked.zone))
            .collect();
        assert!(
            said.iter().any(|s| s.contains("matches /mnt/none/*")),
            "{said:?}"
        );
        let only = |_: i64, file: &FileAttributes| file.path.as_deref() == Some("/mnt/db/one.db");
        assert_eq!(
            totals(&Outcome::Found(answer)),
            sum(recorded, (0, 20), only)
        );
        // The file was idle under that name, so a note says when it was used.
        asked.files = vec![select("/mnt/tmp/one.new")];
        match ask(&asked).unwrap() {
            Outcome::Nothing {
                why: EmptyReason::Idle { .. },
                notes,
            } => {
                let said: Vec<_> = notes.iter().map(|note| note.show(asked.zone)).collect();
                // The note does not need an open journal.
                let seen = "requests under the name /mnt/tmp/one.new were seen 2026-11-21 03:00:33 to 03:00:37";
                assert!(said.iter().any(|s| s == seen), "{said:?}");
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn what_is_no_pattern_is_a_name() {
    match FileSelector::parse(Path::new("/mnt/[a")) {
        Ok(FileSelector::Path(path)) => assert_eq!(path, Path::new("/mnt/[a")),
        other => panic!("{other:?}"),
    }
    assert_eq!(Step::All, "all".parse().unwrap());
}
