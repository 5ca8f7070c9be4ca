//! Every reader of files reads forged ones: bytes that anybody may hand over.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::forged;
use super::place::{LINES, Place};

/// Runs every reader with mutants of its files, and with mutants of files in stores.
fn end_all(place: &Place, count: usize, of_stores: usize) {
    let read = |name: &str| fs::read(place.path(name)).unwrap();
    let files = forged::rewritten(&place.path("files.parquet"));
    let requests = forged::rewritten(&place.path("requests.parquet"));
    let hidden = forged::rewritten(&place.path("hidden.parquet"));
    for command in ["query", "files", "mounts"] {
        let words = format!("{command} --store FILE");
        place.end_each(&words, "files.parquet", &files, count);
    }
    place.end_each("analyze sizes FILE", "requests.parquet", &requests, count);
    let import = "import csv FILE --store STORE";
    place.end_each(import, "requests.parquet", &requests, count);
    place.end_each(import, "table.csv", LINES.as_bytes(), count);
    place.end_each(import, "table.csv.gz", &gzip(LINES.as_bytes()), count);
    let reveal = "deanonymize FILE --key key --output STORE";
    for (name, content) in [
        ("hidden.parquet", hidden),
        ("hidden.arrow", read("hidden.arrow")),
        ("hidden.csv", read("hidden.csv")),
    ] {
        let words = format!("{reveal}.{}", name.rsplit('.').next().unwrap());
        place.end_each(&words, name, &content, count);
    }
    let of = |dataset: &str| first_segment(&place.path("store").join(dataset));
    let segments = ["rollup", "health", "ops", "requests"].map(of);
    for segment in &segments {
        place.end_each_store("store", segment, of_stores);
    }
    for file in ["catalog.db", "marks.jsonl", "marks.sum"] {
        place.end_each_store("store", Path::new(file), of_stores);
    }
    for file in ["1.tij", "1.end", "requests-1.tij", "requests-1.end"] {
        place.end_each_store("open", &Path::new("journal").join(file), of_stores);
    }
    let capture = crate::import::some_capture();
    for (name, content) in [
        ("a.pcap", capture.clone()),
        ("a.pcapng", forged::pcapng(&capture)),
        ("a.pcap.gz", gzip(&capture)),
    ] {
        let words = "import pcap FILE --store STORE --messages STORE.messages";
        place.end_each(words, name, &content, count);
    }
    fs::write(place.path("whole.pcap"), &capture).unwrap();
    place.succeed("import pcap whole.pcap --store captured");
    let compare = "compare --pcap FILE --store captured";
    place.end_each(compare, "b.pcap", &capture, count);
    let text = crate::import::some_nfsdump().as_bytes();
    place.end_each("import nfsdump FILE --store STORE", "a.txt", text, count);
    let rules = b"[[rule]]\ntenant = \"a\"\npath = \"/mnt/x/*\"\n[[rule]]\ntenant = \"b\"\n";
    place.end_each(
        "query --store store --tenants FILE",
        "rules.toml",
        rules,
        count,
    );
    place.end_each(
        "tenants test FILE --store store",
        "tenants.toml",
        rules,
        count,
    );
    place.end_each(
        "config check --config FILE",
        "config.toml",
        b"[record]\nno-ops = true\n",
        count,
    );
    let coefficients = b"pue = 1.3\n[joule_per_request]\nread = 0.01\n[stored]\na = \"2TiB\"\n";
    place.end_each(
        "report carbon --intensity-default 300 --store store --coefficients FILE",
        "coefficients.toml",
        coefficients,
        count,
    );
    let prices = b"currency = \"EUR\"\n[per_million]\nreads = 1000\nwrites = 2000.5\n";
    place.end_each(
        "report billing --store store --prices FILE",
        "prices.toml",
        prices,
        count,
    );
    place.end_each(
        "export --since 1990-01-01 --store store --output STORE.csv --anonymize FILE",
        "key.forged",
        &read("key"),
        count,
    );
    if let Ok(btf) = fs::read("/sys/kernel/btf/vmlinux") {
        place.end_each("doctor --btf FILE", "vmlinux", &btf, count);
    }
    let summary = place.summary.lock().unwrap();
    let (files, commands) = (summary.files(), summary.commands());
    println!("{files} forged files and {commands} commands; each ended by itself\n\n{summary}");
}

/// A segment below a directory of a store, relative to the store.
fn first_segment(dir: &Path) -> PathBuf {
    let mut first = dir.to_owned();
    while first.is_dir() {
        let entries = fs::read_dir(&first).unwrap();
        first = entries.map(|entry| entry.unwrap().path()).min().unwrap();
    }
    first
        .strip_prefix(dir.parent().unwrap())
        .unwrap()
        .to_owned()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_reader_ends_with_some_forged_files() {
    end_all(&Place::new(), 2, 1);
}

#[test]
#[ignore = "takes an hour: make faults ONLY=bombs"]
fn every_reader_ends_with_200_forged_files() {
    let count = std::env::var("TRACKIOPS_TEST_FORGED").map(|count| count.parse().unwrap());
    let count = count.unwrap_or(200);
    let other = std::env::var_os("TRACKIOPS_BIN").filter(|program| !program.is_empty());
    let place = other.map_or_else(Place::new, Place::of);
    let of_stores = std::env::var("TRACKIOPS_TEST_FORGED_STORES");
    let of_stores = of_stores.map_or(count, |count| count.parse().unwrap());
    end_all(&place, count, of_stores);
}
