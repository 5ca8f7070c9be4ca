//! What a new user tries first: every task in docs/internals/testing.md does what the page says.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use trackiops_testkit::program;

/// A line of the table: the commands of the task, without `trackiops`, and what the last one gives.
struct Task<'p> {
    commands: Vec<&'p str>,
    gives: &'p str,
}

/// Commands that need root or must not have it, and other programs.
const ELSEWHERE: [&str; 3] = ["serve ", "record ", "curl "];

/// What stands between backticks.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn task(line: &str) -> Option<Task<'_>> {
    let mut cells = line
        .strip_prefix("| `")?
        .strip_suffix(" |")?
        .rsplitn(2, " | ");
    let gives = cells.next()?;
    let commands = &line[2..line.len() - " | ".len() - gives.len() - " |".len()];
    Some(Task {
        commands: literals(commands).collect(),
        gives,
    })
}

#[test]
fn every_task_gives_what_the_page_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/internals/testing.md")).unwrap();
    let (_, section) = page.split_once("## Tasks of a new user").unwrap();
    let (_, code) = section.split_once("```bash\n").unwrap();
    let (table, tasks) = code.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let sh = |line: &str| -> Output {
        let mut shell = Command::new("bash");
        program::without_settings(&mut shell);
        shell.args(["-c", line]).current_dir(dir.path());
        shell.env("TZ", "UTC0").env("COLUMNS", "100");
        shell.output().unwrap()
    };
    assert!(sh(table).status.success());
    let program = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let program: Vec<_> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let program = program.join(" ");
    let is_there = |path: &str| Path::new(path).exists();
    let (is_recording, has_store) = (is_there("/run/trackiops"), is_there("/var/lib/trackiops"));
    let mut ran = 0;
    for Task { commands, gives } in tasks.lines().filter_map(task) {
        let is_elsewhere = |command: &&str| ELSEWHERE.iter().any(|of| command.starts_with(of));
        let task = commands.join(", ");
        // Without a recorder or a store on this machine.
        let is_other =
            is_recording && gives.contains("no recorder") || has_store && task == "query";
        if commands.iter().any(is_elsewhere) || is_other {
            continue;
        }
        let status = gives.strip_prefix("status ").and_then(|of| of.get(..1));
        let status: i32 = status.map_or(0, |of| of.parse().unwrap());
        let mut said = String::new();
        for (place, command) in commands.iter().enumerate() {
            let output = sh(&format!("{program} {command}"));
            for part in [&output.stdout, &output.stderr] {
                said += &String::from_utf8_lossy(part);
            }
            let expected = if place + 1 == commands.len() {
                status
            } else {
                0
            };
            assert_eq!(output.status.code(), Some(expected), "{command}: {said}");
        }
        for literal in literals(gives) {
            assert!(said.contains(literal), "{task}: no `{literal}` in {said}");
        }
        ran += 1;
    }
    assert!(ran >= 35, "{ran} tasks");
}
