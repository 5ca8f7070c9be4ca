//! With any damage to a journal, an answer is right or a note reports the damage. A journal that is still being written never causes such a
//! note.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType};
use trackiops_query::coverage::note::Note;
use trackiops_query::{
    Connections, Outcome, QueryError, Question, Range, Step, ask, ask_operations,
};
use trackiops_render::{Export, ExportDataset};
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, Writer, check};
use trackiops_testkit::generated::{THREE, file, health, windows};
use trackiops_testkit::questions::{question, range, select};
use trackiops_testkit::stores::{append, options_of, record};

/// Windows with files that appear one after the other, operations, and one window with a pending request.
fn recorded(count: i64) -> Vec<ClosedWindow> {
    let mut windows = windows(5, THREE, 1000, count, 3);
    for (window, i) in windows.iter_mut().zip(1..) {
        window.rows.retain(|row| row.file.id.fileid < i);
        window.health = health(1000, &window.rows);
        let operation = Operation {
            mount: Some("srv:/even".into()),
            op: "GETATTR".into(),
            transport: None,
        };
        let sums = OperationSums {
            requests: i,
            ..OperationSums::default()
        };
        window.ops.push(OperationRow { operation, sums });
        window.health.ops_covered_ms = 1000;
        window.health.ops_seen = i;
    }
    windows
}

fn recorder() -> Options {
    options_of("a", "1s,1m", "15m")
}

/// Writes a store with one journal. Returns its path, and its length after each window.
fn leave(store: &Path, windows: &[ClosedWindow]) -> (PathBuf, Vec<usize>) {
    let mut writer = Writer::open(store, recorder()).unwrap();
    let journal = store.join("journal/1.tij");
    let mut ends = Vec::new();
    for window in windows {
        writer.append(window).unwrap();
        ends.push(fs::metadata(&journal).unwrap().len() as usize);
    }
    (journal, ends)
}

/// An answer in words without its notes about damage, and whether it has such notes.
type Said = (String, bool);

fn said<R: Debug>(answered: Result<Outcome<R>, QueryError>) -> Said {
    let (rows, notes) = match answered {
        Ok(Outcome::Found(answer)) => (format!("{:?}", answer.rows), answer.notes),
        Ok(Outcome::Nothing { why, notes }) => (format!("{why:?}"), notes),
        Err(error) => return (error.to_string(), true),
    };
    let (damage, others): (Vec<_>, Vec<_>) = notes
        .into_iter()
        .partition(|note| matches!(note, Note::Damaged { .. }));
    (format!("{rows} {others:?}"), !damage.is_empty())
}

fn from(second: i64) -> Range {
    Range {
        since: Some(UtcMs(THREE + second * 1000)),
        until: None,
    }
}

fn asked(store: &Path, range: Range) -> Question {
    Question {
        range,
        step: Some("1s".parse::<Step>().unwrap()),
        ..question(store)
    }
}

/// Questions to each damaged store: by second, about one file, about parts of the time, about operations. The notes of all answers include
/// time that was not recorded.
fn answers(store: &Path, windows: i64) -> Vec<Said> {
    let part = range(THREE + 2000, THREE + 4000);
    vec![
        said(ask(&asked(store, Range::default()))),
        said(ask(&Question {
            files: vec![select("/mnt/f1")],
            ..asked(store, from(0))
        })),
        said(ask(&asked(store, part))),
        said(ask(&asked(store, from(windows - 1)))),
        said(ask_operations(&asked(store, part), Connections::Together)),
        said(ask_operations(
            &asked(store, from(windows - 1)),
            Connections::Together,
        )),
    ]
}

/// Asserts that each answer is unchanged or reports damage.
fn assert_told(store: &Path, windows: i64, before: &[Said], what: &str) -> bool {
    let after = answers(store, windows);
    for (i, (after, before)) in after.iter().zip(before).enumerate() {
        assert!(
            after == before || after.1,
            "{what}, question {i}: {} in place of {}",
            after.0,
            before.0
        );
    }
    after != before
}

