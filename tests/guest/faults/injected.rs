//! One fault per file, injected by `nfsproxy.py` into the calls of `faults.py`.

use super::{Faults, GUESTS};
use crate::run::{Answer, answers, number};

const KIB: u64 = 1024;
/// Size of one call, and of the mounts' requests.
const BLOCK: u64 = 64 * KIB;

/// Expected result of a request that met a fault.
#[derive(Clone, Copy, Default)]
struct Expected {
    /// Number of requests; 0 if readahead decides it.
    requests: u64,
    bytes: u64,
    errors: u64,
    short: u64,
    /// Least wait of one of the requests, s; 0 if none waits.
    at_least: f64,
    /// The error that the application gets.
    errno: Option<&'static str>,
}

/// Expectations by name of the case and NFS version.
fn expected(case: &str, version: &str) -> Expected {
    let fine = Expected {
        requests: 1,
        bytes: BLOCK,
        ..Expected::default()
    };
    let failed = |errno| Expected {
        requests: 1,
        errors: 1,
        errno: Some(errno),
        ..Expected::default()
    };
    let continued = Expected {
        requests: 2,
        short: 1,
        ..fine
    };
    match case {
        "read_short" | "write_short" | "buffered_write_short" => continued,
        // Including the readahead of the plain call: all of the file.
        "buffered_read_short" => Expected {
            requests: 0,
            bytes: 3 * BLOCK,
            ..continued
        },
        // nfs_writeback_result: an unstable write is sent again completely, not just its rest. The call made two requests.
        "write_short_unstable" => Expected {
            requests: 3,
            bytes: 16 * KIB + 2 * BLOCK,
            ..continued
        },
        // NFS_JUKEBOX_RETRY_TIME and NFS4_POLL_RETRY_MIN: the back-off counts for the next attempt.
        "read_delay" | "write_delay" => Expected {
            at_least: if version == "3" { 5.0 } else { 0.1 },
            ..fine
        },
        // The proxy breaks the connection after 2 s, or the client's timeout of 2 s passes. With sessions, the server rejects the
        // retransmission (NFS4ERR_RETRY_UNCACHED_REP). The client then begins another attempt, which is the timed one.
        "read_dropped" | "write_dropped" | "read_timeout" | "write_timeout" => Expected {
            at_least: if has_sessions(version) { 0.0 } else { 2.0 },
            ..fine
        },
        _ => match case.rsplit_once('_') {
            Some((_, "eio")) => failed("EIO"),
            Some((_, "eacces")) => failed("EACCES"),
            Some((_, "estale")) => failed("ESTALE"),
            Some((_, "enospc")) => failed("ENOSPC"),
            Some((_, "edquot")) => failed("EDQUOT"),
            _ => panic!("{case} is a case of faults.py"),
        },
    }
}

fn has_sessions(version: &str) -> bool {
    matches!(version, "4.1" | "4.2")
}

/// One line of the report of `faults.py`.
struct Case {
    version: String,
    name: String,
    line: Answer,
}

impl Case {
    fn all(guest: &Faults) -> Vec<Self> {
        let lines = answers(&guest.run.text("cases"));
        assert!(lines.len() >= 30, "{}", guest.kernel);
        let case = |line: Answer| Self {
            version: line["version"].as_str().expect("a version").to_owned(),
            name: line["case"].as_str().expect("a name").to_owned(),
            line,
        };
        lines.into_iter().map(case).collect()
    }

    fn label(&self, guest: &Faults) -> String {
        format!("{} {} {}", guest.kernel, self.version, self.name)
    }

    fn mount(&self) -> String {
        format!("127.0.0.1:/exp/proxied-{}", self.version)
    }

