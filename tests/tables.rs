//! Tables fit the terminal, and no name can control a terminal or a picture.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use trackiops_testkit::case;
use trackiops_testkit::program;

use unicode_width::UnicodeWidthStr;

const LONG: &str = "/mnt/home/a/directory/in/which/there/is/another/directory/and/in/that/one/at/last/the/file/of/which/this/is/the/name.db";
const WIDE: &str = "/mnt/home/日本語の長いディレクトリ名/データベース/顧客情報一覧表.db";
const COMBINING: &str = "/mnt/home/cafe\u{301}/re\u{301}sume\u{301}-क्षि.txt";
const EMOJI: &str = "/mnt/資料/👩\u{200d}👩\u{200d}👧/🇩🇪👍🏽❤\u{fe0f}.jpg";
const TURNED: &str = "/mnt/home/evil\u{202e}gpj.exe";
const NAMED_SO: &str = r"/mnt/home/evil\u{202e}gpj.exe";
const CONTROLS: &str = "/mnt/home/\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{7f}";
const INVISIBLE: &str =
    "/mnt/資料/in\u{200b}vis\u{2060}ible\u{feff}\u{ad}\u{34f}\u{61c}\u{180e}\u{e0041}";
const MARKUP: &str = "/mnt/資料/<script>&\"'\u{ffff}\u{fffe}\u{1}";
const NAMES: [&str; 9] = [
    LONG, WIDE, COMBINING, EMOJI, TURNED, NAMED_SO, CONTROLS, INVISIBLE, MARKUP,
];

/// Stores of two hosts.
fn stores(dir: &Path) {
    let mut text = String::new();
    for (host, store) in [("web\u{202e}-1", "one"), ("データ\u{1b}[1m", "two")] {
        text += &format!("recording {host} 1s,10s 1m 2026-11-21T03:00:00Z {store}\n");
        text += "mount 0:49 srv:/\u{202e}home /mnt/home\nmount 0:50 nas\u{200b}:/資料 /mnt/資料\n";
        for (i, name) in NAMES.iter().enumerate() {
            let second = i % 4;
            let tenant = format!("tenant={i}:/user\u{202e}資料-{i}.slice");
            text += &format!(
                "{second} read {name} 2{i} x65536 400us..20ms queue=50us rtt=300us {tenant}\n"
            );
            text += &format!(
                "{second} write {name} 1{i} x8192 1ms..300ms rtt=800us errors=1 {tenant}\n"
            );
            text += &format!("{second} GETATTR {name} 3 2ms {tenant}\n");
        }
        for op in ["GETATTR", "LAYOUTCOMMIT", "EVIL\u{202e}\u{1b}c"] {
            text += &format!("1 op {op} srv:/\u{202e}home tcp\u{1b}-0 12 300us..500us rtt=200us\n");
            text +=
                &format!("2 op {op} nas\u{200b}:/資料 tcp-1 12 300us..500us rtt=200us errors=2\n");
        }
        text += "9 idle\n";
    }
    case::record(&text, dir).unwrap();
}

/// Every kind of table, and other output for people.
const TABLES: &[&str] = &[
    "query STORES --step all",
    "query STORES",
    "query STORES --step 1s",
    "query STORES --step 1s --top 1",
    "query STORES --step all --parts",
    "query STORES --step 1s --parts",
    "query STORES --step all --by dir",
    "query STORES --step all --by mount",
    "query STORES --step all --by host",
    "query STORES --step all --by tenant",
    "query STORES --step all --by dir,tenant",
    "query STORES --step 1s --by mount",
    "query STORES --step all --by op",
    "query STORES --step 1s --by op",
    "query STORES --step all --by transport",
    "query STORES --step all --by file,op",
    "query STORES --step all --by dir,op",
    "query STORES --step all --sort write_mean",
    "query STORES --step 1s --sort read_throughput --top 2",
    "query STORES --step all --where 'write_errors > 0'",
    "query STORES --step all --columns path,mount,host,tenant,read_bytes,read_p99,write_p99,time",
    "query STORES --step 1s --columns time,read_throughput,write_throughput,read_latency_hist,ops,path",
    "query STORES --step all --by op --columns op,mount,requests,p99,transport,host",
    "query STORES --columns help",
    "query STORES --by op --columns help",
    "query --store one --step all --file /mnt/home/a/**/name.db",
    "files STORES",
    "files --store one",
    "mounts STORES",
    "report billing STORES --since 2026-11-21",
    "volume --store one",
    "store check --store one",
    "store check --store damaged",
    "doctor",
];

