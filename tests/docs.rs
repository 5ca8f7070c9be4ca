//! Checks docs/ and the READMEs: the reference matches the program's output, commands of the guide run, and links resolve. `UPDATE_GOLDEN=1
//! cargo test --test program docs::` rewrites the reference.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use trackiops_testkit::case;
use trackiops_testkit::program;
use trackiops_testkit::recording::{Recording, recent};

use chrono::{SubsecRound, Utc};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn trackiops(words: &[&str]) -> String {
    let output = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")))
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}

/// Titles of lists of commands.
const LISTS: [&str; 6] = [
    "Commands:",
    "Record:",
    "Ask:",
    "Explain:",
    "Exchange:",
    "Look after:",
];

/// The commands listed by `--help` below `words`.
fn subcommands(words: &[&str]) -> Vec<String> {
    let help = trackiops(&[words, &["--help"]].concat());
    let mut is_listed = false;
    let names = help.lines().filter(|line| {
        let is_title = !line.is_empty() && !line.starts_with(' ');
        if is_title {
            is_listed = LISTS.contains(line);
        }
        is_listed && !is_title
    });
    // Deeper lines continue the description above.
    let names = names.filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|n| *n != "help").map(str::to_owned).collect()
}

fn golden(name: &str, is: &str) {
    let path = Path::new(ROOT).join("docs/reference").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(path, is).unwrap();
    }
    assert!(
        fs::read_to_string(path).unwrap() == is,
        "{name} is not what the program prints: run `UPDATE_GOLDEN=1 cargo test --test program docs::`, and look at what changes"
    );
}

#[test]
fn the_command_line_is_documented() {
    let mut page = String::from("# Command line\n");
    let mut commands: Vec<Vec<String>> = vec![vec![]];
    while !commands.is_empty() {
        let words = commands.remove(0);
        let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = [&["trackiops"], &borrowed[..]].concat().join(" ");
        let help = trackiops(&[&borrowed[..], &["--help"]].concat());
        write!(page, "\n## {name}\n\n```\n{help}\n```\n").unwrap();
        let below = subcommands(&borrowed).into_iter();
        commands.splice(0..0, below.map(|sub| [words.clone(), vec![sub]].concat()));
    }
    golden("command-line.md", &page);
}

#[test]
fn the_columns_are_documented() {
    let files = trackiops(&["query", "--columns", "help"]);
    let operations = trackiops(&["query", "--by", "op", "--columns", "help"]);
    let page = format!(
        "# Columns\n\nThese are the columns of `trackiops query`, with their units. `trackiops query --columns help` prints this list.\n\n\
         ## Of files\n\n```\n{files}\n```\n\n\
         ## Of operations\n\nWith `--by op`:\n\n```\n{operations}\n```\n"
    );
    golden("columns.md", &page);
}

/// Each Markdown file of the repository, and the templates of issues, which are Markdown in parts.
fn pages() -> Vec<PathBuf> {
    let mut listed = Command::new("git");
    listed.args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.md",
        ".github/ISSUE_TEMPLATE/*.yml",
    ]);
    let listed = listed.current_dir(ROOT).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let pages: Vec<_> = listed
        .lines()
        .map(|line| Path::new(ROOT).join(line))
        .collect();
    assert!(pages.len() > 20, "{pages:?}");
    pages.into_iter().filter(|page| page.exists()).collect()
}

/// The text lines of a page, and its code lines with the language of their block.
fn lines(page: &str) -> (Vec<&str>, Vec<(&str, &str)>) {
    let (mut text, mut code, mut block) = (vec![], vec![], None);
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(language), None) => block = Some(language),
            (Some(_), Some(_)) => block = None,
            (None, Some(language)) => code.push((language, line)),
            (None, None) => text.push(line),
        }
    }
    (text, code)
}

