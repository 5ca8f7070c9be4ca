//! Golden files for the promises of docs/reference/stability.md. `UPDATE_GOLDEN=1` adds what is new. What is gone or different fails also
//! then.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// Whether golden files are renewed.
pub fn is_renewing() -> bool {
    env::var_os("UPDATE_GOLDEN").is_some()
}

/// What to do about a broken promise.
pub fn broken(file: &Path, what: &str) -> String {
    format!(
        "{what}\n\ndocs/reference/stability.md promises that this stays. Bring it back. To take it away, announce that first: that page \
         says how, and for how long the old name must go on working. After that, delete it from {} by hand; UPDATE_GOLDEN=1 only adds.",
        file.display()
    )
}

/// What to do about something new.
pub fn unwritten(file: &Path, what: &str, tests: &str) -> String {
    format!(
        "{what}\n\n{} lacks this. Once it is there, docs/reference/stability.md promises that it stays. If it may, write it down: \
         UPDATE_GOLDEN=1 cargo test --features fail-points {tests}",
        file.display()
    )
}

/// Compares lines with a golden file, in any order. `tests` are the words with which cargo runs the test. The file may have empty lines,
/// and titles that begin with `#`.
pub fn hold_lines(file: &Path, lines: &[String], tests: &str) {
    // A file that is gone must not be written again as if it were new.
    let then = fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let is_promise = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let then: BTreeSet<_> = then.lines().filter(is_promise).collect();
    let now: BTreeSet<_> = lines.iter().map(String::as_str).collect();
    let gone: Vec<_> = then.difference(&now).copied().collect();
    assert!(
        gone.is_empty(),
        "{}",
        broken(file, &format!("these are gone:\n{}", gone.join("\n")))
    );
    if is_renewing() {
        return fs::write(file, lines.join("\n") + "\n").unwrap();
    }
    let added = now.difference(&then).copied().filter(is_promise);
    let added: Vec<_> = added.collect();
    assert!(
        added.is_empty(),
        "{}",
        unwritten(
            file,
            &format!("these are new:\n{}", added.join("\n")),
            tests
        )
    );
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn said(golden: &str, lines: &[&str]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("golden.txt");
        fs::write(&file, golden).unwrap();
        let lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
        let held = catch_unwind(|| hold_lines(&file, &lines, "--test x"));
        held.err().map(|why| *why.downcast::<String>().unwrap())
    }

    #[test]
    fn what_is_gone_and_what_is_new_are_told_apart() {
        let golden = "# Flags\n\na\nb\n";
        assert_eq!(said(golden, &["# Other flags", "b", "", "a"]), None);
        let gone = said(golden, &["b", "c"]).unwrap();
        assert!(
            gone.contains("gone:\na\n") && gone.contains("stability.md"),
            "{gone}"
        );
        if is_renewing() {
            return;
        }
        let new = said(golden, &["a", "b", "c"]).unwrap();
        assert!(
            new.contains("new:\nc\n") && new.contains("UPDATE_GOLDEN=1"),
            "{new}"
        );
    }
}