/// Runs a command in a terminal with this many columns, or in a pipe.
fn run(dir: &Path, line: &str, terminal: Option<usize>) -> Output {
    match terminal {
        Some(_) => run_with(dir, line, "2>stderr", terminal),
        None => run_with(dir, line, "", terminal),
    }
}

/// The same with redirections of a shell.
fn run_with(dir: &Path, line: &str, redirected: &str, terminal: Option<usize>) -> Output {
    let program = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let program: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    let line = line.replace("STORES", "--store one --store two");
    let line = format!("{} {line} {redirected}", program.join(" "));
    let mut command = match terminal {
        Some(columns) => {
            let mut script = Command::new("script");
            script.args(["-qec", &line, "/dev/null"]);
            script.env("COLUMNS", columns.to_string());
            script
        }
        None => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).env_remove("COLUMNS");
            shell
        }
    };
    let command = command
        .current_dir(dir)
        .env("EVIL", EVIL)
        .env("TZ", "UTC0")
        .env("LC_ALL", "C.UTF-8");
    command
        .output()
        .expect("`script` of util-linux, and a shell")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec())
        .unwrap()
        .replace("\r\n", "\n")
}

/// Characters that no terminal and no picture may get.
fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n'
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe0f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

#[test]
fn every_table_fits_and_no_name_drives_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    let damaged = Command::new("sh")
        .args(["-c", "cp -r one damaged && find damaged/rollup -name '*.parquet' | while read -r f; do echo x > \"$f\"; done"])
        .current_dir(dir.path())
        .status();
    assert!(damaged.unwrap().success());
    for table in TABLES {
        for columns in [60, 80, 100, 120, 200] {
            let output = run(dir.path(), table, Some(columns));
            let shown = text(&output.stdout);
            assert!(
                shown.lines().count() > 1 || table.starts_with("store"),
                "{table}: {shown}"
            );
            for line in shown.lines() {
                assert!(
                    line.width() <= columns,
                    "{table} has {} of {columns}: {line}",
                    line.width()
                );
                assert!(!line.contains(is_hidden), "{table}: {line:?}");
            }
            let said = fs::read_to_string(dir.path().join("stderr")).unwrap();
            assert!(!said.contains(is_hidden), "{table}: {said:?}");
        }
    }
}

#[test]
fn messages_fit_a_terminal_and_stay_lines_in_a_log() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    let line = "query --store one --store one/../one --file /mnt/none --file /mnt/資料/*";
    // With stderr in place of stdout, which `script` connects to a terminal.
    let said = |terminal| text(&run_with(dir.path(), line, "2>&1 >/dev/null", terminal).stdout);
    let in_log = said(None);
    let longest = in_log.lines().map(UnicodeWidthStr::width).max();
    assert!(longest.unwrap() > 100, "{in_log}");
    for columns in [60, 100] {
        let on_terminal = said(Some(columns));
        let fits = |line: &str| line.width() <= columns;
        assert!(on_terminal.lines().all(fits), "{on_terminal}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&on_terminal), words(&in_log));
    }
}

#[test]
fn a_name_is_shown_as_what_it_is_and_as_no_other() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    let shown = text(&run(dir.path(), "query --store one --step all", None).stdout);
    for name in [
        WIDE,
        COMBINING,
        r"/mnt/home/evil\u{202e}gpj.exe",
        r"/mnt/home/evil\u{5c}u{202e}gpj.exe",
        r"/mnt/home/\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{7f}",
        r"/mnt/資料/👩\u{200d}👩\u{200d}👧/🇩🇪👍🏽❤\u{fe0f}.jpg",
    ] {
        assert!(shown.contains(&format!("{name}\n")), "{name}: {shown}");
    }
}

