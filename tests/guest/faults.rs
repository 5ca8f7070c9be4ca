//! Faults on real traffic: each request is counted once, with the right bytes, error and latency. Neither the next request nor the recorder
//! suffers.

mod injected;
mod restarted;
mod task_ids;

use std::sync::LazyLock;

use crate::run::{Answer, KERNELS, Run, is_from, kernel, long, number, scripts, sum};

/// One guest: all faults on one kernel.
pub struct Faults {
    kernel: String,
    run: Run,
    files: Vec<Answer>,
}

/// The phases of `faults.sh`, each between two snapshots, with a look at the BPF maps at its end.
const PHASES: [&str; 3] = ["proxied", "ids", "restarted"];

/// Every version of NFS on one kernel, or on all of them.
static GUESTS: LazyLock<Vec<Faults>> = LazyLock::new(|| {
    let all = |kernel: &str| Faults::boot(kernel, &["3", "4.0", "4.1", "4.2"]);
    match long() {
        true => KERNELS.map(all).into(),
        false => vec![all(&kernel())],
    }
});

impl Faults {
    fn boot(kernel: &str, versions: &[&str]) -> Self {
        let helpers = [
            "nfsproxy.py",
            "faults.py",
            "bpfmaps.py",
            "leased.py",
            "aligned.py",
            "steady.py",
        ]
        .map(|name| scripts().join(name).display().to_string());
        let mut flags = vec!["--nfs", "3"];
        flags.extend(helpers.iter().flat_map(|path| ["--add", path.as_str()]));
        let run = Run::on(kernel, "faults", &flags, versions);
        let files = run.query(&["--step", "all"]);
        Self {
            kernel: kernel.to_owned(),
            run,
            files,
        }
    }

    /// The recording of one file of a mount such as `127.0.0.1:/exp`, in one direction.
    fn recorded(&self, mount: &str, fileid: f64, direction: &'static str) -> Recorded<'_> {
        let mut own = self
            .files
            .iter()
            .filter(|a| is_from(a, mount) && a["fileid"].as_f64() == Some(fileid));
        let answer = own
            .next()
            .unwrap_or_else(|| panic!("{}: file {fileid} of {mount} was recorded", self.kernel));
        assert!(own.next().is_none(), "one file is one answer");
        Recorded { answer, direction }
    }
}

/// One direction of an answer.
struct Recorded<'a> {
    answer: &'a Answer,
    direction: &'static str,
}

