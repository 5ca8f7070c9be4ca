//! Imports that are interrupted and continued: the store answers as if nothing had happened.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;

use rustix::process::Signal;
use tempfile::TempDir;
use trackiops_testkit::program;

use super::long::{begin, end};
use super::packets::{self, Read, START_S, reads};
use super::{some_nfsdump, text, trackiops};

const FILES: u32 = 200;

/// Requests of three clients; the last two come later. An import writes them in two parts. First come more rows than it writes at once,
/// then a pause in which their windows close, then the rest.
fn long_capture() -> Vec<u8> {
    let reads_of = |second: u32| {
        (0..FILES).map(move |file| Read {
            client: [10, 0, 0, if second > 15 { 1 + (file % 3) as u8 } else { 1 }],
            file: file + second % 7,
            time: (START_S + second, file * 4500),
        })
    };
    reads((0..23).chain(40..42).flat_map(reads_of))
}

/// A place with that capture, and the answers of a store with it.
fn long() -> (Place, Vec<Vec<String>>) {
    static ANSWERS: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    let place = Place::new("pcap", &long_capture());
    let answers = ANSWERS.get_or_init(|| {
        let whole = place.store("whole");
        place.complete(&whole);
        answers(&whole)
    });
    (place, answers.clone())
}

struct Place {
    dir: TempDir,
    kind: &'static str,
    file: PathBuf,
}

impl Place {
    fn new(kind: &'static str, content: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("input");
        fs::write(&file, content).unwrap();
        Self { dir, kind, file }
    }

