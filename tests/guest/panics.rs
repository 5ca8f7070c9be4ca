//! Each of the recorder's threads panics once. The recording keeps all closed windows, the exit status makes a supervisor restart it, and
//! the message names the thread.

use std::sync::LazyLock;

use crate::run::{Run, kernel, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let flags = ["--add", env!("CARGO_BIN_EXE_trackiops")];
    Run::script("panics", &flags)
});

/// The name of each recorder in `panics.sh`, and the thread that panics.
const PANICS: [(&str, &str); 7] = [
    ("main", "main"),
    ("look", "trackiops-look"),
    ("windows", "windows"),
    ("seal", "seal"),
    ("requests", "requests"),
    ("seal-requests", "seal requests"),
    ("maps", "trackiops-maps"),
];

const WRITTEN_BYTES: u64 = 16 * 65_536;

#[test]
#[ignore = "boots a guest: make test-long"]
fn guest_a_thread_that_dies_ends_the_recording_and_costs_nothing_that_was_closed() {
    let fileid = RUN.files()["/mnt/nfs/some.bin"];
    for (name, thread) in PANICS {
        let said = RUN.text(&format!("{name}.err"));
        let status = RUN.text(&format!("{name}.status"));
        assert_eq!(status.trim(), "4", "{name}: {said}");
        let death = format!("the thread `{thread}` has panicked: fail point: ");
        assert!(said.contains(&death), "{name}: {said}");
        for after in ["next", "check"] {
            let said = RUN.text(&format!("{name}.{after}.err"));
            let status = RUN.text(&format!("{name}.{after}.status"));
            assert_eq!(status.trim(), "0", "{name}.{after}: {said}");
        }
        let mut all = Run::query_store(&RUN.out.join(name), &["--step", "all"]);
        all.retain(|file| file["fileid"] == fileid);
        assert_eq!(sum(&all, "write_bytes"), WRITTEN_BYTES, "{name}");
    }
}

#[test]
#[ignore = "boots a guest: make test-long"]
fn guest_the_threads_that_seal_are_held_to_the_store() {
    let modules = RUN.text("lsm");
    if !modules.contains("landlock") {
        assert_eq!(kernel(), "5.10", "{modules}");
        return;
    }
    let said = RUN.text("held.err");
    for thread in ["seal", "seal requests"] {
        let refused = format!("{thread}: Err(PermissionDenied)");
        assert!(
            said.lines().any(|line| line == refused),
            "{refused}: {said}"
        );
    }
    assert_eq!(RUN.text("theirs"), "theirs\n");
    for name in ["held", "held.check"] {
        assert_eq!(RUN.text(&format!("{name}.status")).trim(), "0", "{said}");
    }
}