#[test]
fn what_needs_nothing_is_the_same_width_for_every_row() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    let line = "query --store one --step all --columns path,requests";
    let shown = text(&run(dir.path(), line, None).stdout);
    let widths: Vec<_> = shown.lines().skip(1).map(|line| line.width()).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{shown}");
}

#[test]
fn programs_get_names_as_they_are_and_terminals_do_not() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    let line = "query --store one --step all --columns path,host,mount,tenant,ops --format";
    let csv = text(&run(dir.path(), &format!("{line} csv"), None).stdout);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let paths: Vec<String> = reader
        .records()
        .map(|record| record.unwrap()[0].to_owned())
        .collect();
    for name in NAMES {
        assert!(paths.iter().any(|path| path == name), "{name:?}: {paths:?}");
    }
    let on_terminal = text(&run(dir.path(), &format!("{line} csv"), Some(80)).stdout);
    assert!(!on_terminal.contains(is_hidden), "{on_terminal:?}");
    assert!(
        on_terminal.contains(r"evil\u{202e}gpj.exe") && on_terminal.contains(r"evil\u{5c}u{202e}")
    );
    for terminal in [None, Some(80)] {
        let json = text(&run(dir.path(), &format!("{line} json"), terminal).stdout);
        assert!(!json.contains(is_hidden), "{json:?}");
        let rows = json
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let paths: Vec<_> = rows
            .map(|row| row["path"].as_str().unwrap().to_owned())
            .collect();
        for name in NAMES {
            assert!(paths.iter().any(|path| path == name), "{name:?}: {paths:?}");
        }
    }
}

#[test]
fn spreadsheets_get_names_that_they_do_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let text = "recording =cmd()|1 1s 1m 2026-11-21T03:00:00Z store\nmount 0:49 @srv:/home /mnt/home\n\
        0 read /mnt/home/a;=HYPERLINK(1) 5 x4096 300us tenant=0:/-1.slice\n0 op READ @srv:/home tcp-0 5 300us\n9 idle\n";
    case::record(text, dir.path()).unwrap();
    let names = |line: &str| {
        let output = run(dir.path(), line, None);
        assert!(output.status.success(), "{line}: {output:?}");
        let csv = match line.split_once("--output ") {
            Some((_, file)) => fs::read(dir.path().join(file)).unwrap(),
            None => output.stdout,
        };
        let mut reader = csv::Reader::from_reader(&csv[..]);
        let header = reader.headers().unwrap().clone();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        let cell = |name: &str| {
            let at = header.iter().position(|column| column == name);
            at.map(|at| rows[0][at].to_owned())
        };
        [cell("host"), cell("mount"), cell("path")].map(Option::unwrap_or_default)
    };
    let plain = ["=cmd()|1", "@srv:/home", "/mnt/home/a;=HYPERLINK(1)"];
    let inert = ["'=cmd()|1", "'@srv:/home", "/mnt/home/a;'=HYPERLINK(1)"];
    for (line, output) in [
        ("query --store store --step all", ""),
        ("files --store store", ""),
        (
            "export --store store --granularity 1s",
            " --output rows.csv",
        ),
    ] {
        for (flags, expected) in [
            ("--csv", plain),
            ("--csv-safe", inert),
            ("--csv --csv-safe", inert),
            ("--format csv --csv-safe", inert),
        ] {
            assert_eq!(names(&format!("{line} {flags}{output}")), expected);
        }
    }
    let mounts = names("mounts --store store --csv-safe");
    assert_eq!(mounts[..2], inert[..2]);
    let terminal = run(dir.path(), "files --store store --csv-safe", Some(80));
    assert!(self::text(&terminal.stdout).contains("'=cmd()|1,'@srv:/home"));
    for line in [
        "files --store store --csv-safe --format parquet",
        "files --store store --csv-safe --json",
        "files --store store --csv-safe --output x.json",
        "export --store store --csv-safe --format arrow --output x",
        "export --store store --csv-safe --anonymize key --output x.csv",
    ] {
        let output = run(dir.path(), line, None);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(self::text(&output.stderr).contains("--csv-safe"), "{line}");
    }
}

