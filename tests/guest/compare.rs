//! Two recordings of the same requests, by different engines.

use std::collections::BTreeMap;

use crate::run::{Answer, MISSED, number};

/// Counts that must be equal in both recordings. Excludes counts that depend on the order of starts: two clocks need not agree on the order
/// of requests that begin at once.
const COUNTS: [&str; 5] = ["requests", "bytes", "errors", "short", "untimed"];

/// Differences between two answers about everything (`--step all`), by file. Each recorder states how many requests it may have missed at
/// most.
pub fn disagreements(own: &[Answer], other: &[Answer], missed: [u64; 2]) -> Vec<String> {
    let mut missed = missed.map(|most| most as f64);
    let (own, other) = (by_key(own), by_key(other));
    let mut found = Vec::new();
    for (key, answer) in &own {
        let Some(twin) = other.get(key) else {
            found.push(format!("only one has {answer:?}"));
            continue;
        };
        for direction in ["read", "write"] {
            let of = |answer: &Answer, what: &str| number(answer, &format!("{direction}_{what}"));
            let surplus = of(answer, "requests") - of(twin, "requests");
            let missed = &mut missed[usize::from(surplus > 0.0)];
            let are_missed = surplus != 0.0 && surplus.abs() <= *missed;
            if are_missed {
                *missed -= surplus.abs();
            }
            for count in COUNTS {
                let (a, b) = (of(answer, count), of(twin, count));
                // A recorder that missed a request's start has no latency for it.
                let is_excused = are_missed && (count == "untimed" || (a > b) == (surplus > 0.0));
                if a != b && !is_excused {
                    found.push(format!("{}: {direction}_{count} {a} and {b}", name(answer)));
                }
            }
            // One recorder starts its clock some us earlier and reads it some us later. In between, a busy machine may run something else.
            let timed = of(answer, "requests") - of(answer, "untimed");
            let mean = |answer: &Answer| of(answer, "latency_us_sum") / timed.max(1.0);
            let (a, b) = (mean(answer), mean(twin));
            if !are_missed && timed >= 100.0 && (a - b).abs() > a.max(b) * 0.05 + 50.0 {
                found.push(format!(
                    "{}: mean {direction} latency {a:.0} and {b:.0} us",
                    name(answer)
                ));
            }
        }
    }
    found.extend(
        other
            .iter()
            .filter(|(key, _)| !own.contains_key(*key))
            .map(|(_, answer)| format!("only the other has {answer:?}")),
    );
    found
}

/// Only rows of files: requests that only the kernel counted are in no file's row, nor are those that both recorders missed.
fn by_key(answers: &[Answer]) -> BTreeMap<i64, &Answer> {
    let key = |answer: &Answer| answer["file_key"].as_i64().expect("a key");
    let files = answers.iter().filter(|answer| answer["path"] != MISSED);
    files.map(|answer| (key(answer), answer)).collect()
}

fn name(answer: &Answer) -> String {
    format!("{} of {}", answer["fileid"], answer["mount"])
}
