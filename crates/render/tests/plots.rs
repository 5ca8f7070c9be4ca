//! Plots match the data: a line has a point for each window with requests of its direction, and no other points. Events are vertical lines.

use std::io::Read;

use trackiops_query::{
    Answer, AnswerRow, Columns, Event, EventKind, GroupBy, OperationAnswer, Outcome, Step,
};
use trackiops_render::{PictureFormat, Plot};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{THREE, file, windows};
use trackiops_testkit::questions::{found, question};
use trackiops_testkit::stores::{options_of, record};
use trackiops_testkit::windows::used_by;

/// The charts of some columns.
fn svg<R: Plot>(answer: &Answer<R>, columns: &str, events: &[Event]) -> String {
    let columns = Columns::parse(columns).unwrap();
    let zone = trackiops_query::times::Zone::utc();
    let mut svg = Vec::new();
    trackiops_render::plot(answer, &columns, events, PictureFormat::Svg, zone, &mut svg).unwrap();
    String::from_utf8(svg).unwrap()
}

/// Numbers of lines and dots in the charts of some columns, without the legend.
fn drawn<R: Plot>(answer: &Answer<R>, columns: &str) -> (usize, usize) {
    let svg = svg(answer, columns, &[]);
    let is_black = |line: &&str| line.contains("stroke=\"#000000\"");
    let of = |shape: &str| {
        let lines = svg.lines().filter(|line| line.starts_with(shape));
        lines.filter(|line| !is_black(line)).collect::<Vec<_>>()
    };
    let thin = |line: &&&str| line.contains("stroke-width=\"1\"");
    (
        of("<polyline").iter().filter(thin).count(),
        of("<circle").len(),
    )
}

/// A file that is read in the first three seconds and the last, and written in the third.
fn recorded() -> Vec<ClosedWindow> {
    let mut windows = windows(1, THREE, 1000, 6, 0);
    for (second, window) in windows.iter_mut().enumerate() {
        let mut row = Row::default();
        for (direction, is_used) in [
            (&mut row.read, [0, 1, 2, 5].contains(&second)),
            (&mut row.write, second == 2),
        ] {
            if is_used {
                direction.requests = 3;
                direction.untimed = 3;
                direction.bytes = 100 * (6 - second as u64);
            }
        }
        if row != Row::default() {
            let file = file(1, Some("/mnt/f1"));
            window.rows = vec![FileRow { file, row }];
        }
    }
    windows
}

#[test]
fn a_line_is_absent_where_nothing_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let windows = recorded();
    record(dir.path(), options_of("h", "1s", "15m"), &windows);
    let mut asked = question(dir.path());
    asked.step = Some(Step::Windows("1s".parse().unwrap()));
    for sort in [None, Some("read_bytes"), Some("write_bytes:asc")] {
        asked.sort = sort.map(|sort| sort.parse().unwrap());
        for by in [GroupBy::FILE, GroupBy::MOUNT, GroupBy::HOST] {
            asked.by = by;
            let answer = found(&asked);
            assert_eq!(answer.rows.len(), 4);
            // The first three seconds are a line, the last one is a dot.
            assert_eq!(drawn(&answer, "read_throughput"), (1, 1), "{sort:?}");
            assert_eq!(drawn(&answer, "read_errors"), (1, 1));
            // No line at zero before and after.
            assert_eq!(drawn(&answer, "write_throughput"), (0, 1), "{sort:?}");
            assert_eq!(drawn(&answer, "bytes"), (1, 1));
        }
    }
}

#[test]
fn who_used_a_file_makes_no_two_lines_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut windows = recorded();
    for window in &mut windows {
        let operation = |transport: &str| OperationRow {
            operation: Operation {
                mount: Some("srv:/a".into()),
                op: "GETATTR".into(),
                transport: Some(transport.into()),
            },
            sums: OperationSums {
                requests: 1,
                ..OperationSums::default()
            },
        };
        window.health.ops_covered_ms = window.health.covered_ms;
        let second = (window.start.0 - THREE) / 1000;
        window.ops = match second {
            0 => vec![operation("tcp-0"), operation("tcp-1")],
            1 => vec![operation("tcp-0")],
            _ => vec![operation("tcp-1")],
        };
        for row in &mut window.rows {
            if second == 1 {
                row.file = used_by(&row.file, "0:/a.service");
            }
        }
    }
    record(dir.path(), options_of("h", "1s", "15m"), &windows);
    let mut asked = question(dir.path());
    asked.step = Some(Step::Windows("1s".parse().unwrap()));
    assert_eq!(drawn::<AnswerRow>(&found(&asked), "read_bytes"), (1, 1));
    let operations =
        |connections| match trackiops_query::ask_operations(&asked, connections).unwrap() {
            Outcome::Found(answer) => answer,
            Outcome::Nothing { why, .. } => panic!("{why:?}"),
        };
    let together = operations(trackiops_query::Connections::Together);
    assert_eq!(drawn::<OperationAnswer>(&together, "iops"), (1, 0));
    // tcp-0 has requests in two seconds; tcp-1 has requests in the first second and in the last four.
    let apart = operations(trackiops_query::Connections::Apart);
    assert_eq!(drawn::<OperationAnswer>(&apart, "iops"), (2, 1));
}