#[test]
fn pictures_have_no_name_that_breaks_them() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    for (line, picture) in [
        ("query STORES --step all --plot p.svg", "p.svg"),
        ("query STORES --step 1s --plot p.svg", "p.svg"),
        (
            "query --store one --step 1s --by file,op --file '/mnt/home/evil*' --file '/mnt/**/*script*' --plot p.svg",
            "p.svg",
        ),
        ("flamegraph --store one --output f.svg", "f.svg"),
        (
            "flamegraph --store one --folded --output f.folded",
            "f.folded",
        ),
    ] {
        let output = run(dir.path(), line, None);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let drawn = fs::read_to_string(dir.path().join(picture)).unwrap();
        // Tabs indent the picture.
        let names = drawn.replace('\t', " ");
        assert!(!names.contains(is_hidden), "{line}: {names:?}");
        assert!(drawn.contains(r"evil\u{202e}gpj.exe"), "{line}");
        if picture.ends_with("svg") {
            assert!(
                !drawn.contains("/<script>") && drawn.contains("&lt;script&gt;&amp;"),
                "{line}"
            );
        }
    }
}

/// A hostile name in arguments and environment: a line end, escape sequences of one and two bytes, a change of direction, zero width.
const EVIL: &str = "x\nFORGED\u{1b}[2J\u{9b}2J\u{202e}gpj\u{200b}\u{7f}";

/// Each subcommand, in each text format; with names from a store, of files and in arguments.
const SAYS_NAMES: &[&str] = &[
    "query STORES --step all --explain",
    "query STORES --step 1s --format csv",
    "query STORES --step all --csv-safe",
    "query STORES --step all --json --explain",
    "query STORES --step all --by file,tenant --json",
    "query STORES --by op --json",
    "query STORES --by op --csv",
    "query STORES --by transport --json",
    "query STORES --by dir",
    "query --store \"$EVIL\" --step all --explain --plot \"$EVIL.svg\"",
    "query --store \"$EVIL\" --output \"$EVIL/rollup/$EVIL\"",
    "query --store \"$EVIL\" --output \"$EVIL.$EVIL\"",
    "query --store \"$EVIL\" --file \"$EVIL\" --output \"$EVIL.csv\"",
    "query --store damaged --step 1s --explain",
    "query --store damaged --step 1s --json",
    "query --store nowhere$EVIL",
    "query --store one --format \"$EVIL\"",
    "query --store one --since \"$EVIL\"",
    "query --store one --sort \"$EVIL\"",
    "query --store one --step \"$EVIL\"",
    "query --store one --op \"$EVIL\"",
    "query --store one \"$EVIL\"",
    "files STORES",
    "files STORES --json",
    "files STORES --csv",
    "files --store one --dir \"$EVIL\"",
    "mounts STORES",
    "mounts STORES --json",
    "mounts STORES --csv",
    "flamegraph STORES --folded",
    "flamegraph --store one --by \"$EVIL\"",
    "export --store one --granularity 1s --output \"$EVIL.csv\"",
    "export --store one --granularity \"$EVIL\" --output x.csv",
    "export --store one --dataset \"$EVIL\" --output x.csv",
    "export --store one --output y.parquet --anonymize \"$EVIL\"",
    "anonymize-key \"$EVIL\"",
    "anonymize-key \"$EVIL/nowhere/x\"",
    "deanonymize --key key \"$EVIL.csv\" --output z.csv",
    "deanonymize --key key \"$EVIL\" --output z.csv",
    "import pcap \"$EVIL\" --store z",
    "import pcap \"$EVIL.csv\" --store z",
    "import nfsdump \"$EVIL.csv\" --store z",
    "import csv \"$EVIL.csv\" --store z",
    "store check --store \"$EVIL\"",
    "store check --store damaged",
    "store check --store damaged --json",
    "store check --store odd",
    "store check --store odd --json",
    "store check --repair --store \"$EVIL/$EVIL\" --json",
    "store rebuild-catalog --store damaged",
    "volume --store \"$EVIL\"",
    "volume --store \"$EVIL\" --json",
    "volume --store \"$EVIL\" --store-size \"$EVIL\"",
    "doctor",
    "doctor --json",
    "doctor --btf \"$EVIL/none\"",
    "doctor --btf \"$EVIL/none\" --json",
    "doctor --btf \"$EVIL.csv\" --json",
    "record --store \"$EVIL\" --btf \"$EVIL/none\"",
    "record --store \"$EVIL\" --granularity \"$EVIL\"",
    "\"$EVIL\"",
];

