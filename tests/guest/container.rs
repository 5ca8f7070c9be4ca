//! A recorder in a container, run like docs/guide/containers.md describes, beside containers that use the host's NFS mounts.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use crate::mountstats::TRANSFERS;
use crate::oci;
use crate::run::{Answer, Run, answers, kernel, number, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let scratch = tempfile::tempdir().unwrap();
    let beside = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let image = beside(&format!("trackiops-{}-linux-x86_64.oci.tar", oci::VERSION));
    let program =
        std::env::var_os("TRACKIOPS_BIN").expect("make guest-container sets TRACKIOPS_BIN");
    oci::image(Path::new(&program), Path::new(&image));
    let [load, run] = ["load", "run"].map(|name| {
        let script = beside(&format!("{name}.sh"));
        fs::write(&script, oci::commands(&format!("podman {name} "))).unwrap();
        script
    });
    let set = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/contrib/kubernetes/trackiops.yaml"
    );
    let add = [&*image, &load, &run, set]
        .map(|file| ["--add", file])
        .concat();
    let flags = [&["--timeout", "2400"], &add[..]].concat();
    // Only runs of pods need the last two.
    let packages = ["podman", "crun", "apparmor", "catatonit", "netavark"];
    let kube = if has_daemon_sets() { ["kube"] } else { ["no"] };
    Run::on_system(&kernel(), &packages, "container", &flags, &kube)
});

/// Whether Podman supports them: Podman in Debian 12 does not.
fn has_daemon_sets() -> bool {
    kernel() != "6.1"
}

fn rows(name: &str) -> Vec<Answer> {
    answers(&RUN.text(&format!("{name}.json")))
}

/// A column of the only row whose path ends like this.
fn column(rows: &[Answer], path: &str, name: &str) -> Value {
    let mut of_path = rows.iter();
    let found = of_path.find(|row| row["path"].as_str().is_some_and(|is| is.ends_with(path)));
    found.unwrap_or_else(|| panic!("no {path}: {rows:?}"))[name].clone()
}

/// The requests of the file in a private mount namespace.
fn inside(rows: &[Answer]) -> Vec<Value> {
    let inside = rows
        .iter()
        .filter(|row| number(row, "write_bytes") == 16384.0);
    inside.map(|row| row["path"].clone()).collect()
}

/// Checks that nothing is missing, with any options.
fn is_whole(name: &str, host: &str) {
    let rows = rows(name);
    let kernel = RUN.mountstats(&format!("{name}.before"), &format!("{name}.after"));
    for mount in ["/mnt/nfs", "/mnt/two"] {
        let below = |row: &&Answer| {
            row["path"]
                .as_str()
                .is_some_and(|path| path.starts_with(mount))
        };
        let rows: Vec<_> = rows.iter().filter(below).cloned().collect();
        let found = TRANSFERS.map(|column| sum(&rows, column));
        assert_eq!(found, kernel.mounts[mount].1.transfers(), "{name}: {mount}");
        assert!(found[1] > 0, "{name}: {mount}");
    }
    let cgroup = RUN.text(&format!("{name}.cgroup"));
    assert!(cgroup.contains("libpod-"), "{cgroup}");
    assert_eq!(
        column(&rows, "/mnt/nfs/data/tenant", "cgroup"),
        *cgroup.trim()
    );
    assert_eq!(column(&rows, "/mnt/nfs/data/tenant", "user"), "user");
    assert_eq!(column(&rows, "/mnt/nfs/host", "user"), "root");
    assert_eq!(inside(&rows), ["/mnt/inside/data/inside"]);
    assert!(rows.iter().all(|row| row["host"] == *host), "{rows:?}");

    let operations = answers(&RUN.text(&format!("{name}.ops")));
    let two = operations
        .iter()
        .filter(|row| row["mount"] == "127.0.0.1:/exp2");
    assert!(two.count() > 1, "{operations:?}");
    let doctor = RUN.text(&format!("{name}.doctor.out"));
    for fact in [
        "tracefs            at /",
        "hung servers       seen in /",
        "mountstats         yes",
    ] {
        assert!(doctor.contains(fact), "{doctor}");
    }
    for (command, what) in [
        ("recorder", "state       well"),
        ("audit", ": no alarm\n"),
        ("check", "nothing is damaged"),
    ] {
        let said = RUN.text(&format!("{name}.{command}.out"));
        assert!(said.contains(what), "{name}: {said}");
    }
    assert_eq!(RUN.text(&format!("{name}.exit")).trim(), "0");
    let said = RUN.text(&format!("{name}.said"));
    assert!(
        said.starts_with("recording\nstopped: ") && said.contains(", 0 lost"),
        "{said}"
    );
}

#[test]
#[ignore = "boots a guest: make guest-container"]
fn guest_nothing_is_amiss_with_the_options_of_the_guide() {
    is_whole("whole", "guest");
    is_whole("sealed", "guest");
}

#[test]
#[ignore = "boots a guest: make guest-container"]
fn guest_the_daemon_set_gives_a_recorder_what_it_needs() {
    if has_daemon_sets() {
        is_whole("node", "node-7");
    }
}

#[test]
#[ignore = "boots a guest: make guest-container"]
fn guest_without_an_option_what_the_guide_says_is_missing() {
    let pid = rows("pid");
    assert!(pid.iter().all(|row| row["path"].is_null()), "{pid:?}");
    let audit = RUN.text("pid.audit.out");
    assert!(audit.contains("nothing was compared"), "{audit}");
    assert_eq!(RUN.text("pid.recorder.status").trim(), "2");

    let uts = rows("uts");
    assert!(uts.iter().all(|row| row["host"] != "guest"), "{uts:?}");

    let doctor = RUN.text("sys.doctor.out");
    for fact in [
        "tracefs            not mounted",
        "hung servers       not seen",
    ] {
        assert!(doctor.contains(fact), "{doctor}");
    }
    let operations = answers(&RUN.text("sys.ops"));
    assert!(
        operations.iter().all(|row| row["mount"].is_null()),
        "{operations:?}"
    );

    let cgroup = column(&rows("cgroup"), "/tenant", "cgroup");
    assert!(cgroup.as_str().unwrap().starts_with('?'), "{cgroup}");
    assert_eq!(column(&rows("passwd"), "/tenant", "user"), Value::Null);
    assert_eq!(RUN.text("run.recorder.status").trim(), "2");
    for name in ["apparmor", "SYS_PTRACE"] {
        assert_eq!(inside(&rows(name)), [Value::Null], "{name}");
    }
    let said = RUN.text("SYS_ADMIN.said");
    assert!(said.contains("recording needs root"), "{said}");
}

#[test]
#[ignore = "boots a guest: make guest-container"]
fn guest_a_store_of_a_group_needs_that_group() {
    let said = RUN.text("others.said");
    assert!(said.contains("cannot serve windows"), "{said}");
    is_whole("group", "guest");
    assert_eq!(rows("group"), answers(&RUN.text("member.json")));
}
