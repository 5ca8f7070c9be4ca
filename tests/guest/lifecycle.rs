//! Stop, kill, restart, and queries while recording.

use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;

use crate::run::{Answer, Run, answers, by_window, sum};

/// [`crate::errors`] uses the same guest.
pub static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("lifecycle", &[]));

const WRITE_BYTES: u64 = 65_536;

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_closed_window_is_in_the_answer_while_recording() {
    assert_eq!(
        RUN.text("live.status").trim(),
        "0",
        "{}",
        RUN.text("live.err")
    );
    assert_eq!(
        sum(&answers(&RUN.text("live.out")), "write_bytes"),
        32 * WRITE_BYTES
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_was_closed_survives_sigkill_and_nothing_is_counted_twice() {
    let all = RUN.query(&["--step", "all"]);
    assert_eq!(sum(&all, "write_bytes"), 48 * WRITE_BYTES);
    assert!(
        RUN.text("record.err").contains("recovered"),
        "{}",
        RUN.text("record.err")
    );
    assert_eq!(
        RUN.text("journals"),
        "",
        "a clean stop leaves nothing pending"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_who_listens_goes_on_with_the_next_recorder() {
    let heard = answers(&RUN.text("watch.json"));
    assert_eq!(by_window(&heard), by_window(&RUN.query(&["--step", "1s"])));
    let said = RUN.text("watch.err");
    assert!(said.starts_with("the recorder has ended"), "{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_rules_name_tenants_and_new_ones_hold_from_when_they_were_read() {
    let by_tenant = |flags: &[&str]| -> BTreeMap<String, u64> {
        let answers = RUN.query(&[&["--step", "all", "--by", "tenant"], flags].concat());
        let of = |answer: &Answer| {
            let tenant = [&answer["tenant_name"], &answer["labels"]];
            let tenant = tenant.map(|of| of.as_str().unwrap_or("-").to_owned());
            (tenant.join(" "), answer["write_bytes"].as_u64().unwrap())
        };
        answers.iter().map(of).collect()
    };
    let sums = |of: &[(&str, u64)]| -> BTreeMap<String, u64> {
        let of = of.iter();
        of.map(|(tenant, writes)| ((*tenant).to_owned(), writes * WRITE_BYTES))
            .collect()
    };
    let second = r#"second {"tier":"gold"}"#;
    // The first recording had no rules.
    assert_eq!(
        by_tenant(&[]),
        sums(&[("- -", 32), ("first-nfs -", 8), (second, 8)])
    );
    assert_eq!(by_tenant(&["--tenant", "sec*"]), sums(&[(second, 8)]));
    let rules = RUN.out.join("tenants.toml");
    fs::write(&rules, "[[rule]]\npath = '/mnt/**'\ntenant = 'all'\n").unwrap();
    let rules = rules.to_str().unwrap();
    assert_eq!(by_tenant(&["--tenants", rules]), sums(&[("all -", 48)]));
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_time_between_two_recordings_is_told_as_a_gap() {
    let output = RUN.query_output(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not recorded"), "{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_doctor_tells_what_is_there_and_what_is_used() {
    let said = RUN.text("doctor.out");
    assert_eq!(RUN.text("doctor.status").trim(), "0", "{said}");
    for word in [
        "BTF                readable",
        "reports users",
        "uses the direct engine",
    ] {
        assert!(said.contains(word), "`{word}` in:\n{said}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_doctor_reports_what_each_step_of_a_start_takes() {
    let said = RUN.json("timing.out");
    let steps = said["start"].as_array().expect("steps");
    let cpu_ms = |step: &serde_json::Value| step["cpu_ms"].as_f64().expect("a time");
    let (all, steps) = steps.split_last().expect("a step");
    assert_eq!(all["step"], "in all");
    let sum: f64 = steps.iter().map(cpu_ms).sum();
    assert!((sum - cpu_ms(all)).abs() < 0.01, "{said}");
    let takes_time = |word: &str| {
        let named = |step: &&serde_json::Value| step["step"].to_string().contains(word);
        steps.iter().filter(named).map(cpu_ms).sum::<f64>() > 0.0
    };
    for word in ["BTF", "make maps", "read_done", "write_done", "operation"] {
        assert!(takes_time(word), "no time of `{word}` in {said}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_programs_are_of_the_form_that_the_doctor_tells() {
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT` and `BPF_PROG_TYPE_TRACING`.
    const BY_PROBE: &str = "17";
    const BY_LOAD: &str = "26";
    let programs = RUN.text("programs");
    let types: Vec<&str> = programs
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.1.trim()))
        .collect();
    assert!(
        types.iter().all(|of| [BY_PROBE, BY_LOAD].contains(of)),
        "{programs}"
    );
    let by_load = types.iter().filter(|of| **of == BY_LOAD).count();
    let told = RUN.text("doctor.out");
    if told.contains("reads by loads") {
        // Programs for READ, WRITE and any RPC. Renames are rare, so their program uses a probe everywhere; it has another program that
        // attaches it.
        // The program for releases has that type as well, because it serves two tracepoints.
        let others = 2 + usize::from(told.contains("one at its release"));
        assert!(
            by_load >= 3 && types.len() - by_load <= others,
            "{programs}"
        );
    } else {
        // Programs on functions that count calls of applications use loads everywhere: four, and one for splices since Linux 6.5.
        assert!([0, 4, 5].contains(&by_load), "{programs}");
        assert!(types.len() > by_load, "{programs}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_papers_lines_are_printed_per_file_and_window() {
    let text = RUN.text("paper.out");
    let (head, text) = text.split_once('\n').expect("a header");
    assert!(head.starts_with("[Timestamp], File ID, r-iops"), "{head}");
    let fields: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split(", ").collect())
        .collect();
    assert!(!fields.is_empty(), "{}", RUN.text("paper.err"));
    assert!(
        fields
            .iter()
            .all(|f| f.len() == 8 && f[0].starts_with('[') && f[1].split(':').count() == 3),
        "{text}"
    );
    let written: u64 = fields
        .iter()
        .map(|f| f[6].parse::<u64>().expect("bytes/s"))
        .sum();
    assert!(
        written >= 8 * WRITE_BYTES,
        "1 s windows: bytes/s add up to the bytes: {text}"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_terminal_gets_a_status_line_per_window() {
    let text = RUN.text("terminal");
    let lines = text
        .lines()
        .filter(|l| l.contains("requests/s") && l.contains("files") && l.ends_with("0 lost"));
    // Three seconds of recording, or more if a busy host delays the last one.
    let times: Vec<_> = lines.filter_map(|line| line.split(' ').next()).collect();
    assert!(times.len() >= 3, "{text}");
    assert!(
        times.is_sorted_by(|a, b| a < b),
        "one line per window: {text}"
    );
    assert!(
        !RUN.text("record.err").contains("requests/s"),
        "and nobody else"
    );
}
