//! A question has the same answer in every format and in any state of the store. A store and its export answer the same, and so do
//! `trackiops query` and engines that read the Parquet files. `questions.txt` has the questions.

mod another_build;
mod others;
mod question;
mod stores;
mod table;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use trackiops_testkit::program;

use question::{ALL, Answer, BOTH, Question, csv_rows, file_rows, program};
use serde_json::Value as Json;
use stores::{NOTED, Stores};
use table::compare_table;

/// Whether values are equal; 1 equals 1.0.
fn same(a: &Json, b: &Json) -> bool {
    a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a))
}

fn compare(door: &str, question: &Question, expected: &[Vec<Json>], answered: &[Vec<Json>]) {
    let asked = question.words.join(" ");
    for (i, (a, b)) in expected.iter().zip(answered).enumerate() {
        let is_same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b));
        assert!(is_same, "{door}: {asked}\nrow {i}: {a:?}\nanswered {b:?}");
    }
    let counts = (expected.len(), answered.len());
    assert!(counts.0 == counts.1, "{door}: {asked}: {counts:?} rows");
}

/// Whether a column divides by recorded time, which an export does not contain.
fn is_rate(name: &str) -> bool {
    name.ends_with("iops") || name.ends_with("throughput")
}

fn without_rates(names: &[String], rows: &[Vec<Json>]) -> Vec<Vec<Json>> {
    let row = |row: &Vec<Json>| {
        let values = names.iter().zip(row);
        values
            .filter(|(name, _)| !is_rate(name))
            .map(|(_, value)| value.clone())
            .collect()
    };
    rows.iter().map(row).collect()
}

/// Every answer in JSON.
fn in_json(dir: &Path, questions: &[Question]) -> Vec<Answer> {
    each(questions, |question| question.json(dir, &BOTH))
}

/// Compares other formats with the answers in JSON. The questions take the formats in turns; `TRACKIOPS_TEST_LONG` asks each in all.
fn compare_formats(dir: &Path, questions: &[Question], answers: &[Answer]) {
    const FORMATS: [&str; 4] = ["csv", "parquet", "arrow", "table"];
    let is_long = std::env::var_os("TRACKIOPS_TEST_LONG").is_some();
    let all: Vec<_> = questions.iter().zip(answers).enumerate().collect();
    each(&all, |(turn, (question, (names, rows)))| {
        for (place, format) in FORMATS.into_iter().enumerate() {
            if !is_long && place != turn % FORMATS.len() {
                continue;
            }
            if format == "table" {
                compare_table(question, names, rows, &question.lines(dir, &BOTH, &[]));
                continue;
            }
            let bytes = question.ask(dir, &BOTH, &["--format", format]);
            let answered = match format {
                "csv" => csv_rows(&bytes, rows),
                _ => file_rows(&bytes),
            };
            compare(format, question, rows, &answered);
        }
    });
}

/// Exports the stores, and queries the export.
fn compare_export(dir: &Path, questions: &[Question], answers: &[Answer], granularity: &str) {
    let mut command = program(dir);
    command
        .arg("export")
        .args(BOTH.iter().flat_map(|store| ["--store", store]));
    command.args(["--output", "day.parquet", "--granularity", granularity]);
    let output = command.args(ALL).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let all = questions.iter().zip(answers);
    let all: Vec<_> = all.filter(|(question, _)| question.is_of_files()).collect();
    each(&all, |(question, (names, rows))| {
        let (of_export, exported) = question.json(dir, &["day.parquet"]);
        assert_eq!(*names, of_export);
        let [rows, exported] = [rows, &exported].map(|rows| without_rates(names, rows));
        compare("export", question, &rows, &exported);
    });
}

/// Calls `ask` for each question, with one thread per processor.
fn each<Q: Sync, T: Send>(questions: &[Q], ask: impl Fn(&Q) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::SeqCst);
            match questions.get(place) {
                Some(question) => done.push((place, ask(question))),
                None => return done,
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| worker.join());
        done.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, answer)| answer).collect()
}

