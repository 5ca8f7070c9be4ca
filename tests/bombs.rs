//! Forged files: each reader returns an answer or an error, within limits of memory and time.
//!
//! `make faults ONLY=bombs` tries more of them.

mod every_reader;
mod forged;
mod place;
mod summary;

use std::fs::{self, File};

use rustix::fs::{CWD, Mode, mkfifoat};

use forged::table;
use place::{LINES, Place};

#[test]
fn rows_that_are_packed_well_take_no_more_than_the_limit() {
    let place = Place::new();
    let from = place.path("files.parquet");
    let refused = "more than --max-read-memory (64 MiB)";
    let limited = |command: &str, file: &str| {
        format!("{command} --max-read-memory 64MiB --since 1990-01-01 --store {file}")
    };
    // One text in all rows: a batch of all rows would take 120 MB.
    table(&from, &place.path("same.parquet"), 2048, 60_000, false);
    // Distinct texts, which all stay in memory.
    table(&from, &place.path("names.parquet"), 512, 60_000, true);
    // Rows of one window, which all stay in memory.
    table(&from, &place.path("rows.parquet"), 1 << 16, 10, false);
    for command in ["query", "files"] {
        assert_eq!(place.end(&limited(command, "same.parquet")).0, 0);
        place.fail(&limited(command, "names.parquet"), refused);
        let more = limited(command, "names.parquet").replace("64MiB", "1GiB");
        assert_eq!(place.end(&more).0, 0);
    }
    place.fail(&limited("query", "rows.parquet"), refused);
    assert!(fs::metadata(place.path("rows.parquet")).unwrap().len() < 4 << 20);
}

#[test]
fn csv_of_endless_lines_or_columns_is_refused() {
    let place = Place::new();
    let wide = vec!["path"; 100_000].join(",");
    fs::write(place.path("wide.csv"), format!("{wide}\n{wide}\n")).unwrap();
    place.fail("import csv wide.csv --store s", "names 100000 columns");
    place.fail(
        "deanonymize wide.csv --key key --output o.csv",
        "names columns twice",
    );
    let long = "x".repeat(500 << 10);
    for (header, row) in [
        (long.clone(), "1".to_owned()),
        (format!("{long},op,done_bytes"), "1,READ,1".to_owned()),
        (
            "end_time_ns,op,done_bytes".to_owned(),
            format!("{long},READ,1"),
        ),
    ] {
        fs::write(place.path("long.csv"), format!("{header}\n{row}\n")).unwrap();
        let (status, said) = place.end("import csv long.csv --store s");
        assert_eq!(status, 2, "{said}");
        assert!(said.len() < 4096, "{} bytes", said.len());
    }
    for text in [
        format!("a = {}", "[".repeat(1 << 20)),
        format!("{long} = 1"),
    ] {
        fs::write(place.path("long.toml"), text).unwrap();
        for flag in [
            "query --store store --tenants",
            "report billing --store store --prices",
        ] {
            let (status, said) = place.end(&format!("{flag} long.toml"));
            assert_eq!(status, 2, "{said}");
            assert!(said.len() < 4096, "{flag}: {} bytes", said.len());
        }
    }
    fs::write(
        place.path("quote.csv"),
        LINES.replace("\"/mnt", &format!("\"{}", "x".repeat(32 << 20))),
    )
    .unwrap();
    place.fail("import csv quote.csv --store s", "more than 4 MiB");
    let zeros = File::create(place.path("zeros.csv")).unwrap();
    zeros.set_len(1 << 40).unwrap();
    place.fail("import csv zeros.csv --store s", "more than 4 MiB");
}

#[test]
fn pipes_and_devices_in_the_place_of_files_are_refused_at_once() {
    let place = Place::new();
    mkfifoat(CWD, place.path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let sparse = File::create(place.path("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    for (file, why) in [("pipe", "a named pipe"), ("/dev/zero", "a device")] {
        place.fail(&format!("query --store store --tenants {file}"), why);
        place.fail(&format!("query --store {file}"), "not a TrackIOps store");
        place.fail(&format!("deanonymize {file} --key key --output o.csv"), why);
        place.fail(
            &format!("deanonymize hidden.csv --key {file} --output o.csv"),
            why,
        );
        place.fail(&format!("analyze sizes {file}"), why);
        place.fail(&format!("compare --store store --pcap {file}"), why);
        place.fail(&format!("doctor --btf {file}"), why);
    }
    place.fail("import csv /dev/zero --store s", "a device");
    place.fail("query --store store --tenants sparse", "more than 64 MiB");
    place.fail("query --store sparse", "neither a directory nor an export");
    place.fail("files --store sparse", "neither a directory nor an export");
    let deep = format!("a = {}", "[".repeat(1 << 20));
    fs::write(place.path("deep.toml"), deep).unwrap();
    place.fail("query --store store --tenants deep.toml", "deep.toml");
}
