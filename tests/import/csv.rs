//! Tables: an export can be imported again, and columns of other tools can be mapped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use trackiops_testkit::lake;

use super::{Row, lines, operations, requests, rows, text, trackiops, transfers};

/// Sums that queries have of files, by host, mount, path and user.
const SUMS: &str = "host,mount,path,file_key,fileid,uid,read_requests,read_bytes,read_errors,read_latency_us_sum,\
                    write_requests,write_bytes,write_errors,write_latency_us_sum";

fn stores_below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut stores: Vec<_> = paths
        .filter(|path| path.join("catalog.db").is_file())
        .collect();
    stores.sort();
    stores
}

fn with_stores<'a>(words: &[&'a str], stores: &'a [PathBuf]) -> Vec<&'a str> {
    let mut all = words.to_vec();
    for store in stores {
        all.extend(["--store", text(store)]);
    }
    all
}

fn export(stores: &[PathBuf], file: &Path) -> Vec<Row> {
    let words = [
        "export",
        "--requests",
        "--since",
        "1990-01-01",
        "--output",
        text(file),
    ];
    let output = trackiops(&with_stores(&words, stores));
    assert!(output.status.success(), "{output:?}");
    if file.extension().is_some_and(|ending| ending != "csv") {
        return Vec::new();
    }
    let mut reader = ::csv::Reader::from_path(file).unwrap();
    let mut rows: Vec<Row> = reader.deserialize().map(Result::unwrap).collect();
    rows.sort();
    rows
}

fn import(file: &Path, store: &Path, words: &[&str]) -> Output {
    let own = ["import", "csv", text(file), "--store", text(store)];
    trackiops(&[&own[..], words].concat())
}

fn sums(stores: &[PathBuf]) -> Vec<Row> {
    let words = [
        "query",
        "--since",
        "1990-01-01",
        "--by",
        "host,file,tenant",
        "--columns",
        SUMS,
        "--csv",
        "--top",
        "100000",
    ];
    let mut rows = rows(&with_stores(&words, stores));
    rows.sort();
    rows
}

#[test]
fn an_export_of_requests_becomes_the_same_requests_and_sums() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let recorded = stores_below(dir.path());
    // An import has numbers of processes, but not their names.
    let without_names = |mut rows: Vec<Row>| {
        rows.iter_mut().for_each(|row| drop(row.remove("process")));
        rows
    };
    let exported = without_names(export(&recorded, &dir.path().join("all.csv")));
    assert!(exported.len() > 500, "{}", exported.len());
    export(&recorded, &dir.path().join("all.parquet"));
    // The expected sums of the imported store: sums of the rows, by file.
    let mut expected: BTreeMap<(String, String), [u64; 4]> = BTreeMap::new();
    for row in &exported {
        let key = (row["host"].clone(), row["file_key"].clone());
        let sums = expected.entry(key).or_default();
        let place = usize::from(row["op"] == "WRITE") * 2;
        sums[place] += 1;
        sums[place + 1] += row["done_bytes"].parse::<u64>().unwrap();
    }
    let mut all_sums = Vec::new();
    for ending in ["csv", "parquet"] {
        let store = dir.path().join("imported").join(ending);
        let output = import(&dir.path().join("all").with_extension(ending), &store, &[]);
        assert!(output.status.success(), "{output:?}");
        let store = [store];
        let again = without_names(export(&store, &dir.path().join("again.csv")));
        assert!(
            again == exported,
            "{ending}: {:?}, {:?}",
            again[0],
            exported[0]
        );
        let sums = sums(&store);
        let mut found: BTreeMap<(String, String), [u64; 4]> = BTreeMap::new();
        for row in &sums {
            let key = (row["host"].clone(), row["file_key"].clone());
            let columns = [
                "read_requests",
                "read_bytes",
                "write_requests",
                "write_bytes",
            ];
            let sums = found.entry(key).or_default();
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum += row[column].parse::<u64>().unwrap_or(0);
            }
        }
        assert_eq!(found, expected, "{ending}");
        let check = trackiops(&["store", "check", "--store", text(&store[0])]);
        assert!(check.status.success(), "{check:?}");
        all_sums.push(sums);
    }
    assert_eq!(all_sums[0], all_sums[1]);
}

