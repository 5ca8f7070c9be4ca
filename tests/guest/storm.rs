//! Everything at once, on machines with little memory and holes in it: no kernel is harmed, and the recording matches the kernel's counts.
//!
//! `make test-guests` sends a file through the page cache of such a machine. `make storm` runs ten minutes on each kernel with each kind of
//! memory. `TRACKIOPS_STORM_SECONDS` sets the length of each storm, `TRACKIOPS_TEST_KERNEL` selects the kernels, `TRACKIOPS_STORM_MEMORY`
//! the kinds of memory. `TRACKIOPS_WRITE_DOCS=1` rewrites the table of `docs/results/harm.md`.

mod check;
mod table;

use std::fs::File;

use crate::run::{KERNELS, Run, kernel, long, scripts, sum};
use check::Outcome;

/// A section of memory is 128 MiB. If one is missing, no `struct page` follows the last page of the section before.
const HOLES: [&str; 4] = [
    "memmap=128M$0x10000000",
    "memmap=128M$0x20000000",
    "memmap=128M$0x30000000",
    "memmap=128M$0x40000000",
];
const MEMORY_MIB: &str = "1280";
/// KFENCE, where built in, guards an allocation at each tick. Pages are not cleared at allocation: emulated kernels had soft lockups there,
/// with and without a recorder.
const ALWAYS: &str = "panic_on_warn=1 kfence.sample_interval=1 init_on_alloc=0 watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120";
const DISK_BYTES: u64 = 4 << 30;
/// File systems on disks. Each has ten threads of I/O, as tmpfs, an overlay and NFS have.
pub const LOCAL: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// Kernel options that detect a use of freed memory.
#[derive(Clone, Copy)]
pub struct Flavour {
    pub name: &'static str,
    words: &'static str,
}

const FLAVOURS: [Flavour; 3] = [
    Flavour {
        name: "plain",
        words: "",
    },
    // Without U, which stores the stack of each allocation: it finds nothing more, and doubles a guest's CPU time.
    Flavour {
        name: "poisoned",
        words: "slub_debug=FZP page_poison=1",
    },
    Flavour {
        name: "zeroed",
        words: "init_on_free=1",
    },
];

/// One storm.
fn storm(kernel: &str, flavour: Flavour, seconds: u64) -> Outcome {
    let disk = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a disk");
    let empty = File::options().write(true).open(disk.path());
    empty
        .and_then(|disk| disk.set_len(DISK_BYTES))
        .expect("a disk");
    let append = [ALWAYS, flavour.words].into_iter().chain(HOLES);
    let append = append.collect::<Vec<_>>().join(" ");
    let timeout = (seconds * 3 + 1800).to_string();
    let load = ["storm_load.sh", "churn.py"].map(|name| scripts().join(name));
    let mut flags = vec![
        "--mem",
        MEMORY_MIB,
        "--timeout",
        &timeout,
        "--append",
        &append,
        // Probes are attached and detached without a pause.
        "--by-turns",
        "--deb",
        "xfsprogs,btrfs-progs,dosfstools",
        "--disk",
        disk.path().to_str().expect("a path"),
    ];
    for path in &load {
        flags.extend(["--add", path.to_str().expect("a path")]);
    }
    let seconds_text = seconds.to_string();
    let arguments = [&[&*seconds_text], &LOCAL[..]].concat();
    let run = Run::on(kernel, "storm", &flags, &arguments);
    Outcome::of(&run, flavour, seconds)
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_last_page_before_a_hole_harms_no_kernel() {
    const MIB: u64 = 1200;
    let append = ["panic_on_warn=1"].into_iter().chain(HOLES);
    let append = append.collect::<Vec<_>>().join(" ");
    let flags = ["--no-nfs", "--mem", MEMORY_MIB, "--append", &append];
    let run = Run::on(&kernel(), "holes", &flags, &[&MIB.to_string()]);
    let columns = "path,cache_added_bytes,cache_evicted_bytes";
    let flags = ["--step", "all", "--level", "block", "--columns", columns];
    let mut rows = run.query(&flags);
    rows.retain(|row| row["path"] == "/mnt/ext4/sparse");
    let [added, evicted] = ["cache_added_bytes", "cache_evicted_bytes"].map(|of| sum(&rows, of));
    println!("{}: {added} bytes came, {evicted} were evicted", kernel());
    // Read-ahead pages may have been evicted and read again.
    assert!(added >= MIB << 20, "{rows:?}");
    assert!(evicted > 0 && evicted < added, "{rows:?}");
}

#[test]
#[ignore = "boots guests: make storm"]
fn guest_a_storm_of_everything_harms_no_kernel() {
    if !long() && std::env::var_os("TRACKIOPS_STORM_SECONDS").is_none() {
        println!("there is make storm for this");
        return;
    }
    let (kernels, flavours, seconds) = if long() {
        (&KERNELS[..], &FLAVOURS[..], 600)
    } else {
        // The first flavour does not slow the emulated kernel down, so most happens there.
        (&["6.12"][..], &FLAVOURS[..1], 180)
    };
    let listed = |name: &str| {
        let names = std::env::var(name).ok();
        names.map(|names| names.split(',').map(str::to_owned).collect::<Vec<_>>())
    };
    let kernels = listed("TRACKIOPS_TEST_KERNEL")
        .unwrap_or_else(|| kernels.iter().map(|name| (*name).to_owned()).collect());
    let flavours: Vec<Flavour> = match listed("TRACKIOPS_STORM_MEMORY") {
        Some(names) => FLAVOURS
            .into_iter()
            .filter(|flavour| names.iter().any(|name| name == flavour.name))
            .collect(),
        None => flavours.to_vec(),
    };
    let seconds = std::env::var("TRACKIOPS_STORM_SECONDS")
        .map_or(seconds, |text| text.parse().expect("seconds"));
    let (mut table, mut failures) = (table::HEAD.to_owned(), Vec::new());
    for kernel in &kernels {
        for flavour in &flavours {
            let place = format!("{kernel}, {}", flavour.name);
            // If a kernel crashes, the others are still checked.
            match std::panic::catch_unwind(|| storm(kernel, *flavour, seconds)) {
                Ok(outcome) => {
                    let line = table::line(&outcome);
                    println!("{line}");
                    table.push_str(&line);
                    failures.extend(outcome.failures.iter().map(|why| format!("{place}: {why}")));
                }
                Err(_) => failures.push(format!("{place}: the guest failed, as said above")),
            }
        }
    }
    println!("{table}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if std::env::var_os("TRACKIOPS_WRITE_DOCS").is_some() {
        table::write_docs(&table);
    }
}
