//! `trackiops why`: what it prints, for people and for programs, and its exit status.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use trackiops_schemas::row::ClosedWindow;
use trackiops_testkit::incidents::{noisy_neighbour, office, recorded};
use trackiops_testkit::stores::{options, record};

fn run(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
    command.args(words).arg("--store").arg(dir.join("store"));
    command.env("TZ", "UTC0").output().unwrap()
}

fn stored(windows: &[ClosedWindow]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    record(&dir.path().join("store"), options("h"), windows);
    dir
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_planted_neighbour_is_named_in_one_look() {
    let dir = stored(&noisy_neighbour());
    let said = run(dir.path(), &["why"]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    for part in [
        "2026-11-21 03:10:00 to 03:11:00: reads",
        "on nas:/data took",
        "in the network or the server",
        "`/srv/scratch/backup.tar` (0:/backup.service) wrote",
        "`/srv/db/orders.db` (1000:/db.service) lost",
        "Cause: a noisy neighbour (high confidence).",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = run(
        dir.path(),
        &["why", "--json", "--since", "2026-11-21 03:10"],
    );
    let moment: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(moment["cause"], "noisy-neighbour");
    assert_eq!(moment["confidence"], "high");
    assert_eq!(moment["load"]["name"], "/srv/scratch/backup.tar");
    assert_eq!(moment["victims"][0]["path"], "/srv/db/orders.db");
    assert_eq!(moment["until"], "2026-11-21T03:11:00.000Z");
}

#[test]
fn nothing_is_said_of_nothing() {
    let dir = stored(&recorded(3, 300, |_, second| office(second, 1.0)));
    let said = run(dir.path(), &["why"]);
    assert_eq!(
        (said.status.code(), text(&said.stdout)),
        (Some(1), String::new())
    );
    let why = "nothing was slow from 2026-11-21 03:00:00 to 03:05:00";
    assert!(text(&said.stderr).contains(why), "{}", text(&said.stderr));
    let said = run(dir.path(), &["why", "--since", "2026-11-22"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("nothing was recorded"));
    let said = run(dir.path(), &["why", "--until", "soon"]);
    assert_eq!(said.status.code(), Some(2));
}
