//! Requests to a block device match the kernel's statistics, and bytes of files match the written bytes, beside NFS.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::run::{Run, kernel, long, number, program, scripts, sum};

#[path = "../block/calls.rs"]
mod calls;
#[path = "../block/check.rs"]
pub mod check;

static RUN: LazyLock<Run> = LazyLock::new(|| run(&[]));

fn run(flags: &[&str]) -> Run {
    let names = [
        "block_io.sh",
        "resident.py",
        "local_calls.py",
        "returned.py",
    ];
    let paths = names.map(|name| scripts().join(name));
    let add = paths.each_ref();
    let add = add.map(|path| ["--add", path.to_str().expect("a path")]);
    let add = add.concat();
    let packages = ["--deb", "xfsprogs", "--deb", "btrfs-progs"];
    Run::script("block", &[&add[..], &packages, flags].concat())
}

fn check(run: &Run) {
    let rows = run.query(&["--step", "all", "--level", "block"]);
    let missed = rows.iter().find(|row| row["path"] == crate::run::MISSED);
    assert_eq!(missed, None, "on kernels of Debian");
    let requests = run.requests(&["--level", "block", "--top", "1000000"]);
    for kind in ["ext4", "xfs", "btrfs"] {
        let text = |name: &str| run.text(&format!("{name}.{kind}"));
        let stat = |when: &str| run.text(&format!("stat.{kind}.{when}"));
        let stat = (&*stat("before"), &*stat("after"));
        check::check(
            &rows,
            &requests,
            text("device").trim(),
            stat,
            &text("local"),
            kind != "btrfs" || !["5.10", "6.1"].contains(&&*kernel()),
        );
    }
    let said = run.text("record.err");
    assert!(said.contains(" 0 lost"), "{said}");
    println!("{}: {said}", kernel());
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_requests_to_a_device_equal_its_statistics() {
    check(&RUN);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_requests_are_counted_where_the_kernel_preempts_as_well() {
    if !long() {
        println!("there is make test-long for this");
        return;
    }
    check(&run(&["--append", "preempt=full"]));
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_direct_io_on_devices_of_others_is_of_its_file() {
    let packages = ["--no-nfs", "--deb", "xfsprogs,dmsetup,mdadm"];
    let run = Run::script("copied", &packages);
    let rows = run.query(&["--step", "all", "--level", "block"]);
    let of = |path: &str| {
        let own = rows.iter().filter(|row| row["path"] == path);
        check::Sums::of_rows(own)
    };
    let mut files = 0;
    for line in run.text("sizes").lines() {
        let (path, size) = line.split_once(' ').expect("a path and a size");
        let size: u64 = size.parse().expect("bytes");
        let found = of(path);
        // Each mirror is written once.
        let copies = 1 + u64::from(path.starts_with("/mnt/md1/"));
        let bytes = [found.read_bytes, found.write_bytes];
        let whole = [size, copies * size];
        if path.starts_with("/mnt/handing/") || path.starts_with("/mnt/multipath/") {
            // Two devices complete each request, and an interrupted program misses a few. Counting twice would give more.
            let is_right = bytes
                .iter()
                .zip(whole)
                .all(|(bytes, whole)| (whole - whole / 16..=whole).contains(bytes));
            assert!(is_right, "{path}: {found:?}");
        } else {
            assert_eq!(bytes, whole, "{path}: {found:?}");
        }
        files += 1;
    }
    assert_eq!(files, 6 * 5);
    for (name, copies) in [
        ("linear", 1),
        ("md0", 1),
        ("md1", 2),
        ("stacked", 1),
        ("handing", 1),
        ("multipath", 1),
    ] {
        let found = of(&format!("/mnt/{name}/buffered"));
        let whole = copies * (4 << 20);
        let is_right = (whole - whole / 16..=whole).contains(&found.write_bytes);
        assert!(is_right, "{name}: {found:?}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_pages_of_the_cache_are_those_that_are_there() {
    let columns = "path,write_bytes,cache_added_bytes,cache_evicted_bytes,cache_dirtied_bytes,cache_written_bytes";
    let flags = ["--step", "all", "--columns", columns, "--level"];
    let rows = RUN.query(&[&flags[..], &["block"]].concat());
    let of = |path: &str| -> Vec<_> {
        rows.iter()
            .filter(|row| row["path"].as_str() == Some(path))
            .cloned()
            .collect()
    };
    let mut files = 0;
    for kind in ["ext4", "xfs", "btrfs"] {
        for line in RUN.text(&format!("resident.{kind}")).lines() {
            let (resident, path) = line.split_once(' ').expect("bytes and a path");
            let own = of(path);
            let [added, evicted, dirtied] = [
                sum(&own, "cache_added_bytes"),
                sum(&own, "cache_evicted_bytes"),
                sum(&own, "cache_dirtied_bytes"),
            ];
            // With preempt=none or voluntary, no page is missed.
            if kernel() != "newest" {
                let there = resident.parse().ok();
                assert_eq!(added.checked_sub(evicted), there, "{path}: {own:?}");
            }
            if path.contains("/many") {
                assert_eq!(dirtied, 4096, "{path}: {own:?}");
                let written = sum(&own, "cache_written_bytes");
                assert_eq!(written, sum(&own, "write_bytes"), "{path}: {own:?}");
                files += 1;
            }
        }
    }
    assert_eq!(files, 3 * 200);
    let wire = RUN.query(&[&flags[..], &["wire"]].concat());
    let own = wire.iter();
    let own = own.filter(|row| row["path"] == "/mnt/nfs/on_the_wire");
    let own: Vec<_> = own.cloned().collect();
    assert_eq!(sum(&own, "cache_added_bytes"), 4096, "{own:?}");
    assert_eq!(sum(&own, "cache_dirtied_bytes"), 4096, "{own:?}");
    assert_eq!(sum(&own, "cache_written_bytes"), 9, "{own:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_levels_are_not_added_up() {
    let wire = RUN.query(&["--step", "all"]);
    assert!(wire.iter().all(|row| row["level"] == "wire"), "{wire:?}");
    assert!(sum(&wire, "write_bytes") >= 9);
    let said = RUN.query_output(&["--step", "all"]).stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("level wire; --level block"), "{said}");
    let both = RUN.query(&["--step", "all", "--by", "host,level"]);
    let levels: Vec<_> = both.iter().map(|row| row["level"].as_str()).collect();
    assert_eq!(levels.len(), 2, "{both:?}");
    assert!(levels.contains(&Some("wire")) && levels.contains(&Some("block")));
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_block_level_filters_by_what_it_knows() {
    for (name, what) in [("pid", "processes"), ("uid", "users")] {
        assert_ne!(RUN.text(&format!("{name}.status")).trim(), "0");
        let said = RUN.text(&format!("{name}.err"));
        assert!(
            said.contains(what) && said.contains(&format!("--{name}")),
            "{said}"
        );
    }
    let rows = crate::run::answers(&RUN.text("only_rows.out"));
    let paths: Vec<_> = rows.iter().map(|row| row["path"].as_str()).collect();
    assert_eq!(paths, [Some("/mnt/ext4/wpsync.0.0")]);
    assert_eq!(sum(&rows, "read_bytes"), 1 << 20);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_calls_for_local_files_are_those_that_applications_made() {
    let said = RUN.text("calls.err");
    println!("{}: {said}", kernel());
    assert!(!said.contains("refused the BPF programs"), "{said}");
    let store = RUN.out.join("calls");
    let rows = Run::query_store(&store, &["--step", "all", "--level", "block"]);
    // A preemptible kernel skips the program for some requests, and counts these.
    let health = crate::run::stored_health(&store);
    let missed = match kernel().as_str() {
        "newest" => sum(&health, "app_missed"),
        _ => 0,
    };
    let single = Run::requests_of(&store, &["--level", "app", "--top", "1000000"]);
    for kind in ["ext4", "xfs", "btrfs", "tmpfs", "overlay"] {
        // For an overlay, the file system below copies; the kernel counts these bytes, too.
        let again = if kind == "overlay" { 50_000 } else { 0 };
        let listed = RUN.text(&format!("calls.{kind}"));
        calls::check(&rows, &single, &listed, missed, again);
    }
    if kernel() != "5.10" && missed == 0 {
        let of_ext4 = single.iter().filter(|call| {
            let path = call["path"].as_str();
            path.is_some_and(|path| path.starts_with("/mnt/ext4/"))
        });
        let spans = Run::requests_of(&store, &["--level", "user", "--top", "1000000"]);
        calls::check_functions(&of_ext4.cloned().collect::<Vec<_>>(), &spans);
    }
    let of_nfs = Run::query_store(&store, &["--step", "all", "--level", "wire"]);
    for kind in ["ext4", "xfs", "back"].iter().filter(|_| missed == 0) {
        if *kind == "back" && kernel() == "newest" {
            continue; // where calls for files of NFS are probed
        }
        for number in 0..50 {
            let path = format!("/mnt/{kind}/short/{number}");
            let all = rows.iter().chain(&of_nfs);
            let own = all.filter(|row| row["path"] == path.as_str());
            let own: Vec<_> = own.cloned().collect();
            let found = (sum(&own, "app_write_calls"), sum(&own, "app_write_bytes"));
            assert_eq!(found, (1, 1000 + number), "{path}: {own:?}");
        }
    }
    // Before Linux 5.19, the owner of a completing io_uring request is unknown.
    let rings = if kernel() == "5.10" { 0 } else { 256 };
    for (engine, calls) in [("libaio", 256), ("io_uring", rings)] {
        let path = format!("/mnt/ext4/calls/{engine}.0.0");
        let own = rows.iter().filter(|row| row["path"] == path.as_str());
        let own: Vec<_> = own.cloned().collect();
        let there = sum(&own, "app_write_direct_calls");
        assert!(there <= calls && there + missed >= calls, "{path}: {own:?}");
        if missed == 0 {
            assert_eq!(sum(&own, "app_write_direct_bytes"), calls << 12, "{own:?}");
        }
    }
    if missed == 0 && rings > 0 {
        calls::check_queued(&single, "/mnt/ext4/calls/io_uring.0.0", 256);
    }
    // Works since Linux 6.2.
    if missed == 0 && !matches!(kernel().as_str(), "5.10" | "6.1") {
        calls::check_queued(&single, "/mnt/ext4/calls/libaio.0.0", 256);
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_files_that_get_the_memory_of_an_inode_one_after_the_other_have_their_names() {
    let rows = Run::query_store(&RUN.out.join("reused"), &["--step", "all"]);
    // Btrfs keeps files as small as these in its metadata.
    for kind in ["ext4", "xfs"] {
        for number in 0..50 {
            let path = format!("/mnt/{kind}/reused/{number}");
            let own = rows.iter().filter(|row| row["path"] == path.as_str());
            let own: Vec<_> = own.cloned().collect();
            assert!(sum(&own, "write_bytes") >= 1000, "{path}: {rows:?}");
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_calls_for_some_files_only_are_kept_with_their_requests() {
    let store = RUN.out.join("chosen");
    let rows = Run::query_store(&store, &["--step", "all", "--level", "block"]);
    let single = Run::requests_of(&store, &["--level", "app", "--top", "1000000"]);
    let sums = |path: &str| {
        let own = rows.iter().filter(|row| row["path"] == path);
        let own: Vec<_> = own.cloned().collect();
        [
            sum(&own, "app_read_calls"),
            sum(&own, "app_write_calls"),
            sum(&own, "app_write_direct_bytes"),
            sum(&own, "write_bytes"),
        ]
    };
    let ops = |path: &str| {
        let own = single.iter().filter(|call| call["path"] == path);
        let mut ops: Vec<_> = own.map(|call| call["op"].as_str().unwrap()).collect();
        ops.sort_unstable();
        ops.join(" ")
    };
    let chosen = [
        ("/mnt/ext4/chosen/below/inside", 0),
        ("/mnt/ext4/chosen/inside", 1),
        ("/mnt/xfs/calls/plain", 0),
    ];
    // The newest kernel skips the programs for some calls.
    let counted = if kernel() == "newest" {
        &[][..]
    } else {
        &chosen
    };
    for &(path, sent) in counted {
        let expected = [sent, 8, 8 * 4096, 8 * 4096];
        assert_eq!(sums(path), expected, "{path}: {rows:?}");
        let opens = "open ".repeat(1 + sent as usize);
        let expected = format!(
            "fsync {opens}{}{}",
            "read ".repeat(sent as usize),
            "write ".repeat(8)
        );
        assert_eq!(ops(path), expected.trim_end(), "{path}");
        // With one call, each quantile is its time, in buckets of an eighth of a power of two.
        let flags = ["--by", "file,op", "--op", "fsync", "--file", path];
        let synced = Run::query_store(&store, &flags);
        let [synced] = &synced[..] else {
            panic!("{synced:?}")
        };
        let times = ["execute_us_p50", "execute_us_p99"].map(|column| number(synced, column));
        let longest = number(synced, "execute_us_max");
        for time in times {
            assert!(
                (0.87..1.13).contains(&(time / longest)),
                "{path}: {synced:?}"
            );
        }
    }
    let paths: BTreeSet<_> = rows
        .iter()
        .chain(&single)
        .map(|row| row["path"].as_str())
        .collect();
    assert_eq!(paths, chosen.map(|(path, _)| Some(path)).into());
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_single_calls_are_not_taken_for_requests() {
    let store = RUN.out.join("calls");
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let say = |words: &[&str]| {
        let output = std::process::Command::new(program())
            .args(words)
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let store_path = store.to_str().expect("a path");
    for file in ["all.csv", "all.parquet"] {
        let words = [
            "export",
            "--requests",
            "--store",
            store_path,
            "--output",
            &at(file),
        ];
        assert!(say(&words).0, "{file}");
    }
    let (is_done, said) = say(&["analyze", "sizes", &at("all.parquet")]);
    assert!(
        !is_done && said.contains("there are rows of the levels"),
        "{said}"
    );
    let rows = |level: &str| {
        let flags = ["--level", level, "--top", "1000000"];
        Run::requests_of(&store, &flags).len()
    };
    let mut left_out = rows("app");
    // Functions can be traced since Linux 5.15.
    if kernel() != "5.10" {
        left_out += rows("user");
    }
    let (is_done, said) = say(&["import", "csv", &at("all.csv"), "--store", &at("imported")]);
    let expected = format!("{left_out} rows of the levels app and user left out");
    assert!(
        is_done && said.replace(',', "").contains(&expected),
        "{expected}: {said}"
    );
    let imported = Run::query_store(
        &dir.path().join("imported"),
        &["--step", "all", "--by", "level"],
    );
    let levels: BTreeSet<_> = imported.iter().map(|row| row["level"].as_str()).collect();
    assert_eq!(levels, [Some("block"), Some("wire")].into());
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_calls_lead_to_the_requests_that_were_made_for_them() {
    let store = RUN.out.join("calls");
    let to = RUN.out.join("timeline.json");
    let _ = std::fs::remove_file(&to);
    let exported = std::process::Command::new(program())
        .args(["export", "--requests", "--format", "chrome", "--store"])
        .args([&*store, std::path::Path::new("--output"), &*to])
        .output()
        .expect("the program runs");
    assert!(exported.status.success(), "{exported:?}");
    let timeline = RUN.json("timeline.json");
    let events = timeline["traceEvents"].as_array().expect("events");
    let of = |category: &str, path: &str, op: &str| -> Vec<_> {
        let is_one = |event: &&serde_json::Value| {
            let name = event["name"].as_str().unwrap_or_default();
            event["cat"] == category
                && event["args"]["path"] == path
                && name.split(' ').next() == Some(op)
        };
        events.iter().filter(is_one).cloned().collect()
    };
    if kernel() == "newest" {
        return; // which skips the programs for some calls
    }
    for (op, call) in [("WRITE", "write"), ("READ", "read")] {
        let requests = of("wire", "/mnt/nfs/called", op);
        // In NFS v4.2, the end of a file is a READ as well.
        assert!((8..=9).contains(&requests.len()), "{requests:?}");
        for request in &requests {
            let told = &request["args"];
            assert_eq!(
                (&told["callers"], &told["ambiguous"]),
                (&1.into(), &false.into()),
                "{request}"
            );
        }
        let calls = of("app", "/mnt/nfs/called", call);
        let told = calls
            .iter()
            .filter(|call| call["args"]["done_bytes"] == 65_536);
        assert_eq!(told.count(), 8, "{calls:?}");
        assert!(calls.iter().all(|call| call["args"]["tid"].is_u64()));
    }
    let back = of("wire", "/mnt/nfs/called_back", "WRITE");
    assert!(!back.is_empty());
    for request in &back {
        // The writer of the bytes, and the caller that waits for them to be on disk.
        let pages = request["args"]["done_bytes"].as_u64().unwrap_or(0) / 4096;
        let callers = request["args"]["callers"].as_u64().unwrap_or(0);
        assert!(callers == pages || callers == pages + 1, "{request}");
    }
    let arrows = |kind: &str| events.iter().filter(|event| event["ph"] == kind).count();
    assert_eq!(arrows("s"), arrows("f"));
    assert!(arrows("s") >= 16);
}