    fn store(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the import, which kills itself at a given point.
    fn import(&self, store: &Path, kill_at: Option<&str>) -> Output {
        let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
        command.args(["import", self.kind, text(&self.file)]);
        command.args(["--store", text(store)]).env("TZ", "UTC0");
        if let Some(place) = kill_at {
            command.env("TRACKIOPS_KILL_AT", place);
        }
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs the import to its end, and returns its messages.
    fn complete(&self, store: &Path) -> String {
        let output = self.import(store, None);
        assert!(output.status.success(), "{output:?}");
        let check = trackiops(&["store", "check", text(store)]);
        assert!(check.status.success(), "{check:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Kills the import at a point, continues it, and compares with a store of an import that was not killed.
    fn kill_and_go_on(&self, place: &str, expected: &[Vec<String>]) {
        let store = self.store("killed");
        let _ = fs::remove_dir_all(&store);
        let killed = self.import(&store, Some(place));
        assert_eq!(killed.status.code(), None, "{place}: {killed:?}");
        self.complete(&store);
        assert!(answers(&store) == expected, "{place}: another answer");
        let asked = trackiops(&["requests", "--since", "1990-01-01", "--store", text(&store)]);
        let said = String::from_utf8(asked.stderr).unwrap();
        assert!(!said.contains("were deleted"), "{place}: {said}");
    }
}

fn copy(store: &Path, to: &Path) {
    let copied = trackiops(&["store", "copy", text(to), "--store", text(store)]);
    assert!(copied.status.success(), "{copied:?}");
}

/// The answers of a store: lines, in any order.
fn answers(store: &Path) -> Vec<Vec<String>> {
    let questions: [&[&str]; 5] = [
        &["export"],
        &["requests", "--csv"],
        &["query", "--by", "op", "--step", "1s", "--csv"],
        &["query", "--by", "file", "--csv"],
        &["import", "account", "--csv"],
    ];
    let answer = |words: &&[&str]| {
        let mut words = words.to_vec();
        let own = ["--since", "1990-01-01", "--store", text(store)];
        words.extend(own);
        let output = store.with_extension("csv");
        if words[0] == "export" {
            words.extend(["--output", text(&output)]);
        }
        let said = trackiops(&words);
        assert!(matches!(said.status.code(), Some(0 | 1)), "{said:?}");
        let rows = match words[0] {
            "export" => fs::read_to_string(&output).unwrap(),
            _ => String::from_utf8(said.stdout).unwrap(),
        };
        let mut lines: Vec<String> = rows.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    questions.iter().map(answer).collect()
}

#[test]
fn an_import_that_is_killed_at_any_step_goes_on_with_no_row_twice_and_none_missing() {
    let table = "\
end_time,op,done_bytes,host,path
2026-11-29T00:00:00Z,READ,1,a,/x
2026-11-29T00:00:01Z,READ,40,b,/y
2026-11-29T23:59:59Z,WRITE,7,a,/x
2026-11-30T00:00:00Z,WRITE,8,b,/z
";
    let small = packets::pcap(START_S, &packets::some_requests());
    for (kind, content) in [
        ("csv", table.as_bytes()),
        ("nfsdump", some_nfsdump().as_bytes()),
        ("pcap", &small),
    ] {
        let place = Place::new(kind, content);
        let whole = place.store("whole");
        let said = place.complete(&whole);
        assert!(!said.contains("already"), "{said}");
        let expected = answers(&whole);
        assert!(expected[1].len() > 1, "{expected:?}");
        for at in [
            "1 import: begun",
            "1 append: written",
            "1 append: named",
            "1 requests: append",
            "1 requests: named",
            "1 import: appended",
            "1 import: counted",
            "1 import: closed",
            "1 seal: written",
            "1 seal: committed",
            "1 requests: committed",
        ] {
            place.kill_and_go_on(at, &expected);
        }
    }
}

#[test]
fn a_long_import_goes_on_behind_what_it_wrote() {
    let (place, expected) = long();
    let store = place.store("killed");
    // Killed after the first part, and again each time it continues.
    for at in [
        "1 import: counted",
        "1 import: stock taken",
        "1 import: begun",
        "1 import: appended",
    ] {
        let killed = place.import(&store, Some(at));
        assert_eq!(killed.status.code(), None, "{at}: {killed:?}");
    }
    let said = place.complete(&store);
    assert!(said.contains("windows and "), "{said}");
    assert!(answers(&store) == expected);
}

#[test]
fn another_import_comes_between() {
    let place = Place::new("nfsdump", some_nfsdump().as_bytes());
    let other = Place::new("pcap", &packets::pcap(START_S, &packets::some_requests()));
    let whole = place.store("whole");
    place.complete(&whole);
    other.complete(&whole);
    let store = place.store("killed");
    let killed = place.import(&store, Some("1 import: appended"));
    assert_eq!(killed.status.code(), None, "{killed:?}");
    other.complete(&store);
    place.complete(&store);
    assert!(answers(&store) == answers(&whole));
}

#[test]
fn the_same_import_again_adds_nothing_whatever_the_file_is_called() {
    let mut place = Place::new("pcap", &packets::pcap(START_S, &packets::some_requests()));
    let store = place.store("store");
    place.complete(&store);
    let expected = answers(&store);
    let renamed = place.dir.path().join("renamed");
    fs::rename(&place.file, &renamed).unwrap();
    place.file = renamed;
    let said = place.complete(&store);
    assert!(
        said.contains("of this import already; they were not added again"),
        "{said}"
    );
    assert!(!said.contains("counts twice"), "{said}");
    assert!(answers(&store) == expected);
}

#[test]
fn an_import_that_a_signal_ends_goes_on() {
    let (place, expected) = long();
    let store = place.store("ended");
    let import = begin(&place.file, &store);
    let output = end(import, Signal::TERM, &store.join("journal"), 3);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the same command goes on"), "{said}");
    assert!(answers(&store) != expected);
    place.complete(&store);
    assert!(answers(&store) == expected);
}

#[test]
fn a_copy_of_a_store_knows_what_was_imported() {
    let (place, expected) = long();
    let (store, copied) = (place.store("store"), place.store("copied"));
    let killed = place.import(&store, Some("1 import: appended"));
    assert_eq!(killed.status.code(), None, "{killed:?}");
    copy(&store, &copied);
    place.complete(&copied);
    assert!(answers(&copied) == expected);
    let again = place.store("again");
    copy(&copied, &again);
    let said = place.complete(&again);
    assert!(said.contains("they were not added again"), "{said}");
    assert!(answers(&again) == expected);
}

#[test]
fn an_import_of_which_an_unknown_part_is_there_is_refused() {
    let place = Place::new("pcap", &packets::pcap(START_S, &packets::some_requests()));
    let store = place.store("store");
    let refused = || {
        let output = place.import(&store, None);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("it is not known how much"), "{said}");
    };
    // The store is restored to an earlier state.
    let other = Place::new("nfsdump", some_nfsdump().as_bytes());
    other.complete(&store);
    let earlier = place.store("earlier");
    copy(&store, &earlier);
    place.complete(&store);
    fs::remove_dir_all(earlier.join("imports")).unwrap();
    fs::rename(store.join("imports"), earlier.join("imports")).unwrap();
    fs::remove_dir_all(&store).unwrap();
    fs::rename(&earlier, &store).unwrap();
    refused();
    // The store's data of the import is changed.
    fs::remove_dir_all(&store).unwrap();
    let killed = place.import(&store, Some("1 import: appended"));
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let imports = fs::read_dir(store.join("imports")).unwrap();
    let open = imports.map(|entry| entry.unwrap().path()).next().unwrap();
    let changed = fs::read_to_string(&open).unwrap().replace(":1,", ":2,");
    fs::write(&open, changed).unwrap();
    refused();
}

#[test]
fn an_import_whose_progress_was_deleted_or_damaged_is_refused() {
    let place = Place::new("pcap", &packets::pcap(START_S, &packets::some_requests()));
    let store = place.store("store");
    let is_refused = |word: &str| {
        let check = trackiops(&["store", "check", text(&store)]);
        assert_eq!(check.status.code(), Some(1), "{check:?}");
        let told = String::from_utf8_lossy(&check.stdout);
        assert!(told.contains("imports"), "{told}");
        let output = place.import(&store, None);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(word), "{said}");
    };
    place.complete(&store);
    let expected = answers(&store);
    let progress = fs::read_dir(store.join("imports")).unwrap().next();
    let progress = progress.unwrap().unwrap().path();
    let whole = fs::read(&progress).unwrap();
    fs::write(&progress, &whole[1..]).unwrap();
    is_refused("checksum");
    fs::remove_file(&progress).unwrap();
    is_refused("it is not known whether");
    assert!(answers(&store) == expected);
    fs::write(&progress, whole).unwrap();
    let said = place.complete(&store);
    assert!(said.contains("they were not added again"), "{said}");
    assert!(answers(&store) == expected);
}

#[test]
fn messages_of_an_import_that_was_killed_are_written_again() {
    let place = Place::new("pcap", &packets::pcap(START_S, &packets::some_requests()));
    let (store, messages) = (place.store("store"), place.store("messages"));
    let import = |kill_at: &str| {
        let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
        command.args(["import", "pcap", text(&place.file), "--store", text(&store)]);
        command.args(["--messages", text(&messages)]);
        command.env("TRACKIOPS_KILL_AT", kill_at).output().unwrap()
    };
    assert_eq!(import("1 import: counted").status.code(), None);
    let output = import("never");
    assert!(output.status.success(), "{output:?}");
    let mut names: Vec<_> = fs::read_dir(&messages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["attrs.parquet", "records.parquet"]);
}
