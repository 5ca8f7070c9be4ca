//! Recorded latency agrees with the RPC layer's and does not exceed the application's.

use std::sync::LazyLock;

use crate::run::{Answer, Run, number};

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("latency", &[]));

/// What was recorded of the files of a mount whose names begin so. The recorder need not know the
/// names: not every kernel tells them.
fn about<'a>(answers: &'a [Answer], mount: &str, name: &str) -> Vec<&'a Answer> {
    let files = RUN.files();
    let fileids: Vec<u64> = files
        .iter()
        .filter(|(path, _)| path.starts_with(name))
        .map(|(_, fileid)| *fileid)
        .collect();
    let own = |a: &&Answer| {
        a["mount"] == mount && a["fileid"].as_u64().is_some_and(|id| fileids.contains(&id))
    };
    answers.iter().filter(own).collect()
}

/// Mean latency over both directions, us.
fn mean_us(answers: &[&Answer]) -> f64 {
    let (mut sum, mut timed) = (0.0, 0.0);
    for answer in answers {
        for d in ["read", "write"] {
            sum += number(answer, &format!("{d}_latency_us_sum"));
            timed +=
                number(answer, &format!("{d}_requests")) - number(answer, &format!("{d}_untimed"));
        }
    }
    sum / timed
}

/// fio's mean completion latency over both directions, us.
fn fio_us(report: &serde_json::Value) -> f64 {
    let job = &report["jobs"][0];
    let (mut sum, mut count) = (0.0, 0.0);
    for d in ["read", "write"] {
        let ios = job[d]["total_ios"].as_f64().unwrap_or(0.0);
        sum += ios * job[d]["clat_ns"]["mean"].as_f64().unwrap_or(0.0);
        count += ios;
    }
    sum / count / 1000.0
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_mean_latency_agrees_with_mountstats_and_stays_below_fio() {
    let answers = RUN.query(&["--step", "all"]);
    println!(
        "{:>5} {:>14} {:>18} {:>14}",
        "jobs", "recorded us", "mountstats us", "fio clat us"
    );
    let mut before = "before".to_owned();
    for jobs in [1, 8, 64] {
        let name = format!("lat{jobs}");
        let files = format!("/mnt/nfs/{name}.");
        let recorded = mean_us(&about(&answers, "127.0.0.1:/exp", &files));
        let truth = &RUN.mountstats(&before, &name).mounts["/mnt/nfs"].1;
        let execute = truth.execute_ms_mean() * 1000.0;
        let fio = fio_us(&RUN.json(&format!("{name}.json")));
        println!("{jobs:>5} {recorded:>14.0} {execute:>18.0} {fio:>14.0}");
        // Between mountstats' reading of the clock and ours lie some us of completion, in which a busy
        // machine may run something else; the files are laid out before fio measures.
        let difference = (recorded - execute).abs();
        assert!(
            difference < execute * 0.05 + 20.0,
            "{jobs} jobs: recorded {recorded}, mountstats {execute}"
        );
        assert!(
            recorded < fio * 1.05,
            "{jobs} jobs: recorded {recorded}, fio {fio}"
        );
        before = name;
    }
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_a_slow_and_a_fast_file_never_swap_latencies() {
    let answers = RUN.query(&["--step", "all"]);
    let of = |mount: &str, path: &str| match about(&answers, mount, path)[..] {
        [answer] => answer,
        ref others => panic!("{path} was recorded once, not: {others:?}"),
    };
    let slow = of("127.0.0.2:/exp2", "/mnt/slow/slow.bin");
    let fast = of("127.0.0.1:/exp", "/mnt/nfs/fast.bin");
    // The shortest latency, by the lower bound of the lowest bucket, ms.
    let least = |answer: &Answer, d: &str| {
        let histogram = answer[&format!("{d}_latency_hist")]
            .as_array()
            .expect("a histogram");
        let bucket = histogram
            .iter()
            .filter_map(|b| b["bucket"].as_i64())
            .min()
            .expect("requests");
        (bucket as f64 / 32.0).exp2() / 1000.0
    };
    for d in ["read", "write"] {
        let fast_median = number(fast, &format!("{d}_latency_us_p50")) / 1000.0;
        println!(
            "{d}: slow at least {:.1} ms, fast median {fast_median:.1} ms",
            least(slow, d)
        );
        // 10 ms there and 10 ms back; a bucket's lower bound is up to 2.2 % below its content.
        assert!(
            least(slow, d) >= 20.0 * 0.978,
            "a fast latency was booked on the slow file"
        );
        assert!(
            fast_median < 20.0,
            "slow latencies were booked on the fast file"
        );
        assert!(
            number(slow, &format!("{d}_requests")) > 100.0
                && number(fast, &format!("{d}_requests")) > 100.0
        );
    }
}
