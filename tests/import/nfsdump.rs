//! Text of nfsdump: lines of calls and replies become requests, and the import accounts for every line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Output;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row as Record, RowAccessor};
use trackiops_testkit::program;

use super::{OF_A_REQUEST, lines, operations, requests, shared, text, trackiops, transfers};

/// NFSv3 over TCP and NFSv2 over UDP: a file is looked up, read at its end, and written. One WRITE fails for want of space, one call has no
/// reply, one reply has no call. One line cannot be parsed, and one is a comment.
pub const LINES: &str = "\
# nfsdump
1006231501.000000 31.03f7 30.0801 T C3 1 3 lookup fh aa name \"a b\" euid 3e8 egid 64 con = 130 len = 140
1006231501.000500 30.0801 31.03f7 T R3 1 3 lookup OK fh bb ftype 1 mode 1b6 size 2328 used 4000 fsid 7 fileid 2a atime 1006231501.1 \
ftype 2 mode 1c0 size 2000 fsid 7 fileid 1 status=0 pl = 200 con = 270 len = 270
1006231501.001000 31.03f7 30.0801 T C3 2 6 read fh bb off 2000 count 2000 euid 3e8 egid 64 con = 130 len = 140
1006231501.002000 30.0801 31.03f7 T R3 2 6 read OK ftype 1 size 2328 fsid 7 fileid 2a count 328 eof 1 status=0 pl = 200 con = 1 len = 1
1006231501.003000 31.03f7 30.0801 T C3 3 7 write fh bb off 0 count 8 stable F euid 3e8 egid 64 con = 130 len = 140
1006231501.003250 30.0801 31.03f7 T R3 3 7 write 1c status=0 pl = 8 con = 70 len = 70
1006231501.004000 31.03f7 30.0801 T C3 4 1 getattr fh bb con = 130 len = 140
1006231501.005000 30.0801 31.03f7 T R3 99 1 getattr OK ftype 1 size 2328 fsid 7 fileid 2a con = 1 len = 1
1006231501.006000 32.02d2 30.0801 U C2 3 8 write fh cc begoff 0 offset 1000 tcount bba con = 130 len = 140
1006231501.006500 32.02d2 30.0801 U C2 3 8 write fh cc begoff 0 offset 1000 tcount bba con = 130 len = 140
1006231501.007000 30.0801 32.02d2 U R2 3 8 write OK ftype 1 size 1bba fsid 7 fileid 2b con = 1 len = 1
XX Funny line (7)
1006231501.008000 32.02d2 30.0801 U C2 4 b rename SHORT PACKETcon = 130 len = 400
1006231501.009000 30.0801 32.02d2 U R2 4 b rename OK status=0 pl = 4 con = 70 len = 70
";

fn import(file: &Path, store: &Path) -> Output {
    trackiops(&["import", "nfsdump", text(file), "--store", text(store)])
}

#[test]
fn requests_have_their_files_users_times_and_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("lines"), dir.path().join("store"));
    std::fs::write(&file, LINES).unwrap();
    let output = import(&file, &store);
    assert!(output.status.success(), "{output:?}");
    let shown = lines(&requests(&store), OF_A_REQUEST);
    let hash = shown[0].split(['?', '/']).nth(3).unwrap().to_owned();
    assert_eq!(
        shown,
        [
            format!("0.0.0.49 0.0.0.48:/ /?{hash}/a b 42 1000 READ 8192 8192 808 1000000 true  2"),
            format!("0.0.0.49 0.0.0.48:/ /?{hash}/a b 42 1000 WRITE 0 8 0 250000  28 3"),
            "0.0.0.50 0.0.0.48:/  43  WRITE 4096 3002 3002 1000000   3".to_owned(),
        ]
    );
    assert_eq!(transfers(&store), [(1, 808), (2, 3002)]);
    let expected = [("LOOKUP", 1), ("READ", 1), ("RENAME", 1), ("WRITE", 2)];
    assert_eq!(
        operations(&store),
        expected.map(|(op, count)| (op.to_owned(), count)).into()
    );
    let check = trackiops(&["store", "check", "--store", text(&store)]);
    assert!(check.status.success(), "{check:?}");
}

#[test]
fn every_line_is_in_the_account() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("lines"), dir.path().join("store"));
    std::fs::write(&file, LINES).unwrap();
    let said = String::from_utf8(import(&file, &store).stdout).unwrap();
    let file = text(&file);
    let expected = format!(
        "\
5 requests of 2 clients, 3 READs and WRITEs
15 lines, 2001-11-20 04:45:01 to 04:45:01.009
  7 calls, 6 replies
  1 line empty, or begun with #
  1 message cut: SHORT PACKET, without arguments or results
  1 line not understood: it does not begin with seconds and a fraction; first in line 13 of {file}

client               calls   replies    paired  no reply   no call     again
0.0.0.49                 4         4         3         1         1         0
0.0.0.50                 3         2         2         0         0         1
"
    );
    assert_eq!(said, expected);
}

