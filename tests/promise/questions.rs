//! Files of questions and their answers. A question is a line after `$ `, and lines of its answer begin with `> ` or `= `; others are
//! comments. To ask something new, write the question alone: `UPDATE_GOLDEN=1` adds the answer.

use std::fs;
use std::path::Path;

use trackiops_testkit::promise::{broken, is_renewing, unwritten};

/// Compares the answers in a file with those that `ask` gives. `missing` says what an answer lacks: it has the question, the answer in the
/// file, and the one that is given now.
pub fn hold(
    file: &Path,
    mut ask: impl FnMut(&str) -> String,
    missing: impl Fn(&str, &str, &str) -> Option<String>,
) {
    let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let (mut renewed, mut wrong, mut unanswered) = (String::new(), Vec::new(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        add_line(&mut renewed, line);
        let Some(question) = line.strip_prefix("$ ") else {
            continue;
        };
        let mut then = String::new();
        while let Some(line) = lines.next_if(|line| is_answer(line)) {
            add_line(&mut then, line);
        }
        let now = ask(question);
        if then.is_empty() {
            unanswered.push(question);
            renewed += &now;
            continue;
        }
        match missing(question, &then, &now) {
            None => renewed += &now,
            Some(why) => {
                wrong.push(format!("{question}\n{why}"));
                renewed += &then;
            }
        }
    }
    if is_renewing() {
        fs::write(file, renewed).unwrap();
        unanswered.clear();
    }
    assert!(wrong.is_empty(), "{}", broken(file, &wrong.join("\n\n")));
    let unanswered = unanswered.join("\n");
    let tests = "--test program promise::";
    assert!(
        unanswered.is_empty(),
        "{}",
        unwritten(file, &format!("answers to\n{unanswered}"), tests)
    );
}

fn add_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn is_answer(line: &str) -> bool {
    line == ">" || line.starts_with("> ") || line.starts_with("= ")
}