#[test]
fn events_are_lines_in_every_chart_and_gaps_are_grey() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 20, 4);
    recorded.drain(8..12);
    record(dir.path(), options_of("h", "1s", "15m"), &recorded);
    let mut asked = question(dir.path());
    asked.step = Some(Step::Windows("1s".parse().unwrap()));
    let answer = found(&asked);
    let event = |second: i64, text: &str| Event {
        time: UtcMs(THREE + 1000 * second),
        host: "h".into(),
        kind: EventKind::Mark,
        text: text.into(),
    };
    let events = [
        event(3, "backup <begins>"),
        event(15, "it ends"),
        // After the range.
        event(30, "later"),
    ];
    // A heat map of latencies, and two columns.
    let columns = "read_throughput,read_latency_us_p99";
    let with = svg(&answer, columns, &events);
    let count = |text: &str| with.matches(text).count();
    assert_eq!(count("opacity=\"0.5\" stroke=\"#000000\""), 2 * 3);
    assert_eq!(count("fill=\"#E8EAED\" stroke=\"none\""), 3);
    for line in [
        "1  2026-11-21 03:00:03  backup &lt;begins&gt;\n",
        "2  2026-11-21 03:00:15  it ends\n",
        "grey: not recorded\n",
    ] {
        assert_eq!(count(line), 1, "{line}");
    }
    assert!(!with.contains("later"));
    let without = svg(&answer, columns, &[]);
    assert!(!without.contains("opacity=\"0.5\""));
}

#[test]
fn many_events_are_all_lines_and_the_first_are_described() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = windows(1, THREE, 1000, 60, 4);
    record(dir.path(), options_of("h", "1s", "15m"), &recorded);
    let mut asked = question(dir.path());
    asked.step = Some(Step::Windows("1s".parse().unwrap()));
    let event = |second: i64| Event {
        time: UtcMs(THREE + 1000 * second),
        host: if second == 0 { "a" } else { "b" }.into(),
        kind: EventKind::ClockStep,
        text: "the clock was set".into(),
    };
    let events: Vec<_> = (0..40).map(event).collect();
    let svg = svg(&found(&asked), "read_throughput", &events);
    assert_eq!(svg.matches("opacity=\"0.5\"").count(), 40);
    assert_eq!(svg.matches("the clock was set on b\n").count(), 11);
    assert!(svg.contains("28 more lines: `trackiops marks --all` lists these events\n"));
}

#[test]
fn a_png_has_the_colours_of_the_svg() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("h", "1s", "15m"), &recorded());
    let mut asked = question(dir.path());
    asked.step = Some(Step::All);
    let answer = found(&asked);
    let columns = Columns::parse("read_bytes").unwrap();
    let zone = trackiops_query::times::Zone::utc();
    let mut png = Vec::new();
    trackiops_render::plot(&answer, &columns, &[], PictureFormat::Png, zone, &mut png).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    // Twice as many pixels as in the SVG; one block of rows, each with a filter.
    let svg = svg(&answer, "read_bytes", &[]);
    let height = svg.split("height=\"").nth(1).unwrap().split('"').next();
    let height: u32 = height.unwrap().parse().unwrap();
    let (width, height) = (2400, 2 * height);
    assert_eq!([number(16), number(20)], [width, height]);
    let length = number(33) as usize;
    let mut rows = Vec::new();
    let mut reader = flate2::read::ZlibDecoder::new(&png[41..41 + length]);
    reader.read_to_end(&mut rows).unwrap();
    let row_bytes = 1 + 3 * width as usize;
    assert_eq!(rows.len(), row_bytes * height as usize);
    let pixel = |x: usize, y: usize| {
        let at = row_bytes * y + 1 + 3 * x;
        [rows[at], rows[at + 1], rows[at + 2]]
    };
    // The bar of the only row begins at 532, 52 of the SVG.
    assert!(svg.contains("<rect x=\"532\" y=\"52\""), "{svg}");
    assert_eq!(pixel(1070, 110), [0x1f, 0x77, 0xb4]);
    assert_eq!(pixel(1060, 110), [255, 255, 255]);
    // Its name is dark on white.
    let name = (24..200).flat_map(|x| (104..130).map(move |y| (x, y)));
    let dark = name.filter(|(x, y)| pixel(*x, *y)[0] < 64).count();
    assert!((50..3000).contains(&dark), "{dark}");
}

#[test]
fn a_png_that_would_be_too_high_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("h", "1s", "15m"), &recorded());
    let mut asked = question(dir.path());
    asked.step = Some(Step::Windows("1s".parse().unwrap()));
    let columns = Columns::<AnswerRow>::usual().numbers();
    assert!(columns.iter().count() > 40);
    let zone = trackiops_query::times::Zone::utc();
    let mut png = Vec::new();
    let refused = trackiops_render::plot(
        &found(&asked),
        &columns,
        &[],
        PictureFormat::Png,
        zone,
        &mut png,
    );
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("a PNG is at most 16000: draw fewer"), "{why}");
    assert!(png.is_empty());
}