impl Recorded<'_> {
    fn count(&self, column: &str) -> u64 {
        number(self.answer, &format!("{}_{column}", self.direction)) as u64
    }

    /// The largest latency, s.
    fn longest(&self) -> f64 {
        self.count("latency_us_max") as f64 / 1e6
    }

    /// Every latency, ascending, s: the lower bound of its bucket, up to 2.2 % too low.
    fn latencies(&self) -> Vec<f64> {
        let histogram = self.answer[&format!("{}_latency_hist", self.direction)].as_array();
        let mut latencies = Vec::new();
        for bucket in histogram.into_iter().flatten() {
            let index = bucket["bucket"].as_i64().expect("a bucket's index");
            let count = bucket["count"].as_u64().expect("a bucket's count");
            latencies.extend((0..count).map(|_| (index as f64 / 32.0).exp2() / 1e6));
        }
        latencies.sort_by(f64::total_cmp);
        latencies
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_bytes_and_operations_equal_mountstats_under_faults() {
    for guest in GUESTS.iter() {
        for phase in PHASES {
            let (before, after) = (format!("{phase}.before"), format!("{phase}.after"));
            for (device, truth) in guest.run.mountstats(&before, &after).mounts.values() {
                let own: Vec<Answer> = guest
                    .files
                    .iter()
                    .filter(|a| is_from(a, device))
                    .cloned()
                    .collect();
                let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&own, column));
                let expected = [truth.server_read_bytes, truth.server_written_bytes];
                assert_eq!(bytes, expected, "{}: {device}", guest.kernel);
                assert!(bytes[0] > 0 && bytes[1] > 0, "{device} was used");
                // A repeated attempt ended in an error that the request itself does not have.
                let repeated = [
                    truth.failed_attempts(&["READ", "READ_PLUS"]) - sum(&own, "read_errors"),
                    truth.failed_attempts(&["WRITE"]) - sum(&own, "write_errors"),
                ];
                let requests = ["read_requests", "write_requests"].map(|column| sum(&own, column));
                println!(
                    "{}: {device}: {requests:?} requests and {repeated:?} repeated attempts, {bytes:?} bytes, \
                     {} retransmissions",
                    guest.kernel,
                    truth.retransmissions()
                );
                assert_eq!(
                    [truth.reads(), truth.writes()],
                    [requests[0] + repeated[0], requests[1] + repeated[1]],
                    "{}: {device}",
                    guest.kernel
                );
            }
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_both_engines_agree_under_faults() {
    for guest in GUESTS.iter() {
        let disagreements = guest.run.disagreements();
        assert!(
            disagreements.is_empty(),
            "{}:\n{}",
            guest.kernel,
            disagreements.join("\n")
        );
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_nothing_is_lost_or_untimed_under_faults() {
    for guest in GUESTS.iter() {
        let requests = sum(&guest.files, "read_requests") + sum(&guest.files, "write_requests");
        let expected = format!("stopped: {requests} requests seen, {requests} recorded, 0 lost");
        let said = guest.run.text("record.err");
        assert!(said.contains(&expected), "`{expected}` in:\n{said}");
        let untimed = sum(&guest.files, "read_untimed") + sum(&guest.files, "write_untimed");
        assert_eq!(untimed, 0, "{}", guest.kernel);
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_recording_takes_no_bpf_call_that_keeps_the_programs_away() {
    for guest in GUESTS.iter() {
        assert_eq!(guest.run.text("bpf_calls"), "", "{}", guest.kernel);
    }
}

/// `NO_TASK` of the kernel side, and a `LINK_INIT` without a pending request, in the form of map dumps.
const NO_TASK: &str = "ffffffffffffffff";
const NOT_PENDING: &str = "00000000";

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_no_link_to_a_finished_request_is_left() {
    for guest in GUESTS.iter() {
        // The content of the maps while a request is in flight.
        let held = guest.run.json("maps.held");
        let waiting = held["WAITING"].as_array().expect("a map");
        let fileid = guest.run.json("held")["fileid"].as_u64().expect("a fileid");
        let value = waiting[0][1].as_str().expect("a value");
        assert_eq!(waiting.len(), 1, "{}: {held}", guest.kernel);
        assert!(
            value.starts_with(&format!("{:016x}", fileid.swap_bytes())),
            "{held}"
        );

        for phase in PHASES {
            let maps = guest.run.json(&format!("maps.{phase}"));
            let values = |map: &str| -> Vec<String> {
                let entries = maps[map].as_array().expect("a map");
                entries
                    .iter()
                    .map(|entry| entry[1].as_str().expect("a value").to_owned())
                    .collect()
            };
            assert_eq!(values("WAITING"), [""; 0], "{} after {phase}", guest.kernel);
            let initiated = values("LINK_INIT");
            assert!(
                !initiated.is_empty() && initiated.iter().all(|v| v.ends_with(NOT_PENDING)),
                "{} after {phase}: {initiated:?}",
                guest.kernel
            );
            // A repeated attempt leaves its link until the thread's next task ends. The link points nowhere.
            let ended = values("LINK_END");
            let dead = ended.iter().filter(|v| *v != NO_TASK).count();
            println!(
                "{} after {phase}: {dead} of {} threads with the link of a repeated attempt",
                guest.kernel,
                ended.len()
            );
            assert!(dead < ended.len(), "{ended:?}");
        }
    }
}
