//! Damage in a segment never changes an answer without a note.

use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use trackiops_query::coverage::note::Note;
use trackiops_query::{Connections, Outcome, QueryError, Question, Step, ask, ask_operations};
use trackiops_render::{Export, ExportDataset};
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_store::{Dataset, Snapshot, check};
use trackiops_testkit::generated::{Numbers, THREE, file, windows};
use trackiops_testkit::questions::{question, select};
use trackiops_testkit::stores::{append, options_of};

/// One sealed journal with all kinds of records.
fn recorded(store: &Path, count: i64, files: u64) {
    let mut windows = windows(5, THREE, 1000, count, files);
    for window in &mut windows {
        for (op, requests) in [("GETATTR", 7), ("COMMIT", 2)] {
            let sums = OperationSums {
                requests,
                received_bytes: window.start.0.unsigned_abs() % 1000,
                ..OperationSums::default()
            };
            let operation = Operation {
                mount: Some("srv:/even".into()),
                op: op.into(),
                transport: None,
            };
            window.ops.push(OperationRow { operation, sums });
        }
        window.health.ops_covered_ms = 1000;
        window.health.ops_seen = 9;
    }
    let mut writer = append(store, options_of("a", "1s,1m", "1h"), &[]);
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    for window in &windows {
        writer.append(window).unwrap();
        let request = |i: i64| {
            let end_ns = window.start.0 * 1_000_000 + i * 3333;
            let record = RequestRecord {
                done_bytes: 4096 + i as u32,
                ..RequestRecord::default()
            };
            Request::new(&record, end_ns, 0)
        };
        let batch = RequestBatch {
            files: vec![file(1, Some("/mnt/f1"))],
            requests: (0..30).map(request).collect(),
        };
        requests.append(&batch).unwrap();
    }
    requests.finish().unwrap();
    writer.finish().unwrap();
    assert_eq!(check(store).unwrap().findings, []);
}

fn segments(store: &Path) -> Vec<PathBuf> {
    let snapshot = Snapshot::open(store).unwrap();
    let of = |dataset| snapshot.segments(dataset, None).unwrap();
    let windows = Dataset::ALL.into_iter().flat_map(of);
    let mut paths: Vec<_> = windows.map(|segment| segment.path).collect();
    let dates = fs::read_dir(store.join("requests")).unwrap();
    let dates = dates.map(|date| date.unwrap().path());
    let files = dates.flat_map(|date| fs::read_dir(date).unwrap());
    paths.extend(files.map(|file| file.unwrap().path()));
    paths
}

fn dataset(store: &Path, segment: &Path) -> String {
    let first = segment.strip_prefix(store).unwrap().iter().next();
    first.unwrap().to_str().unwrap().to_owned()
}

fn exported(question: &Question, table: ExportDataset) -> String {
    let export = Export {
        question: question.clone(),
        table,
        granularity: None,
    };
    let mut batches = Vec::new();
    let done = export.run::<QueryError>(&mut |batch| {
        batches.push(batch);
        Ok(())
    });
    format!("{done:?} {batches:?}")
}

/// The answers about a dataset to several questions, with all notes.
fn answers(store: &Path, dataset: &str) -> Vec<String> {
    fn shown(answer: impl Debug) -> String {
        format!("{answer:?}")
    }
    let mut asked = question(store);
    let mut answers = Vec::new();
    for text in ["1s", "1m"] {
        asked.step = Some(text.parse().unwrap());
        match dataset {
            "rollup" => {
                answers.push(shown(ask(&asked)));
                let mut of_one = asked.clone();
                of_one.files = vec![select("/mnt/f3")];
                of_one.step = Some(Step::All);
                answers.push(shown(ask(&of_one)));
            }
            "ops" => answers.push(shown(ask_operations(&asked, Connections::Together))),
            "health" => {
                answers.push(shown(ask(&asked)));
                answers.push(exported(&asked, ExportDataset::Health));
            }
            "requests" => answers.push(exported(&asked, ExportDataset::Requests)),
            other => panic!("{other}"),
        }
    }
    answers
}

/// Asserts that answers are unchanged or report damage. Returns the number that report damage.
fn same_or_told(before: &[String], after: &[String], what: &str) -> usize {
    let is_told = |answer: &&String| answer.contains("Damaged");
    for (before, after) in before.iter().zip(after) {
        assert!(
            before == after || is_told(&after),
            "{what}:\n{before}\n{after}"
        );
    }
    after.iter().filter(is_told).count()
}

/// Damages a segment in many ways, one after the other.
fn mutated(segment: &Path, original: &[u8], mut each: impl FnMut(&str)) {
    let mut bytes = original.to_vec();
    let mut numbers = Numbers(3);
    let length = bytes.len();
    // Each damage takes several questions, so only `make test-long` tries all.
    let few = std::env::var_os("TRACKIOPS_TEST_LONG").is_none();
    let (places, step) = if few { (15, 2048) } else { (60, 512) };
    // The ends of the file, and one byte every few bytes.
    let dense = (0..length).step_by(length / places + 1);
    let dense = dense.map(|at| at + numbers.below((length / places + 1) as u64) as usize);
    let places: Vec<_> = dense.chain(length - 20..length).collect();
    for at in places.into_iter().filter(|at| *at < length) {
        bytes[at] ^= 1 << (at % 8);
        fs::write(segment, &bytes).unwrap();
        each(&format!("byte {at}"));
        bytes[at] = original[at];
    }
    for start in (0..length).step_by(step) {
        bytes[start..(start + 512).min(length)].fill(0);
        fs::write(segment, &bytes).unwrap();
        each(&format!("sector at {start}"));
        bytes.copy_from_slice(original);
    }
    for end in (0..length).step_by(length / 10 + 1).chain([length - 1]) {
        fs::write(segment, &original[..end]).unwrap();
        each(&format!("cut at {end}"));
    }
    fs::write(segment, [original, &[0; 512]].concat()).unwrap();
    each("grown");
    for at in (0..length.saturating_sub(8192)).step_by(4096) {
        let (first, second) = bytes[at..].split_at_mut(4096);
        first.swap_with_slice(&mut second[..4096]);
        fs::write(segment, &bytes).unwrap();
        each(&format!("swapped at {at}"));
        bytes.copy_from_slice(original);
    }
    fs::write(segment, original).unwrap();
}

