//! Configuration files: precedence, errors, and changes by SIGHUP.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, ioctl_tiocsctty, kill_process, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use trackiops_testkit::program;

/// A directory with configuration files.
struct Config(tempfile::TempDir);

impl Config {
    fn new(main: &str) -> Self {
        let config = Self(tempfile::tempdir().unwrap());
        config.write("trackiops.toml", main);
        config
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A command with these files. `words` end with the command's name.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
        command.args(words).arg("--config");
        command.arg(self.path("trackiops.toml"));
        command
    }

    /// The line of `config show` about a key, without repeated spaces.
    fn shown(&self, key: &str, variables: &[(&str, &str)]) -> String {
        let mut show = self.command(&["config", "show"]);
        let output = show.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let keys = [format!("{key} "), format!("# {key} ")];
        let line = text
            .lines()
            .find(|line| keys.iter().any(|key| line.starts_with(key)));
        let line: Vec<_> = line.expect("the key").split_whitespace().collect();
        line.join(" ")
            .replace(self.0.path().to_str().unwrap(), "DIR")
    }

    /// The findings of `config check`.
    fn wrong(&self, variables: &[(&str, &str)]) -> Vec<String> {
        let mut check = self.command(&["config", "check"]);
        let output = check.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let text = text.replace(self.0.path().to_str().unwrap(), "DIR");
        text.lines().map(str::to_owned).collect()
    }