#[test]
fn compressed_text_text_from_a_pipe_and_several_files_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let split = LINES.match_indices('\n').nth(4).unwrap().0 + 1;
    std::fs::write(path("1"), &LINES[..split]).unwrap();
    std::fs::write(path("2"), &LINES[split..]).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(
        File::create(path("all.gz")).unwrap(),
        flate2::Compression::fast(),
    );
    gzip.write_all(LINES.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let stores = ["a", "b", "c"].map(path);
    let [parts, compressed, pipe] = &stores;
    let words = ["import", "nfsdump"];
    let (first, second) = (path("1"), path("2"));
    let files = [text(&first), text(&second), "--store", text(parts)];
    let output = trackiops(&[&words[..], &files].concat());
    assert!(output.status.success(), "{output:?}");
    assert!(import(&path("all.gz"), compressed).status.success());
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(["import", "nfsdump", "-", "--store", text(pipe)]);
    let output = command.stdin(File::open(path("all.gz")).unwrap()).output();
    assert!(output.unwrap().status.success());
    let results = stores
        .each_ref()
        .map(|store| (operations(store), transfers(store)));
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(results[0].1, [(1, 808), (2, 3002)]);
}

#[test]
fn text_without_requests_ends_with_1_and_no_file_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("lines"), dir.path().join("store"));
    std::fs::write(&file, "no trace\n\0\0\0\n").unwrap();
    let output = import(&file, &store);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let output = import(&dir.path().join("none"), &store);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// `31.03f7`
fn address(ip: &str, port: i32) -> String {
    let ip: std::net::Ipv4Addr = ip.parse().unwrap();
    format!("{:x}.{port:04x}", u32::from(ip))
}

/// The nfsdump line of a row of the decoded sample.
fn line(row: &Record) -> String {
    let column = |name: &str| {
        let mut names = row.get_column_iter().map(|(name, _)| name);
        names.position(|other| other == name).unwrap()
    };
    let string = |name: &str| row.get_string(column(name)).unwrap().clone();
    let int = |name: &str| row.get_int(column(name)).unwrap();
    let byte = |name: &str| row.get_byte(column(name)).unwrap();
    let time_us = row.get_long(column("time_ns")).unwrap() / 1000;
    let direction = match row.get_bool(column("is_request")).unwrap() {
        true => 'C',
        false => 'R',
    };
    let transport = match &*string("transport") {
        "udp" => 'U',
        _ => 'T',
    };
    format!(
        "{}.{:06} {} {} {transport} {direction}{} {:x} {:x} {} {}",
        time_us / 1_000_000,
        time_us % 1_000_000,
        address(&string("src_ip"), int("src_port")),
        address(&string("dst_ip"), int("dst_port")),
        byte("nfs_version"),
        row.get_uint(column("xid")).unwrap(),
        byte("proc"),
        string("op"),
        string("text"),
    )
}

#[test]
fn clients_have_the_calls_that_others_count_in_the_traces_of_harvard() {
    let Some(traces) = shared("traces/ellard") else {
        return;
    };
    let records = File::open(traces.join("records.parquet")).unwrap();
    let reader = SerializedFileReader::new(records).unwrap();
    let mut lines = String::new();
    for row in reader.get_row_iter(None).unwrap().map(Result::unwrap) {
        let mut columns = row.get_column_iter().map(|(name, _)| name);
        let dropped = columns.position(|name| name == "dropped_by_reference");
        // A line that other tools omit.
        if !row.get_bool(dropped.unwrap()).unwrap() {
            writeln!(lines, "{}", line(&row)).unwrap();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("lines"), dir.path().join("store"));
    std::fs::write(&file, &lines).unwrap();
    let output = import(&file, &store);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains("not understood"), "{said}");
    let clients = said.lines().skip_while(|line| !line.starts_with("client"));
    let counts = clients.skip(1).map(|line| {
        let mut words = line.split_whitespace();
        let client = words.next().unwrap().to_owned();
        (client, words.next().unwrap().parse::<u64>().unwrap())
    });
    let counts: BTreeMap<String, u64> = counts.filter(|(_, calls)| *calls > 0).collect();
    let expected = shared("expected/ellard")
        .unwrap()
        .join("calls_per_client.csv");
    let expected = csv::Reader::from_path(expected).unwrap().into_deserialize();
    let expected = expected.map(|row| {
        let row: super::Row = row.unwrap();
        (row["client"].clone(), row["calls"].parse().unwrap())
    });
    assert_eq!(counts, expected.collect::<BTreeMap<String, u64>>());
}
