//! A flame graph shows all rows that a query finds, and nothing else.

use std::path::Path;
use std::sync::Arc;

use trackiops_query::{
    Answer, EmptyReason, FileSelector, GroupBy, Outcome, Projection, Question, Step, ask,
};
use trackiops_render::flame::{self, Directions, Graph, Measure, Stack};
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::row::{ClosedWindow, FileRow};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{Numbers, THREE, folded_windows, windows};
use trackiops_testkit::questions::{question, range, select};
use trackiops_testkit::stores::{append, options_of, record};

const LIST: &str = "1s,10s,1m,1h";
const MEASURES: [Measure; 6] = [
    Measure::Bytes,
    Measure::Requests,
    Measure::Time,
    Measure::AppTime,
    Measure::AppBytes,
    Measure::AppCalls,
];
const DIRECTIONS: [Directions; 4] = [
    Directions::Read,
    Directions::Write,
    Directions::Both,
    Directions::Apart,
];

/// Random requests of files with odd and changing names.
fn recorded() -> Vec<ClosedWindow> {
    let mut recorded = folded_windows(21, THREE, 1000, 130, 9);
    let mut numbers = Numbers(22);
    for window in &mut recorded {
        for FileRow { file, row } in &mut window.rows {
            let name = match (file.id.fileid, numbers.below(2)) {
                (1, 0) => "/mnt/a;b/part 3",
                (1, _) => "/mnt/a;b/part 3 4.5 ",
                (4, _) => "/mnt/<b>&\"quoted\"'/\n\u{1b}[2J",
                (6, 0) => "/mnt/a",
                (6, _) => "/mnt/a/b/c/d",
                (7, 0) => "(other)",
                _ => continue,
            };
            *file = Arc::new(FileAttributes {
                path: Some(name.into()),
                ..(**file).clone()
            });
            // A journal may have times that are not whole microseconds.
            row.write.latency_ns_sum += numbers.below(1000);
        }
    }
    recorded
}

fn drawn(asked: &Question, graph: Graph) -> Option<Answer<Stack>> {
    match flame::stacks(asked, graph).unwrap() {
        Outcome::Found(answer) => Some(answer),
        Outcome::Nothing { .. } => None,
    }
}

/// The sums of a measure that a query finds, by direction.
fn asked_for(asked: &Question, measure: Measure) -> [u64; 2] {
    // Use the same granularity: times are rounded on disk, in each row of each granularity.
    let mut asked = asked.clone();
    asked.step = Some(Step::All);
    asked.projection = Projection::all();
    let rows = match ask(&asked).unwrap() {
        Outcome::Found(answer) => answer.rows,
        Outcome::Nothing { .. } => Vec::new(),
    };
    rows.iter().fold([0, 0], |sums, row| {
        let directions = [
            (row.sum.read(), row.sum.app_read()),
            (row.sum.write(), row.sum.app_write()),
        ];
        let [read, write] = directions.map(|(d, calls)| match measure {
            Measure::Bytes => d.bytes,
            Measure::Requests => d.requests,
            Measure::Time => d.latency_ns_sum,
            Measure::AppTime => calls.latency_ns_sum,
            Measure::AppBytes => calls.bytes + calls.direct_bytes,
            Measure::AppCalls => calls.calls,
        });
        [sums[0] + read, sums[1] + write]
    })
}

#[test]
fn the_total_is_that_of_the_query_whatever_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let writer = append(dir.path(), options_of("a", LIST, "1m"), &recorded());
    let check = || {
        for selectors in [
            vec![],
            vec![FileSelector::below(Path::new("/mnt/a")).unwrap()],
            vec![select("/mnt/*"), select("0:50:7")],
        ] {
            for (since, until) in [(0, 130), (0, 60), (31, 32), (45, 125)] {
                let mut asked = question(dir.path());
                asked.files = selectors.clone();
                asked.range = range(THREE + since * 1000, THREE + until * 1000);
                for measure in MEASURES {
                    let [read, write] = asked_for(&asked, measure);
                    let is_time = measure.unit() == "us";
                    let unit = |value: u64| match is_time {
                        true => (value + 500) / 1000,
                        false => value,
                    };
                    for directions in DIRECTIONS {
                        let graph = Graph {
                            measure,
                            directions,
                        };
                        let stacks = drawn(&asked, graph).map_or(Vec::new(), |a| a.rows);
                        assert!(stacks.iter().all(|stack| stack.value > 0));
                        assert!(stacks.is_sorted_by_key(|stack| &stack.frames));
                        let total: u64 = stacks.iter().map(|stack| stack.value).sum();
                        let expected = match directions {
                            Directions::Read => read,
                            Directions::Write => write,
                            Directions::Both | Directions::Apart => read + write,
                        };
                        assert_eq!(total, unit(expected), "{since}..{until} {graph:?}");
                        if directions == Directions::Apart && !is_time {
                            let of = |root: &str| {
                                let stacks = stacks.iter().filter(|s| s.frames[0] == root);
                                stacks.map(|stack| stack.value).sum::<u64>()
                            };
                            assert_eq!([of("read"), of("write")], [read, write]);
                        }
                    }
                }
            }
        }
    };
    check();
    writer.finish().unwrap();
    check();
}

