//! One fault per file, injected by `nfsproxy.py` into the calls of `faults.py`.

use super::{Faults, GUESTS};
use crate::run::{Answer, answers, number};

const KIB: u64 = 1024;
/// What one call asks for, and the size of the mounts' requests.
const BLOCK: u64 = 64 * KIB;

/// What the request that met a fault must come to.
#[derive(Clone, Copy, Default)]
struct Expected {
    /// Requests; 0 when it is for readahead to say.
    requests: u64,
    bytes: u64,
    errors: u64,
    short: u64,
    /// What one of the requests waits at least, s; 0 when it does not.
    at_least: f64,
    /// What the application gets.
    errno: Option<&'static str>,
}

/// By the name of the case and the NFS version.
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
        // With what the plain call reads ahead: all of the file.
        "buffered_read_short" => Expected {
            requests: 0,
            bytes: 3 * BLOCK,
            ..continued
        },
        // nfs_writeback_result: of an unstable write all is sent again, not the rest. Two requests
        // were asked for.
        "write_short_unstable" => Expected {
            requests: 3,
            bytes: 16 * KIB + 2 * BLOCK,
            ..continued
        },
        // NFS_JUKEBOX_RETRY_TIME, and NFS4_POLL_RETRY_MIN: the back-off belongs to the attempt after it.
        "read_delay" | "write_delay" => Expected {
            at_least: if version == "3" { 5.0 } else { 0.1 },
            ..fine
        },
        // The proxy breaks the connection after 2 s, or the client's timeout of 2 s passes. With sessions
        // the server does not answer the retransmission anew (NFS4ERR_RETRY_UNCACHED_REP), and the
        // client begins another attempt, which is the one that is timed.
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

/// One line of what `faults.py` reports.
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
            // The plain request after it, too.
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
        // Readahead overlaps its requests with the calls that follow.
        for case in Case::all(guest).iter().filter(|case| !case.buffered()) {
            let label = case.label(guest);
            let expected = case.expected();
            let of = |column| {
                guest.recorded(&case.mount(), number(&case.line, column), case.direction())
            };
            let latencies = of("fileid").latencies();
            // The kernel counts back-offs in jiffies, which lag behind and catch up on a busy machine:
            // the call itself may then take less. The lower bound of a bucket is up to 2.2 % too low.
            let at_least = (expected.at_least * 0.97).min(case.seconds("fault") / 2.0);
            // One of them is the plain request's, and no longer than its call took; what is left are
            // the faulted call's, one after the other but for the two requests of an unstable write.
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