fn compare_states(state: &str, questions: &[Question], expected: &[Answer], answered: &[Answer]) {
    for ((question, expected), answered) in questions.iter().zip(expected).zip(answered) {
        compare(state, question, &expected.1, &answered.1);
    }
}

/// The questions that need no windows of a second, with their answers.
fn coarse(questions: &[Question], answers: &[Answer]) -> (Vec<Question>, Vec<Answer>) {
    let both = questions.iter().zip(answers);
    let coarse = both.filter(|(question, _)| question.is_coarse());
    coarse
        .map(|(question, answer)| (question.clone(), answer.clone()))
        .unzip()
}

#[test]
fn every_format_every_state_and_an_export_give_the_same_answers() {
    let questions = Question::all();
    let sealed = Stores::sealed();
    let expected = in_json(sealed.path(), &questions);
    for (question, (names, rows)) in questions.iter().zip(&expected) {
        let is_one = question.value("--file").is_some();
        assert!(rows.len() > 1 || is_one, "{:?}", question.words);
        assert_eq!(names.len(), question.columns().len());
    }
    compare_formats(sealed.path(), &questions, &expected);
    compare_export(sealed.path(), &questions, &expected, "1s");
    for (state, stores) in [
        ("journal", Stores::journal()),
        ("merged", Stores::merged()),
        ("interrupted", Stores::interrupted()),
    ] {
        let answered = in_json(stores.path(), &questions);
        compare_states(state, &questions, &expected, &answered);
    }
    Stores::merged().while_merging(|dir| {
        compare_states("merging", &questions, &expected, &in_json(dir, &questions));
    });
    let (questions, expected) = coarse(&questions, &expected);
    let expired = Stores::expired();
    let answered = in_json(expired.path(), &questions);
    compare_states("expired", &questions, &expected, &answered);
    compare_export(expired.path(), &questions, &answered, "10s");
}

#[test]
fn what_answers_have_notes_about_changes_no_row_at_any_door() {
    let questions = Question::all();
    let expected = in_json(Stores::sealed().path(), &questions);
    for (state, more) in NOTED {
        let stores = Stores::with(more);
        let answered = in_json(stores.path(), &questions);
        compare_states(state, &questions, &expected, &answered);
        others::compare_api(stores.path(), &questions, &expected);
        others::compare_top(stores.path());
        others::compare_streams(stores.path());
    }
}

/// Lets engines answer from the Parquet files, which lack the content of journals.
fn compare_engines(dir: &Path, granularity: &str, engines: &[&str]) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let questions = tests.join("doors/questions.txt");
    let questions = questions.to_str().unwrap();
    let args = [env!("CARGO_BIN_EXE_trackiops"), questions, granularity];
    let script = tests.join("science/equality.py");
    program::python(&script, args.iter().chain(engines), dir);
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB and Polars"]
fn every_answer_of_duckdb_and_polars_is_that_of_the_query() {
    const ENGINES: [&str; 2] = ["DuckDB", "Polars"];
    compare_engines(Stores::expired().path(), "10s", &ENGINES);
    let interrupted = Stores::interrupted();
    for store in BOTH {
        let repair = ["store", "check", "--repair", "--store", store];
        let output = program(interrupted.path()).args(repair).output().unwrap();
        assert!(output.status.success());
    }
    compare_engines(interrupted.path(), "1s", &ENGINES);
    Stores::merged()
        .while_merging(|dir| compare_engines(dir, "1s", &["--live", "DuckDB", "Polars"]));
}

#[test]
#[ignore = "make notebooks: needs a Python with Polars"]
fn every_answer_of_the_module_is_that_of_the_query() {
    for (_, more) in NOTED {
        compare_engines(Stores::with(more).path(), "1s", &["module"]);
    }
}

#[test]
#[ignore = "make science: needs a Python with PySpark, and Java"]
fn every_answer_of_spark_is_that_of_the_query() {
    compare_engines(Stores::sealed().path(), "1s", &["PySpark"]);
}