/// Times are in ms since the epoch and mark the start; latencies are in us.
const OTHERS: &str = "\
began,kind,size,took,client,share,file,at,user,failed,eof,sync
1795305600000.5,read,4096,1500.5,alpha,srv:/a,/x/y,8192,1000,,true,
1795305600010,W,100,250,alpha,srv:/a,/x/y,0,1000,28,,1
1795305600020,getattr,,80,beta,srv:/b,/z,,,,,
";
const MAP: &str = "start=began:ms,op=kind,bytes=size,latency=took:us,host=client,mount=share,path=file,offset=at,uid=user,errno=failed,stable=sync";

#[test]
fn columns_of_others_are_mapped_with_their_units() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("others.csv"), dir.path().join("store"));
    std::fs::write(&file, OTHERS).unwrap();
    let output = import(&file, &store, &["--map", MAP]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("3 requests of 2 hosts, 2 READs and WRITEs\n3 rows, 2026-11-22"),
        "{said}"
    );
    let all = requests(&store);
    let columns = [
        "end_time_ns",
        "host",
        "mount",
        "path",
        "uid",
        "op",
        "offset_bytes",
        "asked_bytes",
        "done_bytes",
        "latency_ns",
        "errno",
        "eof",
        "stable",
    ];
    assert_eq!(
        lines(&all, columns),
        [
            "1795305600002000500 alpha srv:/a /x/y 1000 READ 8192 4096 4096 1500500  true ",
            "1795305600010250000 alpha srv:/a /x/y 1000 WRITE 0 100 100 250000 28  true",
        ]
    );
    let keys: std::collections::BTreeSet<_> = all.iter().map(|row| &row["file_key"]).collect();
    assert_eq!(keys.len(), 1);
    assert_eq!(transfers(&store)[0], (1, 4096));
    let expected = [("GETATTR", 1), ("READ", 1), ("WRITE", 1)];
    assert_eq!(
        operations(&store),
        expected.map(|(op, count)| (op.to_owned(), count)).into()
    );
}

#[test]
fn what_a_table_does_not_say_is_unknown_and_columns_that_are_not_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("times.csv"), dir.path().join("store"));
    let table = "end_time,op,done_bytes,took_us,process\n2026-11-29T00:00:00Z,READ,4096,120,cat\n";
    std::fs::write(&file, table).unwrap();
    let output = import(&file, &store, &[]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let note = "note: columns that are not imported: took_us; --map FIELD=COLUMN says what one has";
    assert!(said.contains(note), "{said}");
    let columns = "sent_bytes,received_bytes,queue_us_mean,rtt_us_mean,execute_us_mean,execute_us_p99,execute_hist";
    let queried = |store: &Path| {
        let words = ["query", "--by", "op", "--since", "2026-11-28", "--csv"];
        rows(&[&words[..], &["--store", text(store), "--columns", columns]].concat())
    };
    let all = queried(&store);
    for name in columns.split(',') {
        assert_eq!(all[0][name], "", "{name}");
    }
    // Known.
    let timed = dir.path().join("timed");
    let output = import(&file, &timed, &["--map", "latency=took_us"]);
    assert!(
        !String::from_utf8(output.stderr)
            .unwrap()
            .contains("not imported")
    );
    let all = queried(&timed);
    assert_eq!(all[0]["execute_us_mean"], "120");
}

