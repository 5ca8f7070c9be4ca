//! Errors name the thing, the cause and the next step, and lose no data.

use crate::lifecycle::RUN;
use crate::run::Run;

/// Each case of `lifecycle.sh`, and words of its message.
const CASES: [(&str, &[&str]); 10] = [
    ("second", &["/var/tmp/store", "recorder"]),
    ("newer", &["/var/tmp/newer", "999"]),
    ("unwritable", &["/var/tmp/readonly/store", "ead-only"]),
    ("foreign", &["/var/tmp/foreign"]),
    ("nfs_store", &["/mnt/nfs/store", "--allow-nfs-store"]),
    ("flags", &["7s", "granularity"]),
    ("nesting", &["5s is not a whole number of 2s"]),
    ("user", &["sudo"]),
    ("capabilities", &["CAP_BPF", "CAP_PERFMON"]),
    ("no_tracefs", &["mount -t tracefs"]),
];

fn assert_says(run: &Run, name: &str, words: &[&str]) {
    let message = run.text(&format!("{name}.err"));
    assert_eq!(
        run.text(&format!("{name}.status")).trim(),
        "2",
        "{name}: {message}"
    );
    for word in words {
        assert!(message.contains(word), "{name}: `{word}` in: {message}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_is_wrong_is_said() {
    for (name, words) in CASES {
        assert_says(&RUN, name, words);
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_store_on_nfs_is_made_when_asked_for() {
    assert_eq!(
        RUN.text("nfs_store_allowed.status").trim(),
        "0",
        "{}",
        RUN.text("nfs_store_allowed.err")
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_kernel_without_the_nfs_client_is_told() {
    let run = Run::script("no_nfs", &["--no-nfs"]);
    assert_says(&run, "no_nfs", &["modprobe nfs"]);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_locked_down_kernel_is_told() {
    let flags = ["--no-nfs", "--append", "lockdown=confidentiality"];
    let run = Run::script("locked_down", &flags);
    assert_says(&run, "locked_down", &["lockdown=confidentiality"]);
}