/// Positions of the frames of a journal, and its end.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 16 + u32_at(8);
    let mut frames = vec![at];
    while at < bytes.len() {
        at += 13 + u32_at(at);
        frames.push(at);
    }
    frames
}

#[test]
fn a_damaged_journal_is_noted_wherever_it_changes_an_answer() {
    const WINDOWS: i64 = 5;
    let dir = tempfile::tempdir().unwrap();
    let (journal, ends) = leave(dir.path(), &recorded(WINDOWS));
    let whole = fs::read(&journal).unwrap();
    let before = answers(dir.path(), WINDOWS);
    assert!(before.iter().all(|said| !said.1), "{before:#?}");
    let mut changed = 0;
    let mut mutate = |bytes: &[u8], what: &str| {
        fs::write(&journal, bytes).unwrap();
        changed += usize::from(assert_told(dir.path(), WINDOWS, &before, what));
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        // A frame of another version is refused.
        mutate(&bytes, &format!("byte {at} flipped"));
    }
    for at in (0..whole.len()).step_by(512) {
        let mut bytes = whole.clone();
        let end = (at + 512).min(bytes.len());
        bytes[at..end].fill(0);
        mutate(&bytes, &format!("sector at {at} zeroed"));
    }
    let cuts = (0..whole.len()).step_by(5);
    for cut in cuts
        .chain(ends.iter().copied())
        .filter(|cut| *cut < whole.len())
    {
        mutate(&whole[..cut], &format!("cut at {cut}"));
        let mut zeros = whole.clone();
        zeros[cut..].fill(0);
        mutate(&zeros, &format!("zeros from {cut}"));
    }
    let frames = frames(&whole);
    assert!(frames.len() > 2 * ends.len());
    for three in frames.windows(3) {
        let mut bytes = whole.clone();
        bytes[three[0]..three[2]].rotate_left(three[1] - three[0]);
        mutate(&bytes, &format!("frames at {three:?} swapped"));
    }
    for three in ends.windows(3) {
        let mut bytes = whole.clone();
        bytes[three[0]..three[2]].rotate_left(three[1] - three[0]);
        mutate(&bytes, &format!("windows at {three:?} swapped"));
    }
    assert!(changed > whole.len() / 2, "{changed}");
    fs::write(&journal, &whole).unwrap();
    assert!(answers(dir.path(), WINDOWS) == before);
}

#[test]
fn without_what_vouches_for_it_a_journal_is_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, ends) = leave(dir.path(), &recorded(4));
    let end = journal.with_extension("end");
    let before = answers(dir.path(), 4);
    for content in [&b""[..], b"no end", &[0; 540], &[255; 540]] {
        fs::write(&end, content).unwrap();
        assert!(answers(dir.path(), 4) == before);
    }
    fs::remove_file(&end).unwrap();
    assert!(answers(dir.path(), 4) == before);
    let whole = fs::read(&journal).unwrap();
    // Without it, torn bytes may have been durable.
    fs::write(&journal, &whole[..ends[2] + 3]).unwrap();
    assert!(answers(dir.path(), 4).iter().any(|said| said.1));
}

#[test]
fn what_was_damaged_is_told_after_sealing_of_its_time_alone() {
    for cut in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (journal, ends) = leave(dir.path(), &recorded(6));
        let mut bytes = fs::read(&journal).unwrap();
        match cut {
            true => bytes.truncate(ends[4]),
            false => bytes[ends[2] + 20] ^= 1,
        }
        fs::write(&journal, bytes).unwrap();
        let mut writer = Writer::open(dir.path(), recorder()).unwrap();
        let later = windows(6, THREE + 3_600_000, 1000, 3, 2);
        later
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        writer.finish().unwrap();
        let aside = journal.with_extension("tij.damaged");
        assert!(aside.exists());
        let is_noted = |range| match ask(&asked(dir.path(), range)).unwrap() {
            Outcome::Found(answer) => damaged(&answer.notes) == [aside.clone()],
            Outcome::Nothing { notes, .. } => damaged(&notes) == [aside.clone()],
        };
        assert!(is_noted(Range::default()));
        assert!(is_noted(from(5)));
        assert!(!is_noted(from(3600)), "it was over by then");
        // If the end of its time is unknown, the journal may matter for any question.
        let end = journal.with_extension("end.damaged");
        let known = fs::read(&end).unwrap();
        fs::remove_file(&end).unwrap();
        assert!(is_noted(from(3600)));
        fs::write(&end, known).unwrap();
        assert_eq!(check(dir.path()).unwrap().findings[0].path, aside);
        // Once the user removes it, the note is gone. The next recorder removes the file beside it.
        fs::remove_file(&aside).unwrap();
        assert!(!is_noted(Range::default()));
        Writer::open(dir.path(), recorder())
            .unwrap()
            .finish()
            .unwrap();
        assert!(!end.exists());
    }
}