#[test]
fn parts_of_imported_operations_are_unknown_in_every_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("times.csv"), dir.path().join("store"));
    let table = "end_time,op,done_bytes,latency_us,path\n\
                 2026-11-29T00:00:00Z,READ,4096,120,/mnt/a\n\
                 2026-11-29T00:00:00Z,GETATTR,0,80,/mnt/a\n";
    std::fs::write(&file, table).unwrap();
    assert!(import(&file, &store, &[]).status.success());
    let parts = [
        "queue_us_sum",
        "rtt_us_sum",
        "queue_us_mean",
        "rtt_us_mean",
        "queue_share",
        "rtt_share",
        "completion_share",
    ];
    for by in ["op", "file,op", "tenant,op"] {
        let words = ["query", "--by", by, "--since", "2026-11-28"];
        let words = [&words[..], &["--step", "all", "--store", text(&store)]].concat();
        let all = rows(&[&words[..], &["--csv"]].concat());
        assert_eq!(all.len(), 2, "{by}");
        for row in all {
            assert!(parts.iter().all(|part| row[*part].is_empty()), "{row:?}");
            let mean = if row["op"] == "READ" { "120" } else { "80" };
            assert_eq!((&*row["execute_us_mean"], &*row["requests"]), (mean, "1"));
        }
        let json = trackiops(&[&words[..], &["--json"]].concat()).stdout;
        for line in String::from_utf8(json).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(parts.iter().all(|part| row[*part].is_null()), "{row}");
        }
        let table = String::from_utf8(trackiops(&words).stdout).unwrap();
        assert!(
            table.contains("80.0 us") && !table.contains(" 0.00 us"),
            "{table}"
        );
    }
}

#[test]
fn requests_to_devices_are_no_operations_of_nfs() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("levels.csv"), dir.path().join("store"));
    let table = "time,op,bytes,latency_us,path,level\n\
                 2026-11-29T00:00:00Z,READ,4096,100,/mnt/a,\n\
                 2026-11-29T00:00:00Z,READ,4096,200,/mnt/a,block\n\
                 2026-11-29T00:00:00Z,WRITE,4096,300,/mnt/a,block\n";
    std::fs::write(&file, table).unwrap();
    assert!(import(&file, &store, &[]).status.success());
    assert_eq!(operations(&store), [("READ".to_owned(), 1)].into());
    let at = |level: &str| {
        let words = [
            "query",
            "--by",
            "op",
            "--step",
            "all",
            "--since",
            "2026-11-28",
            "--csv",
        ];
        let more = ["--level", level, "--store", text(&store)];
        let columns = ["op", "requests", "execute_us_mean"];
        lines(&rows(&[&words[..], &more].concat()), columns)
    };
    assert_eq!(at("wire"), ["READ 1 100"]);
    assert_eq!(at("block"), ["READ 1 200", "WRITE 1 300"]);
    std::fs::write(&file, table.replace("WRITE", "FLUSH")).unwrap();
    let refused = import(&file, &dir.path().join("other"), &[]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("requests to devices are READ or WRITE"),
        "{said}"
    );
}

#[test]
fn columns_with_the_names_of_fields_need_no_map() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("own.csv"), dir.path().join("store"));
    let table = "time,op,bytes,latency_us\n2026-11-22T00:00:00Z,READ,4096,120\n";
    std::fs::write(&file, table).unwrap();
    let output = import(&file, &store, &[]);
    assert!(output.status.success(), "{output:?}");
    let columns = ["op", "done_bytes", "latency_ns"];
    assert_eq!(lines(&requests(&store), columns), ["READ 4096 120000"]);
}

