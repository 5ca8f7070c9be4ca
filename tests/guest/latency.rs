//! Recorded latency agrees with the RPC layer's and does not exceed the application's.

use std::sync::LazyLock;

use crate::run::{Answer, Run, kernel, long, number};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let seconds = if long() { "6" } else { "4" };
    Run::on(&kernel(), "latency", &[], &[seconds])
});

/// The rows of files of a mount whose names begin like this. The recorder may not know the names: not every kernel provides them.
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

/// Mean over both directions of a sum of times, us.
fn mean_us(answers: &[&Answer], sum_of: &str) -> f64 {
    let (mut sum, mut timed) = (0.0, 0.0);
    for answer in answers {
        for d in ["read", "write"] {
            sum += number(answer, &format!("{d}_{sum_of}"));
            timed +=
                number(answer, &format!("{d}_requests")) - number(answer, &format!("{d}_untimed"));
        }
    }
    sum / timed
}

/// Parts of the mean latency, us: waiting in the client, network and server, completion in the client.
fn parts_us(answers: &[&Answer]) -> [f64; 3] {
    let [whole, queue, rtt] =
        ["latency_us_sum", "queue_us_sum", "rtt_us_sum"].map(|sum| mean_us(answers, sum));
    [queue, rtt, whole - queue - rtt]
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
#[ignore = "boots a guest: make test-guests"]
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
        let files = about(&answers, "127.0.0.1:/exp", &files);
        let recorded = mean_us(&files, "latency_us_sum");
        let truth = &RUN.mountstats(&before, &name).mounts["/mnt/nfs"].1;
        let execute = truth.execute_ms_mean() * 1000.0;
        let fio = fio_us(&RUN.json(&format!("{name}.json")));
        println!("{jobs:>5} {recorded:>14.0} {execute:>18.0} {fio:>14.0}");
        // Some us of completion lie between mountstats' clock reading and ours. A busy machine may run something else in between. fio lays
        // out its files before it measures.
        let difference = (recorded - execute).abs();
        assert!(
            difference < execute * 0.1 + 50.0,
            "{jobs} jobs: recorded {recorded}, mountstats {execute}"
        );
        assert!(
            recorded < fio * 1.05,
            "{jobs} jobs: recorded {recorded}, fio {fio}"
        );
        // The RPC client itself sums these parts, in whole milliseconds.
        let [queue, rtt, _] = parts_us(&files);
        let [true_queue, true_rtt] =
            [truth.queue_ms_mean(), truth.rtt_ms_mean()].map(|ms| ms * 1000.0);
        println!(
            "      queue {queue:.0} of {true_queue:.0} us, network and server {rtt:.0} of {true_rtt:.0} us"
        );
        for (part, truth) in [(queue, true_queue), (rtt, true_rtt)] {
            assert!(
                (part - truth).abs() < truth * 0.02 + 10.0,
                "{jobs} jobs: {part} us recorded, {truth} us in mountstats"
            );
        }
        before = name;
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_server_that_is_far_away_makes_the_network_part_longer_and_no_other() {
    let answers = RUN.query(&["--step", "all"]);
    let [slow, fast] = [
        about(&answers, "127.0.0.2:/exp2", "/mnt/slow/alone.bin"),
        about(&answers, "127.0.0.1:/exp", "/mnt/nfs/alone.bin"),
    ]
    .map(|files| parts_us(&files));
    println!(
        "queue, network and server, completion, us: 20 ms away {slow:.0?}, at hand {fast:.0?}"
    );
    let grown: Vec<f64> = slow
        .iter()
        .zip(fast)
        .map(|(slow, fast)| slow - fast)
        .collect();
    // A busy host adds to it, and so do an emulated machine's timers.
    assert!((19_000.0..40_000.0).contains(&grown[1]), "{grown:?}");
    assert!(grown[0] < 2_000.0 && grown[2] < 2_000.0, "{grown:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_writers_that_wait_for_a_slot_make_the_queue_longer() {
    let answers = RUN.query(&["--step", "all"]);
    let [one, many] = ["/mnt/few/few1.", "/mnt/few/few64."]
        .map(|files| parts_us(&about(&answers, "127.0.0.1:/exp3", files)));
    println!(
        "queue, network and server, completion, us: one writer {one:.0?}, 64 writers {many:.0?}"
    );
    let whole: f64 = many.iter().sum();
    assert!(many[0] > whole * 0.8, "{many:?}");
    assert!(many[1] < one[1] * 4.0 + 1_000.0, "{one:?} {many:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_request_tells_its_parts_and_they_add_up() {
    let (mut parts, mut direct) = (0, 0.0);
    for answer in RUN.query(&["--step", "1s"]) {
        for d in ["read", "write"] {
            let of = |name: &str| number(&answer, &format!("{d}_{name}"));
            assert_eq!(of("unsplit"), 0.0, "{answer:?}");
            if answer[&format!("{d}_latency_us_mean")].is_null() {
                continue;
            }
            let sum = of("queue_us_mean") + of("rtt_us_mean") + of("completion_us_mean");
            // Figures have three decimals.
            assert!((sum - of("latency_us_mean")).abs() < 0.003, "{answer:?}");
            assert!(of("queue_us_sum") + of("rtt_us_sum") <= of("latency_us_sum") + 1.0);
            assert!(of("direct") <= of("requests"), "{answer:?}");
            direct += of("direct");
            parts += 1;
        }
    }
    assert!(parts > 10 && direct > 1000.0, "{parts} {direct}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_parts_of_latencies_are_left_out_when_asked_and_nothing_else_is() {
    // Both saw the same requests and bytes.
    assert_eq!(RUN.disagreements(), [] as [String; 0]);
    let answers = Run::query_store(&RUN.out.join("beside"), &["--step", "all"]);
    assert!(!answers.is_empty());
    for answer in answers {
        for d in ["read", "write"] {
            let of = |name: &str| number(&answer, &format!("{d}_{name}"));
            assert_eq!(of("unsplit"), of("requests") - of("untimed"), "{answer:?}");
            assert_eq!((of("queue_us_sum"), of("rtt_us_sum")), (0.0, 0.0));
            assert!(answer[&format!("{d}_queue_us_mean")].is_null());
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
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
        let median = |answer| number(answer, &format!("{d}_latency_us_p50")) / 1000.0;
        let (slow_median, fast_median) = (median(slow), median(fast));
        println!(
            "{d}: slow at least {:.1} ms, medians {slow_median:.1} and {fast_median:.1} ms",
            least(slow, d)
        );
        // 10 ms there and 10 ms back; a bucket's lower bound is up to 2.2 % below its content.
        assert!(
            least(slow, d) >= 20.0 * 0.978,
            "a fast latency was booked on the slow file"
        );
        assert!(
            least(fast, d) < 20.0 && fast_median < slow_median - 10.0,
            "slow latencies were booked on the fast file"
        );
        assert!(
            number(slow, &format!("{d}_requests")) > 100.0
                && number(fast, &format!("{d}_requests")) > 100.0
        );
    }
}