#[test]
fn nothing_that_is_said_drives_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    let evil = EVIL.replace('\n', "␤");
    let text_of_store = format!(
        "recording {evil} 1s 1m 2026-11-21T03:00:00Z lines\nmount 0:49 {evil}:/ /mnt/{evil}\n\
         0 read /mnt/{evil}/{evil} 5 x4096 300us tenant=7:/{evil}.slice\n0 op {evil} {evil}:/ {evil} 5 300us\n9 idle\n"
    );
    case::record(&text_of_store, dir.path()).unwrap();
    let prepared = Command::new("sh")
        .args(["-c", "cp -r lines \"$EVIL\" && cp -r lines damaged && cp -r lines odd && cp $(find lines -name '*.parquet' | head -1) \"odd/rollup/$EVIL.parquet\"
            find damaged/rollup -name '*.parquet' | while read -r f; do echo x > \"$f\"; done; echo x > key; chmod 600 key"])
        .env("EVIL", EVIL)
        .current_dir(dir.path())
        .status();
    assert!(prepared.unwrap().success());
    for line in SAYS_NAMES {
        for terminal in [Some(100), None] {
            let line = line.replace("STORES", "STORES --store lines");
            let output = run(dir.path(), &line, terminal);
            let said = match terminal {
                Some(_) => fs::read(dir.path().join("stderr")).unwrap(),
                None => output.stderr,
            };
            let (shown, said) = (text(&output.stdout), text(&said));
            assert!(!shown.is_empty() || !said.is_empty(), "{line}");
            // CSV that does not go to a terminal is for programs.
            let is_data = terminal.is_none() && line.contains("csv");
            for text in [shown.as_str(), &said] {
                let drives =
                    text.contains(is_hidden) || text.lines().any(|l| l.starts_with("FORGED"));
                assert!(is_data || !drives, "{line}: {text:?}");
            }
            if line.contains("--json") && !shown.is_empty() {
                let mut lines = shown.lines();
                let is_json = |line| serde_json::from_str::<serde_json::Value>(line).is_ok();
                assert!(lines.all(is_json), "{line}: {shown}");
            }
        }
    }
}

#[test]
fn errors_that_quote_names_do_not_drive_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    stores(dir.path());
    for line in [
        "query --store one --file \"$(printf '/mnt/home/evil\\342\\200\\256gpj.ex')\"",
        "query --store one --mount \"$(printf 'x\\033[2J')\"",
        "query --store one --columns \"$(printf 'x\\342\\200\\256')\"",
        "query --store one --by \"$(printf 'x\\342\\200\\256')\"",
        "query --store one --where \"$(printf 'x\\342\\200\\256 > 1')\"",
        "query --store \"$(printf 'no\\033[2Jwhere')\"",
        "store check --store \"$(printf 'no\\342\\200\\256where')\"",
        "query --store one --step all --by file,op --explain",
    ] {
        let output = run(dir.path(), line, None);
        let said = text(&output.stderr);
        assert!(
            !said.is_empty() && !said.contains(is_hidden),
            "{line}: {said:?}"
        );
    }
    let line = "query --store one --file \"$(printf '/mnt/home/evil\\342\\200\\256gpj.ex')\"";
    let said = text(&run(dir.path(), line, None).stderr);
    assert!(
        said.contains(r"did you mean /mnt/home/evil\u{202e}gpj.exe"),
        "{said}"
    );
}
