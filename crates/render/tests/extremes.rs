//! A store from another host may contain any numbers, whose sums may overflow. There must be an answer, whatever its values are.

use std::sync::Arc;

use trackiops_query::times::Zone;
use trackiops_query::{
    Columns, Connections, Figures, GroupBy, Outcome, Question, Subject, ask, ask_files,
    ask_operations, ask_operations_by, ask_volume,
};
use trackiops_render::Render;
use trackiops_render::flame::{self, Directions, Graph, Measure};
use trackiops_render::formats::Texts;
use trackiops_render::{Export, ExportDataset, Format, TerminalPlot};
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{
    AppCalls, CachedBytes, ClosedWindow, Direction, FileRow, Health, Row,
};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{THREE, file};
use trackiops_testkit::questions::question;
use trackiops_testkit::stores::{append, options_of};

const MOST: u64 = i64::MAX as u64;

/// Each file in only one window, so that only queries add up.
fn extremes(start: i64) -> Vec<ClosedWindow> {
    let direction = || {
        let mut direction = Direction::of_counters([MOST; Direction::COUNT]);
        direction.errnos.add(5, MOST);
        direction
    };
    let op = || FileOp {
        op: OpName::new("COMMIT"),
        requests: MOST,
        errors: MOST,
        ..FileOp::default()
    };
    let window = |i: i64| {
        let path = format!("/mnt/home/{i}");
        let files = [2 * i as u64, 2 * i as u64 + 1].map(|id| file(id, Some(&path)));
        let mut rows: Vec<_> = files
            .iter()
            .map(|file| FileRow {
                file: Arc::clone(file),
                row: Row {
                    read: direction(),
                    write: direction(),
                    app_read: AppCalls::of_counters([MOST; AppCalls::COUNT]),
                    app_write: AppCalls::of_counters([MOST; AppCalls::COUNT]),
                    cache: CachedBytes::of_counters([MOST; CachedBytes::COUNT]),
                    ops: [op()].into_iter().collect(),
                },
            })
            .collect();
        rows.sort_by_key(|row| row.file.key);
        let operation = |op: &str| OperationRow {
            operation: Operation {
                mount: Some("srv:/even".into()),
                op: op.into(),
                transport: None,
            },
            sums: OperationSums::of_counters([MOST; OperationSums::COUNT]),
        };
        ClosedWindow {
            start: UtcMs(start + 1000 * i),
            rows,
            ops: vec![operation("GETATTR"), operation("READ")],
            health: Health {
                covered_ms: 1000,
                seen: MOST,
                recorded: MOST,
                folded: MOST,
                lost: MOST,
                missed: MOST,
                ops_covered_ms: 1000,
                ops_seen: MOST,
                ..Health::default()
            },
        }
    };
    (0..6).map(window).collect()
}

fn write<R: Render>(outcome: Outcome<R>) {
    let Outcome::Found(answer) = outcome else {
        panic!("nothing found")
    };
    for format in [
        Format::Table(Figures::Rates),
        Format::Table(Figures::Parts),
        Format::Csv(Texts::AsTheyAre),
        Format::Json,
    ] {
        trackiops_render::write(&answer, format, Zone::utc(), &mut Vec::new()).unwrap();
    }
    answer
        .notes
        .iter()
        .for_each(|note| drop(note.show(Zone::utc())));
}

/// Writes it, and draws it in a terminal.
fn draw<R: TerminalPlot>(outcome: Outcome<R>) {
    let Outcome::Found(answer) = &outcome else {
        panic!("nothing found")
    };
    let numbers = Columns::usual().numbers();
    for columns in [None, Some(&numbers)] {
        let style = Zone::utc().into();
        trackiops_render::plot_in_terminal(answer, columns, &style, &mut Vec::new()).unwrap();
    }
    write(outcome);
}

fn ask_everything(asked: &Question) {
    for by in ["file", "file,tenant", "dir", "mount", "host", "tenant"] {
        let Ok(Subject::Files(by)) = by.parse() else {
            panic!("{by}")
        };
        for step in ["all", "10s"] {
            let step = Some(step.parse().unwrap());
            let asked = Question {
                by,
                step,
                ..asked.clone()
            };
            draw(ask(&asked).unwrap());
            let sort = Some("write_throughput".parse().unwrap());
            let conditions = vec!["bytes > 1 and p99 > 0 or errors > 1".parse().unwrap()];
            draw(
                ask(&Question {
                    sort,
                    conditions,
                    ..asked
                })
                .unwrap(),
            );
        }
    }
    for step in ["all", "1s"] {
        let asked = Question {
            step: Some(step.parse().unwrap()),
            ..asked.clone()
        };
        draw(ask_operations(&asked, Connections::Together).unwrap());
        draw(ask_operations(&asked, Connections::Apart).unwrap());
        draw(ask_operations_by(&asked, GroupBy::FILE).unwrap());
    }
    let all = Question {
        step: Some("all".parse().unwrap()),
        ..asked.clone()
    };
    write(ask_files(&all).unwrap());
    for measure in [Measure::Bytes, Measure::Requests, Measure::Time] {
        let graph = Graph {
            measure,
            directions: Directions::Both,
        };
        let Outcome::Found(stacks) = flame::stacks(&all, graph).unwrap() else {
            panic!("nothing")
        };
        flame::folded(&stacks, &mut Vec::new()).unwrap();
        flame::svg(&stacks, graph, Zone::utc(), &mut Vec::new()).unwrap();
    }
    for table in [
        ExportDataset::Rollup,
        ExportDataset::Ops,
        ExportDataset::Health,
    ] {
        let export = Export {
            table,
            granularity: None,
            question: all.clone(),
        };
        // Nothing is exported of the future.
        let _ = export.run::<trackiops_query::QueryError>(&mut |_| Ok(()));
    }
}

#[test]
fn sums_that_no_number_holds_end_no_question() {
    let dir = tempfile::tempdir().unwrap();
    for (i, start) in [THREE, 253_402_300_000_000].into_iter().enumerate() {
        for is_sealed in [true, false] {
            let store = dir.path().join(format!("{i}{is_sealed}"));
            let writer = append(&store, options_of("h", "1s", "1h"), &extremes(start));
            if is_sealed {
                writer.finish().unwrap();
            } else {
                drop(writer);
            }
            ask_everything(&question(&store));
            ask_volume(&store, &Default::default()).unwrap();
            trackiops_store::check(&store).unwrap();
        }
    }
}

/// Meaningful only with `cargo test --release`: Cargo.toml enables overflow checks there.
#[test]
fn arithmetic_is_checked_in_releases() {
    let overflows = || std::hint::black_box(u64::MAX) + 1;
    assert!(std::panic::catch_unwind(overflows).is_err());
}
