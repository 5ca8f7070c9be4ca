//! Questions and answers as plain text: every file of `tests/cases` is one case, and a new case needs no Rust. `README.md` there describes
//! their format. `UPDATE_GOLDEN=1 cargo test --test program query_cases::` rewrites the answers; review the difference.

pub mod run;

use std::fs;
use std::path::Path;
use trackiops_testkit::case;

use run::Session;

#[test]
fn every_case_is_answered_as_it_is_written() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut paths: Vec<_> = fs::read_dir(&dir)
        .expect("the cases")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in &paths {
        let written = fs::read_to_string(path).unwrap();
        let answered = answer(&written, path);
        if answered == written {
            continue;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(path, &answered).unwrap();
        } else {
            wrong.push(format!(
                "{}\n{}",
                path.display(),
                difference(&written, &answered)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The case with the current answers.
fn answer(case: &str, path: &Path) -> String {
    let mut session = Session::new();
    let mut text = String::new();
    let mut recording = String::new();
    for line in case.lines() {
        let is_answer = ["> ", "! ", "= "].iter().any(|mark| line.starts_with(mark));
        if is_answer || matches!(line, ">" | "!") {
            continue;
        }
        text.push_str(line);
        text.push('\n');
        match line.strip_prefix("$ ") {
            Some(command) => {
                if !recording.is_empty() {
                    case::record(&std::mem::take(&mut recording), session.dir())
                        .unwrap_or_else(|why| panic!("{}: {why}", path.display()));
                }
                text.push_str(&session.run(command));
            }
            None if line.starts_with('#') => {}
            None => {
                recording.push_str(line);
                recording.push('\n');
            }
        }
        if recording.trim().is_empty() {
            recording.clear();
        }
    }
    text
}

/// The lines from the first difference to the last.
fn difference(written: &str, answered: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (written.lines().collect(), answered.lines().collect());
    let head = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let tails = a[head..].iter().rev().zip(b[head..].iter().rev());
    let tail = tails.take_while(|(a, b)| a == b).count();
    let part = |lines: &[&str]| lines[head..lines.len() - tail].join("\n");
    format!(
        "line {}: to be\n{}\nand is\n{}",
        head + 1,
        part(&a),
        part(&b)
    )
}
