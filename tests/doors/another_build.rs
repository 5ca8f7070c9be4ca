//! Another build of the program gives the same answers, byte by byte. This holds for changes that only affect the code.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::each;
use super::question::{ALL, BOTH, Question};
use super::stores::Stores;

/// Questions besides those in `questions.txt`; they cover every subcommand that answers.
const OTHERS: &[&[&str]] = &[
    &["query"],
    &["query", "--parts"],
    &["query", "--top", "5"],
    &["query", "--where", "read_requests > 10"],
    &["query", "--by", "host,tenant"],
    &["query", "--file", "/mnt/odd/db/other.db", "--parts"],
    &["query", "--file", "/mnt/no such file"],
    &["query", "--columns", "help"],
    &["query", "--sort", "nothing"],
    &["files"],
    &["files", "--sort", "bytes", "--top", "3"],
    &["mounts"],
    &["flamegraph", "--folded"],
];

/// Formats for each question.
const FORMATS: &[&[&str]] = &[&[], &["--csv"], &["--json"]];

fn asked() -> Vec<Vec<String>> {
    let questions = Question::all().into_iter().map(|question| {
        let query = std::iter::once("query".to_owned());
        query.chain(question.words).collect()
    });
    let others = OTHERS.iter().map(|words| {
        let mut words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let is_of_a_range = !["mounts", "flamegraph"].contains(&&*words[0]);
        if is_of_a_range && !words.contains(&"help".to_owned()) {
            words.extend(ALL.map(str::to_owned));
        }
        words
    });
    let all: Vec<Vec<String>> = questions.chain(others).collect();
    let in_format = |words: &Vec<String>| {
        let is_plain = words[0] == "flamegraph" || words.iter().any(|word| word == "help");
        let formats = if is_plain { &FORMATS[..1] } else { FORMATS };
        let with = |format: &&[&str]| {
            let mut words = words.clone();
            words.extend(format.iter().map(|word| word.to_string()));
            words
        };
        formats.iter().map(with).collect::<Vec<_>>()
    };
    all.iter().flat_map(in_format).collect()
}

fn ask(program: &OsStr, dir: &Path, words: &[String]) -> Output {
    let stores = BOTH.iter().flat_map(|store| ["--store", store]);
    let mut command = Command::new(program);
    command.current_dir(dir).args(words).args(stores);
    command.env("TZ", "UTC0").env("COLUMNS", "100");
    command
        .env("LC_ALL", "C.UTF-8")
        .env_remove("TRACKIOPS_STORE");
    command.output().expect("both programs can be started")
}

#[test]
#[ignore = "make compare BEFORE=PROGRAM: needs another build of the program"]
fn another_build_gives_the_same_answers() {
    let before = std::env::var_os("TRACKIOPS_BEFORE").expect("make compare sets TRACKIOPS_BEFORE");
    let before = PathBuf::from(before).canonicalize().expect("a program");
    let now = env!("CARGO_BIN_EXE_trackiops");
    let (questions, mut compared) = (asked(), 0);
    for (state, stores) in [
        ("sealed", Stores::sealed()),
        ("journal", Stores::journal()),
        ("merged", Stores::merged()),
        ("expired", Stores::expired()),
    ] {
        let answers = each(&questions, |words| {
            [before.as_os_str(), now.as_ref()].map(|program| ask(program, stores.path(), words))
        });
        for (words, [before, now]) in questions.iter().zip(&answers) {
            let words = words.join(" ");
            assert_eq!(before.status, now.status, "{state}: {words}");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            for (before, now) in [(&before.stdout, &now.stdout), (&before.stderr, &now.stderr)] {
                assert!(
                    before == now,
                    "{state}: {words}\n{}\nis now\n{}",
                    text(before),
                    text(now)
                );
            }
            compared += 1;
        }
    }
    println!("{compared} answers are the same");
}
