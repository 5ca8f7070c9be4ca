//! Pictures in a terminal show the requests, their times and unrecorded time, within the width.

use trackiops_query::times::Zone;
use trackiops_query::{Answer, Columns, Connections, GroupBy, Outcome, Question, ask_operations};
use trackiops_render::TerminalPlot;
use trackiops_render::terminal_style::{Look, Style};
use trackiops_render::visible::width;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, Direction, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{THREE, file, health, windows};
use trackiops_testkit::questions::{found, question, range};
use trackiops_testkit::stores::{options_of, record};

const UNICODE: Look = Look {
    width: None,
    ascii: false,
    is_terminal: false,
};
const ASCII: Look = Look {
    ascii: true,
    ..UNICODE
};

/// The picture, without the legend below it.
fn drawn<R: TerminalPlot>(answer: &Answer<R>, columns: Option<&str>, look: Look) -> String {
    let picture = whole(answer, columns, look);
    let legend = ["requests in a cell: ", "a column is "];
    let lines = picture.lines();
    let lines = lines.take_while(|line| !legend.iter().any(|begin| line.starts_with(begin)));
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn whole<R: TerminalPlot>(answer: &Answer<R>, columns: Option<&str>, look: Look) -> String {
    let columns = columns.map(|columns| Columns::parse(columns).unwrap());
    let style = Style {
        look,
        ..Zone::utc().into()
    };
    let mut out = Vec::new();
    trackiops_render::plot_in_terminal(answer, columns.as_ref(), &style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn direction(latencies_ns: &[u64]) -> Direction {
    let mut direction = Direction::default();
    for ns in latencies_ns {
        direction.requests += 1;
        direction.bytes += 4096;
        direction.latency_ns_sum += ns;
        direction.latency_ns_max = direction.latency_ns_max.max(*ns);
        direction.latency.record(*ns);
    }
    direction
}

/// A second in which one file was read and written.
fn second(second: i64, covered_ms: u64, reads: &[u64], writes: &[u64]) -> ClosedWindow {
    let row = Row {
        read: direction(reads),
        write: direction(writes),
        ..Row::default()
    };
    let file = file(1, Some("/mnt/f1"));
    let rows: Vec<_> = row
        .is_transfer()
        .then_some(FileRow { file, row })
        .into_iter()
        .collect();
    ClosedWindow {
        start: UtcMs(THREE + second * 1000),
        ops: Vec::new(),
        health: health(covered_ms, &rows),
        rows,
    }
}

fn in_seconds(store: &std::path::Path) -> Question {
    Question {
        step: Some("1s".parse().unwrap()),
        ..question(store)
    }
}

const MS: u64 = 1_000_000;

/// The third second is idle, the fourth was recorded in part, the fifth not at all, and the sixth is idle.
fn with_a_gap(store: &std::path::Path) -> Answer {
    let windows = [
        second(0, 1000, &[MS; 9], &[]),
        second(1, 1000, &[MS, 3 * MS], &[]),
        second(2, 1000, &[], &[]),
        second(3, 500, &[MS], &[]),
        second(5, 1000, &[], &[]),
        second(6, 1000, &[10 * MS], &[]),
    ];
    record(store, options_of("h", "1s", "15m"), &windows);
    found(&in_seconds(store))
}

#[test]
fn a_gap_looks_otherwise_than_idle_time() {
    let dir = tempfile::tempdir().unwrap();
    let answer = with_a_gap(dir.path());
    assert_eq!(
        drawn(&answer, None, UNICODE),
        "\
/mnt/f1  2026-11-21 03:00:00 to 03:00:07 (+00:00)
requests per second, at most 9.00
             ████████▂▂▂▂▂▂▂▂        ▂▂▂▂▂▂▂▂········        ▁▁▁▁▁▁▁▁
throughput, at most 36.0 KiB/s
             ████████▂▂▂▂▂▂▂▂        ▂▂▂▂▂▂▂▂········        ▁▁▁▁▁▁▁▁

reads: 13, p50 991 us, p99 10.1 ms
    16.4 ms ┤                                ········        ░░░░░░░░
    8.19 ms ┤                                ········
    4.10 ms ┤        ░░░░░░░░                ········
    2.05 ms ┤                                ········
    1.02 ms ┤████████░░░░░░░░        ░░░░░░░░········
            └┬───────────────────────┄┄┄┄┄┄┄┄········┬───────────────
             03:00:00                                03:00:05"
    );
    assert_eq!(
        drawn(&answer, None, ASCII),
        "\
/mnt/f1  2026-11-21 03:00:00 to 03:00:07 (+00:00)
requests per second, at most 9.00
             ########........        ........::::::::        ________
throughput, at most 36.0 KiB/s
             ########........        ........::::::::        ________

reads: 13, p50 991 us, p99 10.1 ms
    16.4 ms |                                ::::::::        --------
    8.19 ms |                                ::::::::
    4.10 ms |        --------                ::::::::
    2.05 ms |                                ::::::::
    1.02 ms |########--------        --------::::::::
            ++-----------------------~~~~~~~~::::::::+---------------
             03:00:00                                03:00:05"
    );
    let chart = drawn(&answer, Some("iops"), UNICODE);
    assert!(
        chart.contains("┤████████▁▁▁▁▁▁▁▁        ▁▁▁▁▁▁▁▁········\n"),
        "{chart}"
    );
    assert!(whole(&answer, None, UNICODE).contains("· not recorded; ┄ on the axis"));
    assert!(whole(&answer, None, ASCII).contains(": not recorded; ~ on the axis"));
}

#[test]
fn a_direction_without_requests_has_no_map_and_one_without_latencies_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut window = second(0, 1000, &[], &[MS]);
    let read = &mut window.rows[0].row.read;
    (read.requests, read.untimed) = (3, 3);
    let windows = [window, second(1, 1000, &[], &[])];
    record(dir.path(), options_of("h", "1s", "15m"), &windows);
    let picture = drawn(&found(&in_seconds(dir.path())), None, UNICODE);
    assert!(
        picture.contains("reads: 3, 3 without a latency of their own\n\nwrites: 1, p50"),
        "{picture}"
    );
    let written = [second(0, 1000, &[], &[MS])];
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("h", "1s", "15m"), &written);
    let picture = drawn(&found(&in_seconds(dir.path())), None, UNICODE);
    assert!(
        !picture.contains("reads") && picture.contains("writes"),
        "{picture}"
    );
}

#[test]
fn nanoseconds_and_hours_are_in_one_picture() {
    let dir = tempfile::tempdir().unwrap();
    let hours = 3 * 3_600_000 * MS;
    record(
        dir.path(),
        options_of("h", "1s", "15m"),
        &[second(0, 1000, &[1, hours], &[1])],
    );
    let picture = drawn(&found(&in_seconds(dir.path())), None, UNICODE);
    let lines: Vec<_> = picture
        .lines()
        .skip_while(|line| !line.starts_with("reads"))
        .collect();
    assert_eq!(lines[0], "reads: 2, p50 1.01 ns, p99 3.00 h");
    // Forty-four powers of two, four in a line.
    let map: Vec<_> = lines[1..]
        .iter()
        .take_while(|line| line.contains('┤'))
        .collect();
    assert_eq!(map.len(), 11, "{picture}");
    let dark: Vec<_> = map.iter().map(|line| line.contains('░')).collect();
    let mut ends = [false; 11];
    (ends[0], ends[10]) = (true, true);
    assert_eq!(dark, ends, "{picture}");
    assert!(
        map[0].contains(" h ┤") && map[10].contains(" ns ┤"),
        "{picture}"
    );
    // The line of the only write ends where its bucket does.
    assert!(picture.contains("\n    1.95 ns ┤░░░░░░░░"), "{picture}");
}

/// Rates are per recorded time, including windows without rows. Rates of hosts add up.
#[test]
fn a_rate_is_of_all_recorded_time_of_a_column() {
    let dir = tempfile::tempdir().unwrap();
    for host in ["a", "b"] {
        let mut windows: Vec<_> = (0..200).map(|s| second(s, 1000, &[], &[])).collect();
        windows[0] = second(0, 1000, &[MS; 30], &[]);
        record(dir.path(), options_of(host, "1s,10s", "15m"), &windows);
    }
    // Three windows in each column: 2 x 30 requests in 3 seconds.
    let picture = whole(&found(&in_seconds(dir.path())), None, UNICODE);
    assert!(
        picture.contains("requests per second, at most 20.0\n"),
        "{picture}"
    );
    assert!(
        picture.contains("a column is 3 s, 3 windows of 1 s"),
        "{picture}"
    );
    // A chart shows the largest window of a column.
    let chart = whole(&found(&in_seconds(dir.path())), Some("iops"), UNICODE);
    assert!(chart.contains("       30.0 ┤█"), "{chart}");
    assert!(chart.contains("the largest of 3 windows of 1 s"), "{chart}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let mut windows = windows(3, THREE, 1000, 300, 9);
    windows.drain(100..140);
    for (i, window) in windows.iter_mut().enumerate() {
        let path = format!("/mnt/{}/データベース.db", "long/".repeat(30));
        let mut row = second(0, 1000, &[1 << (i % 50)], &[MS]).rows;
        row[0].file = file(40, Some(&path));
        window.rows.extend(row);
        window.rows.sort_by_key(|row| row.file.key);
        window.health.ops_covered_ms = 1000;
        window.ops = ["GETATTR", "LOOKUP", "READDIR", "OPEN", "CLOSE", "COMMIT"]
            .into_iter()
            .map(|op| operation(op, i as u64 % 5 + op.len() as u64))
            .collect();
    }
    record(dir.path(), options_of("h", "1s,10s", "1m"), &windows);
    let mut widest = 0;
    for (step, cells) in [
        ("1s", 40),
        ("1s", 79),
        ("10s", 80),
        ("10s", 211),
        ("all", 40),
        ("all", 100),
    ] {
        let mut asked = in_seconds(dir.path());
        asked.step = Some(step.parse().unwrap());
        asked.range = range(THREE - 10_000, THREE + 400_000);
        for by in [GroupBy::FILE, GroupBy::FILE_TENANT, GroupBy::HOST] {
            asked.by = by;
            let answer = found(&asked);
            for look in [UNICODE, ASCII] {
                let look = Look {
                    width: Some(cells),
                    ..look
                };
                for columns in [None, Some("iops,bytes,read_p99")] {
                    let picture = whole(&answer, columns, look);
                    let of_lines = picture.lines().map(width).max().unwrap();
                    assert!(of_lines <= cells, "{cells}:\n{picture}");
                    let signs = picture.chars().filter(|c| !"データベース".contains(*c));
                    assert!(
                        !look.ascii || signs.clone().all(|c| c.is_ascii()),
                        "{picture}"
                    );
                    assert!(
                        look.ascii || !signs.clone().all(|c| c.is_ascii()),
                        "{picture}"
                    );
                    widest = widest.max(of_lines);
                }
            }
        }
        let picture = whole(
            &operations(&asked),
            None,
            Look {
                width: Some(cells),
                ..UNICODE
            },
        );
        assert!(
            picture.lines().all(|line| width(line) <= cells),
            "{cells}:\n{picture}"
        );
    }
    // A wide terminal is used.
    assert!(widest > 180, "{widest}");
}

fn operation(op: &str, requests: u64) -> OperationRow {
    let mut sums = OperationSums {
        requests,
        ..OperationSums::default()
    };
    for i in 1..=requests {
        sums.execute_ns_sum += MS * i;
        sums.execute.record(MS * i);
    }
    let operation = Operation {
        mount: Some("srv:/odd".into()),
        op: op.into(),
        transport: None,
    };
    OperationRow { operation, sums }
}

fn operations(asked: &Question) -> Answer<trackiops_query::OperationAnswer> {
    match ask_operations(asked, Connections::Together).unwrap() {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, .. } => panic!("{why:?}"),
    }
}

#[test]
fn operations_have_a_map_each_and_those_left_out_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut window = second(0, 1000, &[], &[]);
    window.health.ops_covered_ms = 1000;
    let names = ["A", "B", "C", "D", "E", "F"];
    window.ops = names
        .iter()
        .zip([5, 1, 4, 2, 6, 3])
        .map(|(op, n)| operation(op, n))
        .collect();
    record(dir.path(), options_of("h", "1s", "15m"), &[window]);
    let picture = whole(&operations(&in_seconds(dir.path())), None, UNICODE);
    let titles: Vec<_> = picture
        .lines()
        .filter(|line| line.contains(", p50 "))
        .collect();
    let titles: Vec<_> = titles.iter().map(|title| &title[..4]).collect();
    assert_eq!(titles, ["A: 5", "C: 4", "E: 6", "F: 3"]);
    assert!(
        picture.contains("\nnot drawn: D, B; --op chooses\n"),
        "{picture}"
    );
}