#[test]
fn stacks_are_mounts_directories_and_files_by_the_name_of_their_time() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("a", LIST, "1m"), &recorded());
    let answer = drawn(&question(dir.path()), Graph::default()).unwrap();
    let mut out = Vec::new();
    flame::folded(&answer, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let stacks: Vec<_> = out
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    assert_eq!(
        stacks,
        [
            "srv:/even;/mnt;<b>&\"quoted\"';\\u{a}\\u{1b}[2J",
            "srv:/even;/mnt;a",
            "srv:/even;/mnt;a;b;c;d",
            "srv:/even;/mnt;a new name",
            "srv:/even;/mnt;f0",
            "srv:/even;/mnt;f2",
            "srv:/even;/mnt;f8",
            "srv:/odd;(other)",
            "srv:/odd;/mnt;a\\u{3b}b;part\u{a0}3",
            "srv:/odd;/mnt;a\\u{3b}b;part 3 4.5\\u{20}",
            "srv:/odd;/mnt;f5",
            "srv:/odd;/mnt;f7",
            "srv:/odd;0:50:3",
        ]
    );
}

#[test]
fn the_svg_has_the_total_at_its_root_and_is_the_same_every_time() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("a", LIST, "1m"), &recorded());
    let asked = question(dir.path());
    for (measure, unit) in MEASURES.into_iter().zip(["bytes", "requests", "us"]) {
        let graph = Graph {
            measure,
            directions: Directions::Both,
        };
        let answer = drawn(&asked, graph).unwrap();
        let svg = || {
            let mut out = Vec::new();
            flame::svg(&answer, graph, asked.zone, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let first = svg();
        let total: u64 = answer.rows.iter().map(|stack| stack.value).sum();
        let shown: String = first
            .split("<title>")
            .find_map(|text| text.strip_prefix("all ("))
            .unwrap()
            .chars()
            .take_while(|c| *c != '%')
            .collect();
        let (number, rest) = shown.split_once(' ').unwrap();
        assert_eq!(number.replace(',', ""), total.to_string());
        assert_eq!(rest, format!("{unit}, 100"));
        assert!(first.contains("2026-11-21 03:00:00 to 03:02:10 (+00:00)"));
        assert!(
            !first.contains("<b>") && first.contains("&lt;b&gt;"),
            "names are no markup"
        );
        assert!(!first.contains('\u{1b}'));
        assert_eq!(first, svg());
    }
}

#[test]
fn nothing_to_draw_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(3, THREE, 1000, 20, 3);
    for row in recorded.iter_mut().flat_map(|window| &mut window.rows) {
        row.row.write.bytes = 0;
    }
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let asked = question(dir.path());
    let why = |asked: &Question, directions| {
        let graph = Graph {
            measure: Measure::Bytes,
            directions,
        };
        match flame::stacks(asked, graph).unwrap() {
            Outcome::Nothing { why, .. } => why,
            Outcome::Found(answer) => panic!("{answer:?}"),
        }
    };
    let said = why(&asked, Directions::Write).show(asked.zone);
    assert_eq!(
        said,
        "there were no WRITE bytes from 2026-11-21 03:00:00 to 03:00:20"
    );
    let mut unknown = asked.clone();
    unknown.files = vec![select("/srv/**")];
    assert!(matches!(
        why(&unknown, Directions::Both),
        EmptyReason::UnknownFile(_)
    ));
    let mut later = asked;
    later.range.since = Some(UtcMs(THREE + 86_400_000));
    assert!(matches!(
        why(&later, Directions::Both),
        EmptyReason::NotRecorded { .. }
    ));
    assert_eq!("dir".parse(), Ok(GroupBy::dir(1)));
}