/// The files that notes report as damaged.
fn damaged(notes: &[Note]) -> Vec<PathBuf> {
    let paths = notes.iter().filter_map(|note| match note {
        Note::Damaged { path, .. } => Some(path.clone()),
        _ => None,
    });
    paths.collect()
}

#[test]
fn what_is_no_journal_is_one_note_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    leave(dir.path(), &recorded(4));
    let before = said(ask(&asked(dir.path(), Range::default())));
    let journals = dir.path().join("journal");
    let nowhere = journals.join("7.tij");
    let make: [(&str, &dyn Fn()); 5] = [
        ("a FIFO", &|| {
            rustix::fs::mknodat(CWD, &nowhere, FileType::Fifo, 0o600.into(), 0).unwrap();
        }),
        ("a directory", &|| fs::create_dir(&nowhere).unwrap()),
        ("a link to a device", &|| {
            std::os::unix::fs::symlink("/dev/zero", &nowhere).unwrap();
        }),
        ("a link to nothing", &|| {
            std::os::unix::fs::symlink("nothing", &nowhere).unwrap();
        }),
        ("text", &|| fs::write(&nowhere, "no journal").unwrap()),
    ];
    for (what, make) in make {
        make();
        let Outcome::Found(answer) = ask(&asked(dir.path(), Range::default())).unwrap() else {
            panic!("nothing beside {what}");
        };
        assert_eq!(damaged(&answer.notes), [nowhere.as_path()], "{what}");
        assert_eq!(said(Ok(Outcome::Found(answer))).0, before.0, "{what}");
        let found = check(dir.path()).unwrap().findings;
        assert_eq!(found[0].path, nowhere, "{what}");
        assert_eq!(found.len(), 1, "{what}");
        // The next recorder must start, too.
        let copy = tempfile::tempdir().unwrap();
        let store = copy.path().join("store");
        let mut writer = Writer::open(&store, recorder()).unwrap();
        writer.append(&recorded(1)[0]).unwrap();
        drop(writer);
        fs::rename(&nowhere, store.join("journal/7.tij")).unwrap();
        Writer::open(&store, recorder()).unwrap().finish().unwrap();
        let aside = store.join("journal/7.tij.damaged");
        assert!(aside.symlink_metadata().is_ok(), "{what}");
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_noted_by_an_export_of_health() {
    for sealed in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        let windows = recorded(4);
        record(dir.path(), recorder(), &windows[..sealed]);
        drop(append(dir.path(), recorder(), &windows[sealed..]));
        let journals = fs::read_dir(dir.path().join("journal")).unwrap();
        let mut journals = journals.map(|entry| entry.unwrap().path());
        let journal = journals.find(|path| path.extension() == Some("tij".as_ref()));
        let journal = journal.unwrap();
        fs::remove_file(&journal).unwrap();
        fs::create_dir(&journal).unwrap();
        let export = Export {
            question: asked(dir.path(), Range::default()),
            table: ExportDataset::Health,
            granularity: None,
        };
        let exported = export.run::<QueryError>(&mut |_| Ok(())).unwrap();
        assert_eq!(exported.rows, sealed as u64);
        assert_eq!(damaged(&exported.notes), [journal]);
    }
}