#[test]
fn errors_name_the_file_the_line_and_the_column() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("table.csv"), dir.path().join("store"));
    let cases = [
        (
            "end_time,op\n",
            "",
            "no column has bytes of a request; name one with --map bytes=COLUMN",
        ),
        ("op,done_bytes\n", "", "no column has a time of a request"),
        (
            "time,op,bytes\n1795305600,READ,1\n",
            "",
            "line 2, column `time`: `1795305600` is not a date as in RFC 3339; for numbers name the unit in --map",
        ),
        (
            "end_time,op,done_bytes\n",
            "path=where",
            "there is no column `where`; the columns are end_time, op, done_bytes",
        ),
        (
            "end_time,op,done_bytes,l\n",
            "latency=l",
            "the unit of column `l` is not known",
        ),
        (
            "end_time,op,done_bytes\n2026-11-21T03:00:00Z,READ,many\n",
            "",
            "line 2, column `done_bytes`: `many` is not a whole number",
        ),
        (
            "end_time,op,done_bytes\n2026-11-21T03:00:00Z,READ,\n",
            "",
            "line 2, column `done_bytes`: it is empty",
        ),
        (
            "end_time,op,done_bytes\n2026-11-21T03:00:00Z,READ,1\nyesterday,READ,1\n",
            "",
            "line 3, column `end_time`: `yesterday` is not a date",
        ),
        (
            "end_time,op,done_bytes\n2026-11-21T03:00:00Z,READ\n",
            "",
            "line 2 has 2 fields, and the header 3",
        ),
        (
            "end_time,op,done_bytes,errno\n2026-11-21T03:00:00Z,READ,1,99999\n",
            "",
            "column `errno`: there is no error 99999",
        ),
    ];
    let with = |end: &str| {
        let of = move |(table, map, expected): &(&str, _, _)| {
            (table.replace('\n', end), *map, *expected)
        };
        cases.iter().map(of).collect::<Vec<_>>()
    };
    for (table, map, expected) in [with("\n"), with("\r\n")].concat() {
        std::fs::write(&file, &table).unwrap();
        let words = [&["--map"][..], &[map]].concat();
        let output = import(&file, &store, if map.is_empty() { &[] } else { &words });
        assert_eq!(output.status.code(), Some(2), "{table}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains(expected) && said.contains(text(&file)),
            "{said}"
        );
    }
    std::fs::write(&file, "end_time,op,done_bytes\n").unwrap();
    assert_eq!(import(&file, &store, &[]).status.code(), Some(1));
}