    fn direction(&self) -> &'static str {
        if self.name.contains("write") {
            "write"
        } else {
            "read"
        }
    }

    fn buffered(&self) -> bool {
        self.name.starts_with("buffered")
    }

    fn expected(&self) -> Expected {
        expected(&self.name, &self.version)
    }

    /// `fault`, `same` or `other`.
    fn call(&self, what: &str) -> &serde_json::Value {
        let calls = self.line["calls"].as_array().expect("calls");
        let call = calls.iter().find(|call| call["what"] == what);
        call.unwrap_or_else(|| panic!("{} {what}", self.name))
    }

    fn seconds(&self, what: &str) -> f64 {
        self.call(what)["seconds"].as_f64().expect("a duration")
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_fault_took_place_once_and_the_application_saw_it() {
    for guest in GUESTS.iter() {
        let log = answers(&guest.run.text("injected"));
        for case in Case::all(guest) {
            let label = case.label(guest);
            let name = format!("{}/{}", case.version, case.name);
            let own: Vec<&Answer> = log
                .iter()
                .filter(|l| l.get("case").is_some_and(|c| *c == name))
                .collect();
            assert_eq!(own.len(), 1, "{label}: {own:?}");
            assert_eq!(number(own[0], "asked") as u64, BLOCK, "{label}");
            let again = |l: &&Answer| l["kind"] == "again" && l["xid"] == own[0]["xid"];
            assert_eq!(
                log.iter().any(|l| again(&l)),
                own[0]["kind"] == "drop",
                "{label}: retransmitted if dropped"
            );
            let expected = case.expected();
            let fault = case.call("fault");
            match expected.errno {
                Some(errno) => assert_eq!(fault["errno"], errno, "{label}"),
                None => assert_eq!(fault["intact"], true, "{label}: {fault}"),
            }
            for what in ["same", "other"] {
                let call = case.call(what);
                assert_eq!(
                    (&call["bytes"], &call["intact"]),
                    (&BLOCK.into(), &true.into()),
                    "{label}: {call}"
                );
            }
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_request_that_meets_a_fault_is_counted_once_per_completion() {
    for guest in GUESTS.iter() {
        let log = answers(&guest.run.text("injected"));
        for case in Case::all(guest) {
            let label = case.label(guest);
            let recorded = guest.recorded(
                &case.mount(),
                number(&case.line, "fileid"),
                case.direction(),
            );
            let counts = ["requests", "bytes", "errors", "short", "untimed"]
                .map(|column| recorded.count(column));
            let name = format!("{}/{}", case.version, case.name);
            let op = log
                .iter()
                .find(|l| l.get("case").is_some_and(|c| *c == name))
                .map(|l| l["op"].to_string());
            println!(
                "{label}: {}: {} requests, {} bytes, {} errors, {} short, longest {:.3} s of {:.3} s",
                op.unwrap_or_default(),
                counts[0],
                counts[1],
                counts[2],
                counts[3],
                recorded.longest(),
                case.seconds("fault")
            );
            let expected = case.expected();
            // Includes the plain request that follows.
            let requests = match expected.requests {
                0 => counts[0],
                some => some + 1,
            };
            assert_eq!(
                counts,
                [
                    requests,
                    expected.bytes + BLOCK,
                    expected.errors,
                    expected.short,
                    0
                ],
                "{label}: requests, bytes, errors, short, untimed"
            );
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_faults_latency_is_its_own_and_the_next_requests_is_not_its() {
    for guest in GUESTS.iter() {
        // Excludes buffered reads, because readahead overlaps with the next calls.
        for case in Case::all(guest).iter().filter(|case| !case.buffered()) {
            let label = case.label(guest);
            let expected = case.expected();
            let of = |column| {
                guest.recorded(&case.mount(), number(&case.line, column), case.direction())
            };
            let latencies = of("fileid").latencies();
            // The kernel counts back-offs in jiffies, which lag and catch up on a busy machine, so the call itself may take less. The lower
            // bound of a bucket is up to 2.2 % too low.
            let at_least = (expected.at_least * 0.97).min(case.seconds("fault") / 2.0);
            // One request belongs to the plain call and takes no longer than it. The others belong to the faulted call. They run one after
            // the other, except for the two requests of an unstable write.
            let fits = |plain: usize| {
                let (mut sum, mut longest): (f64, f64) = (0.0, 0.0);
                for (_, latency) in latencies.iter().enumerate().filter(|(i, _)| *i != plain) {
                    sum += latency;
                    longest = longest.max(*latency);
                }
                let parallel = case.name == "write_short_unstable";
                latencies[plain] <= case.seconds("same")
                    && if parallel { longest } else { sum } <= case.seconds("fault")
                    && longest >= at_least
            };
            assert!(
                (0..latencies.len()).any(fits),
                "{label}: {latencies:?}, calls {:?}",
                case.line["calls"]
            );
            let other = of("other_fileid");
            let counts = ["requests", "bytes", "errors", "short"].map(|column| other.count(column));
            assert_eq!(counts, [1, BLOCK, 0, 0], "{label}: the other file");
            assert!(other.longest() <= case.seconds("other"), "{label}");
        }
    }
}