#[test]
fn no_damaged_byte_of_a_segment_changes_an_answer_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), 25, 6);
    for segment in segments(dir.path()) {
        let dataset = dataset(dir.path(), &segment);
        let before = answers(dir.path(), &dataset);
        let original = fs::read(&segment).unwrap();
        let (mut all, mut told) = (0, 0);
        mutated(&segment, &original, |what| {
            let after = answers(dir.path(), &dataset);
            let what = format!("{} of {}, {what}", segment.display(), original.len());
            all += 1;
            told += usize::from(same_or_told(&before, &after, &what) > 0);
        });
        assert_eq!(answers(dir.path(), &dataset), before);
        // Damage in bytes that a query does not read has no effect.
        assert!(told * 2 > all, "{told} of {all}");
    }
    assert_eq!(check(dir.path()).unwrap().findings, []);
}

/// Blocks swapped within a file: their checksums hold, but at another place.
#[test]
fn blocks_that_changed_places_are_found() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), 300, 40);
    let segments = segments(dir.path());
    let segment = segments
        .iter()
        .max_by_key(|path| fs::metadata(path).unwrap().len());
    let segment = segment.unwrap();
    let dataset = dataset(dir.path(), segment);
    let before = answers(dir.path(), &dataset);
    let original = fs::read(segment).unwrap();
    assert!(original.len() > 100 << 10, "{}", original.len());
    for (first, second) in [(0, 1), (1, 2), (3, 8)] {
        let mut bytes = original.clone();
        let (before_second, from_second) = bytes.split_at_mut(second * 8192);
        before_second[first * 8192..][..8192].swap_with_slice(&mut from_second[..8192]);
        fs::write(segment, &bytes).unwrap();
        let what = format!("{first} and {second} of {}", segment.display());
        let after = answers(dir.path(), &dataset);
        assert!(same_or_told(&before, &after, &what) > 0, "{what}");
    }
}

/// The damage that a note reports.
fn told(store: &Path) -> String {
    let mut asked = question(store);
    asked.step = Some("1s".parse().unwrap());
    let notes = match ask(&asked).unwrap() {
        Outcome::Found(answer) => answer.notes,
        Outcome::Nothing { notes, .. } => notes,
    };
    let why = notes.iter().find_map(|note| match note {
        Note::Damaged { why, .. } => Some(why.clone()),
        _ => None,
    });
    why.unwrap_or_default()
}

#[test]
fn a_segment_that_was_put_in_the_place_of_another_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    recorded(dir.path(), 25, 6);
    recorded(other.path(), 25, 7);
    let segment = segments(dir.path()).remove(0);
    let original = fs::read(&segment).unwrap();
    let relative = segment.strip_prefix(dir.path()).unwrap();
    let of_other = fs::read(other.path().join(relative)).unwrap();
    let coarse = relative.to_str().unwrap().replace("=1s", "=1m");
    let coarse = fs::read(dir.path().join(coarse)).unwrap();
    for bytes in [of_other, coarse] {
        fs::write(&segment, bytes).unwrap();
        let why = told(dir.path());
        assert!(why.contains("the catalog says"), "{why}");
    }
    fs::write(&segment, original).unwrap();
    assert_eq!(told(dir.path()), "");
}

#[test]
fn what_is_no_regular_file_is_told_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), 25, 6);
    let segment = segments(dir.path()).remove(0);
    let moved = dir.path().join("moved");
    fs::rename(&segment, &moved).unwrap();
    type Make<'m> = Box<dyn Fn() + 'm>;
    let makes: [(&str, Make<'_>); 4] = [
        (
            "FIFO",
            Box::new(|| {
                let made = Command::new("mkfifo").arg(&segment).status().unwrap();
                assert!(made.success());
            }),
        ),
        ("directory", Box::new(|| fs::create_dir(&segment).unwrap())),
        ("link", Box::new(|| symlink(&moved, &segment).unwrap())),
        (
            "device",
            Box::new(|| symlink("/dev/zero", &segment).unwrap()),
        ),
    ];
    for (what, make) in &makes {
        make();
        let expected = match what {
            &"link" | &"device" => "it is, or is reached through, a symbolic link",
            _ => "it is not a regular file",
        };
        assert_eq!(told(dir.path()), expected, "{what}");
        let found = check(dir.path()).unwrap().findings;
        assert!(found.iter().any(|found| found.path == segment), "{what}");
        if segment.is_dir() {
            fs::remove_dir(&segment).unwrap();
        } else {
            fs::remove_file(&segment).unwrap();
        }
    }
    fs::rename(&moved, &segment).unwrap();
    assert_eq!(check(dir.path()).unwrap().findings, []);
}