#[test]
fn sentinels_are_left_out_and_large_sums_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("table.csv"), dir.path().join("store"));
    let table = "end_time,op,done_bytes,host,path\n\
                 0001-01-01T00:00:00Z,READ,1,h,/mnt/never\n\
                 1969-12-31T23:59:59Z,READ,1,h,/mnt/before\n\
                 2026-01-01T00:00:00.5Z,READ,10000000000,h,/mnt/a\n\
                 2262-04-11T23:47:17Z,READ,1,h,/mnt/after\n\
                 9999-12-31T23:59:59Z,READ,1,h,/mnt/ever\n";
    std::fs::write(&file, table).unwrap();
    let output = import(&file, &store, &[]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("4 rows left out: their times are before 1970 or after 2262-04-11"),
        "{said}"
    );
    let words = [
        "query",
        "--since",
        "1970-01-02",
        "--csv",
        "--store",
        text(&store),
    ];
    let found = rows(&words);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["read_bytes"], "10000000000");
    assert_eq!(
        (&*found[0]["read_requests"], &*found[0]["read_short"]),
        ("1", "0")
    );
    let check = trackiops(&["store", "check", "--store", text(&store)]);
    assert!(check.status.success(), "{check:?}");
    for wrong in [
        "1125899906842624",
        "18446744073709551615",
        "99999999999999999999",
    ] {
        std::fs::write(
            &file,
            format!(
                "end_time_s,op,done_bytes
1767225600,READ,{wrong}
"
            ),
        )
        .unwrap();
        let output = import(&file, &store, &["--map", "time=end_time_s"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("is not a whole number below 2^50"), "{said}");
    }
    std::fs::write(
        &file,
        "end_time_s,op,done_bytes
253402300799,READ,1
",
    )
    .unwrap();
    let output = import(&file, &store, &["--map", "time=end_time_s"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn names_that_are_not_utf_8_are_written_as_the_recorder_writes_them() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("table.csv"), dir.path().join("store"));
    let mut table = b"end_time,op,done_bytes,host,path\r\n\
        2026-01-01T00:00:02Z,READ,1,h,/mnt/\xff\xfe\\a\r\n\
        2026-01-01T00:00:01Z,READ,1,h,\"/mnt/b\\c\"\r\n"
        .to_vec();
    std::fs::write(&file, &table).unwrap();
    let output = import(&file, &store, &[]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("note: 1 row stands after later ones"),
        "{said}"
    );
    let words = ["query", "--step", "all", "--csv", "--store", text(&store)];
    let mut names: Vec<_> = rows(&words).iter().map(|row| row["path"].clone()).collect();
    names.sort();
    assert_eq!(names, [r"/mnt/\xff\xfe\a", r"/mnt/b\c"]);
    // The place of a later error is still that of the file.
    table.extend(b"2026-01-01T00:00:03Z,READ,many,h,/mnt/\xff\r\n");
    std::fs::write(&file, &table).unwrap();
    let output = import(&file, &dir.path().join("other"), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("line 4, column `done_bytes`: `many`"),
        "{said}"
    );
}

/// Identifiers in JSON, for every command that writes them.
#[test]
fn identifiers_survive_readers_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("requests.csv"), dir.path().join("store"));
    let table = "end_time,op,bytes,latency_us,host,mount,path,fileid\n\
                 2026-01-01T00:00:00.5Z,READ,4096,100,h,s:/e,/mnt/a,18446744073709551615\n\
                 2026-01-01T00:00:00.6Z,READ,4096,100,h,s:/e,/mnt/b,9007199254740993\n";
    std::fs::write(&file, table).unwrap();
    let mapped = ["--map", "bytes=bytes"];
    assert!(import(&file, &store, &mapped).status.success());
    let since = ["--since", "2026-01-01", "--store", text(&store)];
    let listed = rows(&[&["files", "--csv"], &since[..]].concat());
    let mut expected: Vec<_> = listed
        .iter()
        .map(|row| {
            let fileid: i64 = row["fileid"].parse().unwrap();
            (row["file_key"].clone(), fileid.cast_unsigned().to_string())
        })
        .collect();
    expected.sort();
    assert_eq!(expected.len(), 2, "{expected:?}");
    assert!(
        expected
            .iter()
            .any(|(_, fileid)| fileid == "9007199254740993")
    );
    let commands: [&[&str]; 5] = [
        &["query"],
        &["query", "--by", "op,file"],
        &["query", "--step", "all", "--columns", "file_key,fileid"],
        &["files"],
        &["requests"],
    ];
    for command in commands {
        let output = trackiops(&[command, &["--json"], &since[..]].concat());
        assert!(output.status.success(), "{command:?}: {output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<_> = said
            .lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                let text = |column: &str| row[column].as_str().map(str::to_owned);
                (text("file_key").unwrap(), text("fileid").unwrap())
            })
            .collect();
        found.sort();
        found.dedup();
        assert_eq!(found, expected, "{command:?}");
    }
}

#[test]
fn a_long_import_shows_its_progress_on_a_terminal_and_nothing_in_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let said = |store: &str, stderr: Stdio| {
        let mut import = Command::new(env!("CARGO_BIN_EXE_trackiops"))
            .args([
                "import",
                "csv",
                "-",
                "--store",
                text(&dir.path().join(store)),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut stdin = import.stdin.take().unwrap();
        writeln!(stdin, "end_time,op,done_bytes,host,path").unwrap();
        sleep(Duration::from_millis(2500));
        drop(stdin);
        let mut piped = String::new();
        if let Some(mut stderr) = import.stderr.take() {
            stderr.read_to_string(&mut piped).unwrap();
        }
        import.wait().unwrap();
        piped
    };
    assert!(!said("piped", Stdio::piped()).contains("importing"));
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let slave = ptsname(&terminal, Vec::new()).unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .open(Path::new(slave.to_str().unwrap()));
    said("shown", slave.unwrap().into());
    // The read ends with an error, because the other end of the terminal is closed.
    let mut shown = Vec::new();
    let _ = File::from(terminal).read_to_end(&mut shown);
    let shown = String::from_utf8_lossy(&shown);
    assert!(
        shown.contains("\rimporting: ") && shown.contains("/s"),
        "{shown:?}"
    );
}