    fn assert_right(&self) {
        let output = self.command(&["config", "check"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_each_starts_with(lines: &[String], starts: &[&str]) {
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "`{start}`: {line}");
    }
}

#[test]
fn the_command_line_overrides_the_environment_and_that_the_files() {
    let config = Config::new("[record]\nbtf = \"/nowhere/main\"\n");
    let names = |config: &Config, variable: Option<&str>, flag: Option<&str>, word: &str| {
        let mut record = config.command(&["record", "--store", "x"]);
        record.envs(variable.map(|path| ("TRACKIOPS_RECORD_BTF", path)));
        record.args(flag.into_iter().flat_map(|path| ["--btf", path]));
        let output = record.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(word), "{word}: {}", said(&output));
    };
    names(&config, None, None, "/nowhere/main");
    config.write("conf.d/20.toml", "[record]\nbtf = \"/nowhere/20\"\n");
    config.write("conf.d/10.toml", "[record]\nbtf = \"/nowhere/10\"\n");
    config.write("conf.d/30.toml.old", "[record]\nbtf = \"/nowhere/old\"\n");
    config.write("conf.d/.40.toml", "[record]\nbtf = \"/nowhere/hidden\"\n");
    names(&config, None, None, "/nowhere/20");
    names(&config, Some(""), None, "/nowhere/20");
    names(&config, Some("/nowhere/env"), None, "/nowhere/env");
    names(
        &config,
        Some("/nowhere/env"),
        Some("/nowhere/flag"),
        "/nowhere/flag",
    );
}

#[test]
fn each_value_is_shown_with_its_origin() {
    let config = Config::new(
        "[record]\nstore-size = 21474836480\nwait = true\nmount = [\"/mnt/a b\", \"nas:/exp\"]\n\nno-ops = true\n",
    );
    config.write(
        "conf.d/10.toml",
        "[record]\nno-ops = false\npid = [7, \"8,9\"]\n",
    );
    for (line, variables) in [
        (
            "store-size = \"21474836480\" # DIR/trackiops.toml:2",
            vec![],
        ),
        ("wait = true # DIR/trackiops.toml:3", vec![]),
        (
            "mount = [\"/mnt/a b\", \"nas:/exp\"] # DIR/trackiops.toml:4",
            vec![],
        ),
        ("no-ops = false # DIR/conf.d/10.toml:2", vec![]),
        ("pid = [\"7\", \"8\", \"9\"] # DIR/conf.d/10.toml:3", vec![]),
        ("engine = \"auto\" # default", vec![]),
        ("# rotate # default: 15m", vec![]),
        (
            "no-ops = true # TRACKIOPS_RECORD_NO_OPS",
            vec![("TRACKIOPS_RECORD_NO_OPS", "true")],
        ),
        (
            "wait = false # TRACKIOPS_RECORD_WAIT",
            vec![("TRACKIOPS_RECORD_WAIT", "false")],
        ),
        (
            "store = \"/a\" # TRACKIOPS_STORE",
            vec![("TRACKIOPS_STORE", "/a")],
        ),
        (
            "store = \"/b\" # TRACKIOPS_RECORD_STORE",
            vec![("TRACKIOPS_STORE", "/a"), ("TRACKIOPS_RECORD_STORE", "/b")],
        ),
    ] {
        let key = line.trim_start_matches("# ").split(' ').next().unwrap();
        assert_eq!(config.shown(key, &variables), line);
    }
}

#[test]
fn what_is_shown_is_a_configuration_again() {
    let config =
        Config::new("[record]\nstore-size = \"20GiB\"\nmount = [\"a \\\"quoted\\\" \\u0007\"]\n");
    let shown = config.command(&["config", "show"]).output().unwrap();
    let again = Config::new(&String::from_utf8(shown.stdout).unwrap());
    again.assert_right();
    for key in ["store-size", "mount", "retain"] {
        let value = |config: &Config| config.shown(key, &[]).split('#').next().unwrap().to_owned();
        assert_eq!(value(&again), value(&config));
    }
}

#[test]
fn every_error_is_reported_with_its_place() {
    let config = Config::new(
        "[record]\nstore_size = \"20GiB\"\nwait = \"yes\"\nrotate = 1.5\nmount = \"/mnt\"\nuid = [1, 2.5, \"x\"]\n\
         retain = \"1s\"\nengine = \"quick\"\nring-memory = 1\n[recrod]\n[query]\n",
    );
    config.write("conf.d/1.toml", "store-size = 1\n");
    config.write(
        "conf.d/2.toml",
        "[record]\nwait = tru\nno-ops = true\nno-ops = true\n",
    );
    let variables = [
        ("TRACKIOPS_RECORD_WAIT", "yes"),
        ("TRACKIOPS_RECORD_STORESIZE", "1"),
        ("TRACKIOPS_RECORD_STORE_SIZE", "1parsec"),
    ];
    let expected = [
        "DIR/trackiops.toml:2: unknown key store_size in [record]; did you mean store-size?",
        "DIR/trackiops.toml:3: wait has a value of type string; write true or false",
        "DIR/trackiops.toml:4: rotate has a value of type float; write a string or an integer",
        "DIR/trackiops.toml:5: mount has a value of type string; write an array",
        "DIR/trackiops.toml:6: uid has a value of type float; write strings or integers",
        "DIR/trackiops.toml:10: unknown table [recrod]; did you mean record?",
        "DIR/trackiops.toml:11: unknown table [query]",
        "DIR/conf.d/1.toml:1: store-size is in no table; put it below [record]",
        "DIR/conf.d/2.toml:2: ",
        "DIR/conf.d/2.toml:4: duplicate key",
        "TRACKIOPS_RECORD_WAIT: has the value yes; write true or false",
        "TRACKIOPS_RECORD_STORESIZE: unknown variable; did you mean TRACKIOPS_RECORD_STORE_SIZE?",
        "DIR/trackiops.toml:7: invalid value '1s' for '--retain <AGES>': `1s` does not say how long",
        "DIR/trackiops.toml:8: invalid value 'quick' for '--engine <ENGINE>'",
        "DIR/trackiops.toml:9: invalid value '1' for '--ring-memory <SIZE>'",
        "TRACKIOPS_RECORD_STORE_SIZE: invalid value '1parsec'",
    ];
    assert_each_starts_with(&config.wrong(&variables), &expected);
    // A recorder prints the same, and does not start.
    let mut record = config.command(&["record", "--wait"]);
    let output = record.envs(variables).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = said(&output).replace(config.0.path().to_str().unwrap(), "DIR");
    let lines: Vec<_> = said.lines().map(str::to_owned).collect();
    let last = "trackiops: the configuration has 16 errors";
    assert_each_starts_with(&lines, &[&expected[..], &[last]].concat());
}

#[test]
fn of_keys_that_conflict_the_one_that_overrides_stays() {
    let config = Config::new("[record]\nno-live = true\n");
    let socket = [("TRACKIOPS_RECORD_LIVE_SOCKET", "/run/x.sock")];
    assert_eq!(
        config.shown("no-live", &socket),
        "no-live = false # default"
    );
    // The flag is accepted; the error is about another one.
    let mut record = config.command(&["record", "--live-socket", "/run/x.sock"]);
    let output = record.args(["--btf", "/nowhere"]).output().unwrap();
    assert!(said(&output).contains("/nowhere"), "{}", said(&output));
    config.write(
        "conf.d/1.toml",
        "[record]\n\nlive-socket = \"/run/y.sock\"\n",
    );
    let both = "DIR/conf.d/1.toml:3: live-socket cannot be used with no-live (DIR/trackiops.toml:2); remove one of them";
    assert_eq!(config.wrong(&[]), [both]);
    config.write("conf.d/2.toml", "[record]\nno-live = false\n");
    config.assert_right();
}

#[test]
fn what_is_no_file_of_text_is_refused_at_once() {
    let config = Config::new("");
    config.assert_right();
    let dir = config.path("conf.d");
    fs::create_dir(&dir).unwrap();
    mkfifoat(CWD, dir.join("1.toml"), Mode::RUSR).unwrap();
    fs::create_dir(dir.join("2.toml")).unwrap();
    File::create(dir.join("3.toml"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    fs::write(dir.join("4.toml"), b"[record]\n# \xff\n").unwrap();
    symlink("/dev/zero", dir.join("5.toml")).unwrap();
    symlink("nowhere", dir.join("6.toml")).unwrap();
    let expected = [
        "DIR/conf.d/1.toml: cannot be read: it is a named pipe",
        "DIR/conf.d/2.toml: cannot be read: it is a directory",
        "DIR/conf.d/3.toml: has more than 1 MiB",
        "DIR/conf.d/4.toml: is not UTF-8",
        "DIR/conf.d/5.toml: cannot be read: it is a device",
        "DIR/conf.d/6.toml: cannot be read: No such file",
    ];
    assert_each_starts_with(&config.wrong(&[]), &expected);
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "").unwrap();
    assert_each_starts_with(
        &config.wrong(&[]),
        &["DIR/conf.d: cannot be listed: Not a directory"],
    );
}

#[test]
fn a_named_file_must_exist_and_none_is_none() {
    let config = Config::new("[record]\nno-ops = true\n");
    let shown = |flags: &[&str], variable: &str| {
        let mut show = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
        show.args(["config", "show"]).args(flags);
        let output = show.env("TRACKIOPS_CONFIG", variable).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            output.status.code(),
            text.contains("no-ops = true"),
            said(&output),
        )
    };
    let file = config.path("trackiops.toml");
    let file = file.to_str().unwrap();
    assert_eq!(shown(&[], file), (Some(0), true, String::new()));
    assert_eq!(
        shown(&["--config", "none"], file),
        (Some(0), false, String::new())
    );
    assert_eq!(
        shown(&["--config", file], "none"),
        (Some(0), true, String::new())
    );
    for (flags, variable) in [
        (&["--config", "/nowhere"][..], "none"),
        (&[][..], "/nowhere"),
    ] {
        let (status, _, said) = shown(flags, variable);
        assert_eq!(status, Some(2));
        assert!(
            said.starts_with("/nowhere: there is no such file"),
            "{said}"
        );
    }
}

#[test]
fn as_root_what_others_may_change_is_refused() {
    let config = Config::new("");
    let file = config.path("trackiops.toml");
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let refused = |mend: &str| {
        let wrong = config.wrong(&[]);
        assert_each_starts_with(
            &wrong,
            &["DIR/trackiops.toml: others than root may change DIR"],
        );
        assert!(wrong[0].ends_with(&format!("run `{mend}`")), "{wrong:?}");
    };
    mode(&file, 0o664);
    refused("chmod go-w DIR/trackiops.toml");
    chown(&file, Some(1000), None).unwrap();
    refused("chown -h root DIR/trackiops.toml && chmod go-w DIR/trackiops.toml");
    mode(&file, 0o644);
    chown(&file, Some(0), None).unwrap();
    config.assert_right();
    mode(config.0.path(), 0o777);
    refused("chmod go-w DIR");
    mode(config.0.path(), 0o1777);
    config.assert_right();
    // A link that another user owns, and one through another user's directory.
    let real = config.path("real");
    fs::create_dir(&real).unwrap();
    fs::rename(&file, real.join("trackiops.toml")).unwrap();
    symlink("real/trackiops.toml", &file).unwrap();
    config.assert_right();
    chown(&real, Some(1000), None).unwrap();
    refused("chown -h root DIR/real");
    chown(&real, Some(0), None).unwrap();
    std::os::unix::fs::lchown(&file, Some(1000), None).unwrap();
    refused("chown -h root DIR/trackiops.toml");
}

/// A recorder that waits for the NFS client or records.
struct Recorder {
    _dir: tempfile::TempDir,
    process: Child,
    said: BufReader<ChildStderr>,
}

impl Recorder {
    fn begin(mut command: Command) -> Self {
        command.args(["--wait", "--live-socket"]);
        let dir = tempfile::tempdir().unwrap();
        command
            .arg(dir.path().join("live.sock"))
            .arg("--store")
            .arg(dir.path().join("store"));
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        let mut recorder = Self {
            _dir: dir,
            process,
            said,
        };
        let line = recorder.line();
        assert!(
            line.starts_with("waiting for the NFS client") || line.starts_with("recording"),
            "{line}"
        );
        recorder
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The recorder's output after SIGHUP.
    fn reload(&mut self, config: &Config, lines: usize) -> Vec<String> {
        self.signal(Signal::HUP);
        let dir = config.0.path().to_str().unwrap();
        (0..lines)
            .map(|_| self.line().replace(dir, "DIR"))
            .collect()
    }
}

impl Drop for Recorder {
    /// Cleans up after a failed test.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn as_root_sighup_changes_what_can_change_and_reports_the_rest() {
    let config = Config::new("[record]\nstore-size = \"20GiB\"\nretain = \"1s=1d\"\n");
    let mut record = config.command(&["record"]);
    record
        .args(["--retain", "1s=2d"])
        .env("TRACKIOPS_RECORD_NO_OPS", "true");
    let mut recorder = Recorder::begin(record);
    assert_eq!(
        recorder.reload(&config, 1),
        ["reloaded: nothing has changed"]
    );
    config.write(
        "trackiops.toml",
        "[record]\nretain = \"1s=3d\"\nmount = [\"/mnt\"]\nno-ops = false\n",
    );
    config.write(
        "conf.d/1.toml",
        "[record]\nretain-by-clock = true\nrequests-size = \"1GiB\"\n",
    );
    let expected = [
        "reloaded: retain-by-clock was false and is true (DIR/conf.d/1.toml:2)",
        "reloaded: store-size was \"20GiB\" and is not set (default)",
        "reloaded: requests-size was \"10GiB\" and is \"1GiB\" (DIR/conf.d/1.toml:3)",
        "not reloaded: mount stays []; restart the recorder to make it [\"/mnt\"] (DIR/trackiops.toml:3)",
    ];
    assert_eq!(recorder.reload(&config, 4), expected);
    // Changes that need a restart are reported again until the restart.
    assert_eq!(recorder.reload(&config, 1), expected[3..]);
    config.write(
        "conf.d/1.toml",
        "[record]\nretain-by-clock = 1\nrequest-size = \"2GiB\"\n",
    );
    let wrong = recorder.reload(&config, 3);
    assert_each_starts_with(
        &wrong,
        &[
            "DIR/conf.d/1.toml:2: retain-by-clock has a value of type integer",
            "DIR/conf.d/1.toml:3: unknown key request-size in [record]; did you mean requests-size?",
            "the configuration is not reloaded: recording goes on as before",
        ],
    );
    recorder.signal(Signal::TERM);
    assert!(recorder.line().starts_with("stopped"));
    assert!(recorder.process.wait().unwrap().success());
}

#[test]
fn as_root_a_service_manager_is_told_what_happens() {
    let config = Config::new("");
    let socket = config.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let timeout = Duration::from_secs(60);
    manager.set_read_timeout(Some(timeout)).unwrap();
    // Skips the lines that come every second.
    let told = || loop {
        let mut words = [0; 4096];
        let length = manager.recv(&mut words).unwrap();
        let words = String::from_utf8(words[..length].to_vec()).unwrap();
        if words != "WATCHDOG=1" && !words.contains("requests/s") {
            return words;
        }
    };
    let mut record = config.command(&["record"]);
    record.env("NOTIFY_SOCKET", &socket);
    let mut recorder = Recorder::begin(record);
    let ready = told();
    assert!(ready.starts_with("READY=1\nSTATUS="), "{ready}");
    recorder.reload(&config, 1);
    let reloading = told();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(told(), "READY=1");
    recorder.signal(Signal::TERM);
    let stopping = told();
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    assert!(recorder.process.wait().unwrap().success());
}

#[test]
fn as_root_a_recorder_ends_with_its_terminal() {
    let config = Config::new("");
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let slave = ptsname(&terminal, Vec::new()).unwrap();
    let slave = File::open(Path::new(slave.to_str().unwrap())).unwrap();
    let mut record = config.command(&["record"]);
    // SAFETY: both are plain system calls, which are safe after fork (signal-safety(7)).
    unsafe {
        record.pre_exec(move || {
            setsid()?;
            ioctl_tiocsctty(&slave)?;
            Ok(())
        });
    }
    let mut recorder = Recorder::begin(record);
    // It still has a terminal.
    assert_eq!(
        recorder.reload(&config, 1),
        ["reloaded: nothing has changed"]
    );
    drop(terminal);
    assert!(recorder.line().starts_with("stopped"));
    assert!(recorder.process.wait().unwrap().success());
}