#[test]
fn subjects_beyond_the_first_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut window = second(0, 1000, &[], &[]);
    window.rows = (1..=6_u64)
        .map(|id| FileRow {
            file: file(id, Some(&format!("/mnt/f{id}"))),
            row: Row {
                read: direction(&vec![MS; id as usize]),
                ..Row::default()
            },
        })
        .collect();
    window.rows.sort_by_key(|row| row.file.key);
    record(dir.path(), options_of("h", "1s", "15m"), &[window]);
    let answer = found(&in_seconds(dir.path()));
    let picture = whole(&answer, Some("read_iops"), UNICODE);
    let charts: Vec<_> = picture
        .lines()
        .filter(|line| line.starts_with("  /mnt"))
        .collect();
    assert_eq!(charts.len(), 4, "{picture}");
    assert!(
        charts[0].contains("/mnt/f6") && charts[3].contains("/mnt/f3"),
        "{picture}"
    );
    assert!(picture.contains("2 more are not drawn"), "{picture}");
    let all = Question {
        step: Some("all".parse().unwrap()),
        ..in_seconds(dir.path())
    };
    let bars = drawn(
        &found(&all),
        None,
        Look {
            width: Some(40),
            ..UNICODE
        },
    );
    assert!(bars.starts_with("6 files  2026"), "{bars}");
    let bars: Vec<_> = bars
        .lines()
        .filter(|line| line.starts_with("/mnt"))
        .collect();
    assert_eq!(bars.len(), 6);
    let longest = bars
        .iter()
        .map(|line| line.matches('█').count())
        .collect::<Vec<_>>();
    assert!(
        longest.is_sorted_by(|a, b| a >= b) && longest[5] * 4 < longest[0],
        "{bars:#?}"
    );
}