#[test]
fn a_journal_that_makes_no_sense_is_one_note_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let windows = recorded(4);
    let mut writer = Writer::open(dir.path(), recorder()).unwrap();
    writer.append(&windows[0]).unwrap();
    writer.append(&windows[1]).unwrap();
    let journal = dir.path().join("journal/1.tij");
    let mut bytes = fs::read(&journal).unwrap();
    // Damage the last byte of a window, and correct its checksum.
    let at = frames(&bytes).into_iter().rev().nth(1).unwrap();
    let u32_at =
        |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let whole = crc32c::crc32c_append(u32_at(&bytes, at + 5), &bytes[at + 13..]);
    assert_eq!(whole, u32_at(&bytes, at + 9));
    *bytes.last_mut().unwrap() ^= 0xff;
    let crc = crc32c::crc32c_append(u32_at(&bytes, at + 5), &bytes[at + 13..]);
    bytes[at + 9..at + 13].copy_from_slice(&crc.to_le_bytes());
    fs::write(&journal, bytes).unwrap();
    // A second damaged journal beside the first.
    let other = tempfile::tempdir().unwrap();
    let store = other.path().join("store");
    leave(&store, &windows[3..]);
    let question = Question {
        stores: vec![dir.path().into(), store],
        ..asked(dir.path(), Range::default())
    };
    let Outcome::Found(answer) = ask(&question).unwrap() else {
        panic!("nothing is found");
    };
    assert_eq!(damaged(&answer.notes), [journal]);
    assert!(!answer.rows.is_empty());
}

#[test]
fn a_journal_that_is_being_written_is_never_noted_as_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let options = options_of("a", "1s,1m", "10s");
    let mut writer = Writer::open(store, options.clone()).unwrap();
    let all = windows(7, THREE, 1000, 400, 40);
    writer.append(&all[0]).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for window in &all[1..] {
                writer.append(window).unwrap();
            }
            writer.finish().unwrap();
            is_over.store(true, Ordering::SeqCst);
        });
        let mut looks = 0;
        while !is_over.load(Ordering::SeqCst) {
            let answered = ask(&asked(store, Range::default())).unwrap();
            let (_, is_damaged) = said(Ok(answered));
            assert!(!is_damaged, "look {looks}");
            looks += 1;
        }
        assert!(looks > 3, "{looks}");
    });
    assert_eq!(check(store).unwrap().findings, []);
}

#[test]
fn single_requests_that_were_cut_are_noted_before_and_after_sealing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), recorder()).unwrap();
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    let journal = dir.path().join("journal/requests-1.tij");
    let mut ends = Vec::new();
    for window in &recorded(3) {
        writer.append(window).unwrap();
        let end_ns = window.start.0 * 1_000_000;
        let batch = RequestBatch {
            files: vec![file(1, Some("/mnt/f1"))],
            requests: vec![Request::new(&RequestRecord::default(), end_ns, 0); 3],
        };
        requests.append(&batch).unwrap();
        ends.push(fs::metadata(&journal).unwrap().len() as usize);
    }
    thread::sleep(Duration::from_millis(1100));
    requests.idle(UtcMs(THREE + 3000)).unwrap();
    drop((requests, writer));
    let export = |range| {
        let export = Export {
            question: asked(dir.path(), range),
            table: ExportDataset::Requests,
            granularity: None,
        };
        let mut rows = 0;
        let exported = export.run::<QueryError>(&mut |batch| {
            rows += batch.num_rows();
            Ok(())
        });
        (rows, damaged(&exported.unwrap().notes))
    };
    assert_eq!(export(Range::default()), (9, vec![]));
    let whole = fs::read(&journal).unwrap();
    assert_eq!(whole.len(), ends[2]);
    for cut in [0, ends[0], ends[1], ends[1] + 9] {
        fs::write(&journal, &whole[..cut]).unwrap();
        let (rows, told) = export(Range::default());
        assert!(rows < 9, "cut at {cut}: {rows}");
        assert_eq!(told, [journal.as_path()], "cut at {cut}");
    }
    let writer = Writer::open(dir.path(), recorder()).unwrap();
    writer.requests(64 << 20, |_| {}).unwrap().finish().unwrap();
    let aside = journal.with_extension("tij.damaged");
    assert_eq!(export(Range::default()), (6, vec![aside]));
    assert_eq!(export(from(3600)), (0, vec![]));
}