/// Anchors of headings, by the rules of GitHub and mdBook.
fn anchors(page: &str) -> BTreeSet<String> {
    let (text, _) = lines(page);
    let headings = text.into_iter().filter(|line| line.starts_with('#'));
    let named = headings.map(|line| {
        let kept = line.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    });
    named.collect()
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = vec![];
    let mut seen = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let text = lines(&page).0.join("\n");
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if link.contains("://") {
                continue;
            }
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                // From a page that the host makes of a template.
                file => match file.strip_prefix("../blob/HEAD/") {
                    Some(file) => Path::new(ROOT).join(file),
                    None => path.parent().unwrap().join(file),
                },
            };
            let is_there = target.exists()
                && (anchor.is_empty()
                    || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor));
            if !is_there {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(seen > 50, "{seen} links");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_book_has_every_page() {
    let docs = Path::new(ROOT).join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let left_out = |page: &PathBuf| {
        let name = page.strip_prefix(&docs).ok()?.to_str()?;
        (name != "SUMMARY.md" && !summary.contains(&format!("({name})"))).then(|| name.to_owned())
    };
    let left_out: Vec<_> = pages().iter().filter_map(left_out).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// Two stores of the last ten minutes with the data that the guide queries.
fn record(dir: &Path) {
    let start = (Utc::now() - chrono::Duration::minutes(10)).trunc_subsecs(0);
    let mut text = String::new();
    for store in ["hosts/a", "hosts/b"] {
        let host = &store["hosts/".len()..];
        let start = start.format("%Y-%m-%dT%H:%M:%SZ");
        writeln!(text, "recording {host} 1s,10s,1m,1h 1m {start} {store}").unwrap();
        text += "mount 0:49 nas:/exp /mnt/nfs\n";
        for file in ["db/orders.db", "logs/app.log", "home/alice/core"] {
            for second in 0..300 {
                writeln!(text, "{second} read /mnt/nfs/{file} 120 x4096 20ms..40ms queue=18ms rtt=1ms tenant=0:/a.slice").unwrap();
                writeln!(text, "{second} write /mnt/nfs/{file} 5 x4096 1ms..2ms").unwrap();
            }
            writeln!(text, "3 GETATTR /mnt/nfs/{file} 3 1ms").unwrap();
        }
        text += "3 GETATTR /mnt/nfs/db 3 1ms\n3 op GETATTR nas:/exp tcp-0 3 1ms\n3 tcp tcp-0 300us 200us 3 1\n310 idle\n";
    }
    fs::create_dir(dir.join("hosts")).unwrap();
    case::record(&text, dir).unwrap();
    // The default of every command.
    symlink("hosts/a", dir.join("store")).unwrap();
}

/// Redirects a command that follows a recorder to this recorder, and ends it soon; keeps any other command.
fn about_the_recorder(line: &str, recording: &Recording) -> String {
    let command = line.split('#').next().unwrap_or_default().trim();
    let socket = recording.socket();
    let ends = match command.split(' ').nth(1) {
        Some("watch") => " --duration 100ms",
        Some("top") if !command.contains("--once") => " --once",
        Some("top" | "status") => "",
        _ => return line.to_owned(),
    };
    format!("{command}{ends} --socket {}", socket.display())
}

#[test]
fn commands_of_the_guide_run() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    record(dir);
    let guide = Path::new(ROOT).join("docs/guide");
    let readme = Path::new(ROOT).join("README.md");
    let pages = pages().into_iter();
    let pages = pages.filter(|page| page.starts_with(&guide) || *page == readme);
    let bin = Path::new(env!("CARGO_BIN_EXE_trackiops"));
    let run = |line: &str| {
        let program = program::command(bin);
        let words = std::iter::once(program.get_program()).chain(program.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
        let line = line.replacen("trackiops", &words.join(" "), 1);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(dir);
        shell.env("TRACKIOPS_STORE", dir.join("hosts/a"));
        shell.env("TZ", "UTC0").output().unwrap()
    };
    for host in ["a", "b"] {
        assert!(
            run(&format!(
                "trackiops export --store hosts/{host} --output {host}.parquet"
            ))
            .status
            .success()
        );
    }
    let rules = "[[rule]]\npath = '/mnt/{top}/**'\ntenant = '{top}'\n";
    fs::write(dir.join("tenants.toml"), rules).unwrap();
    let recording = Recording::begin();
    recording.put(&recent(20));
    let mut ran = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let (_, code) = lines(&text);
        for (_, line) in code
            .into_iter()
            .filter(|(language, _)| language.starts_with("sh"))
        {
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            // These need a kernel, or must not be root. `make test-guests` runs them in guests; so do tests/metrics.rs and browser.rs.
            let elsewhere = [
                "trackiops metrics",
                "trackiops serve",
                "trackiops record",
                "trackiops doctor",
                "trackiops query --store store ",
            ];
            if !line.starts_with("trackiops ")
                || elsewhere.iter().any(|other| line.starts_with(other))
            {
                continue;
            }
            ran += 1;
            let output = run(&about_the_recorder(&line.replace("/tmp", "."), &recording));
            let said = String::from_utf8_lossy(&output.stderr);
            // Data queried by date or number is not in a recording of today, and single requests were not kept.
            // This recorder has closed no window for a while, and nothing was slow.
            let unknown = [
                "2026-",
                "0:49:",
                " --requests ",
                "trackiops requests ",
                "trackiops analyze ",
                "trackiops stalls ",
                "trackiops why",
                "trackiops status",
                "trackiops top --since ",
                " --tenant ",
            ];
            let may_miss = unknown.iter().any(|word| line.contains(word));
            let is_well = output.status.success() || may_miss && output.status.code() == Some(1);
            assert!(
                is_well,
                "{}: {line}: {}\n{said}",
                page.display(),
                output.status
            );
        }
    }
    assert!(ran > 40, "{ran} commands");
}
