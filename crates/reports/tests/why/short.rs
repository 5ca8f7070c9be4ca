//! Recordings of less than two minutes, whose slow time has much of them.

use trackiops_reports::why::{Cause, Confidence, Moment};
use trackiops_schemas::row::ClosedWindow;
use trackiops_testkit::incidents::{Second, Usual, nfs, office, recorded, usual};

use super::{first_victim, is_from_to, verdict};

/// Reads and writes of a file on a slow server, `times` as slow, with latencies of this spread.
fn slow_file(second: &mut Second, rate: f64, times: f64, spread: f64) {
    let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
    let now = |of: Usual| Usual {
        spread,
        ..of.more(rate).slower(times)
    };
    second.reads(&orders, now(usual(40.0, 8192, 8000.0)));
    second.writes(&orders, now(usual(15.0, 8192, 14_000.0)));
}

/// The only moment, within two seconds of these.
fn only_at(windows: Vec<ClosedWindow>, begin: i64, end: i64) -> Moment {
    is_from_to(&verdict(&[("h", windows)]), [begin, end], 2)
}

#[test]
fn slow_reads_of_nearly_half_a_short_recording() {
    let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
    let varying = Usual {
        spread: 0.8,
        ..usual(8.0, 8192, 4000.0)
    };
    for seed in [61, 64, 67, 69] {
        let windows = recorded(seed, 30, |number, second| {
            let is_slow = (15..28).contains(&number);
            second.reads(&orders, varying.slower(if is_slow { 6.0 } else { 1.0 }));
        });
        let of = only_at(windows, 15, 28);
        // 13 s of usual time are few.
        assert_eq!(
            (of.cause, of.confidence),
            (Cause::ServerOrNetwork, Confidence::Medium)
        );
    }
}

#[test]
fn what_is_slow_from_the_middle_to_the_end_of_a_short_recording() {
    for (seconds, confidence) in [
        (30, Confidence::Medium),
        (40, Confidence::Medium),
        (60, Confidence::High),
    ] {
        for seed in [44, 45] {
            let windows = recorded(seed, seconds, |number, second| {
                office(second, if number >= seconds / 2 { 6.0 } else { 1.0 });
            });
            let of = only_at(windows, seconds / 2, seconds);
            assert_eq!(
                (of.cause, of.confidence),
                (Cause::ServerOrNetwork, confidence)
            );
            assert!(of.lasts);
        }
    }
}

#[test]
fn a_few_far_slower_requests_after_a_short_quiet_time() {
    let page = nfs("nas:/data", "/srv/web/page", "1001:/web.service");
    let log = nfs("nas:/data", "/srv/log/app.log", "1006:/app.service");
    for seconds in [37, 50, 62] {
        let windows = recorded(48, seconds, |number, second| {
            let is_slow = (25..37).contains(&number);
            second.reads(&page, usual(70.0, 8192, 10_000.0).held_up());
            let times = if is_slow { 12.0 } else { 1.0 };
            second.reads(&log, usual(1.5, 8192, 10_000.0).slower(times).held_up());
        });
        let of = only_at(windows, 25, 37);
        assert_eq!(of.cause, Cause::OneFile);
        assert_eq!(first_victim(&of), "/srv/log/app.log");
    }
}

#[test]
fn nothing_is_slow_in_short_recordings_of_noise() {
    // Of a second of `all`.
    let shapes: [fn(i64, i64, &mut Second); 6] = [
        |_, _, second| slow_file(second, 1.0, 1.0, 1.0),
        |_, _, second| slow_file(second, 0.1, 1.0, 0.8),
        // Bursts, load by day and by night, work that is slow again and again, and a little more latency.
        |number, _, second| match number % 17 < 3 {
            true => slow_file(second, 8.0, 1.6, 0.4),
            false => slow_file(second, 1.0, 1.0, 0.4),
        },
        |number, all, second| {
            let by_day = (number as f64 / all as f64 * std::f64::consts::PI).sin();
            slow_file(second, 1.0 + 3.0 * by_day, 1.0 + by_day, 0.4);
        },
        |number, _, second| match (number / 5) % 2 == 1 {
            true => slow_file(second, 1.0, 3.0, 0.4),
            false => slow_file(second, 1.0, 1.0, 0.4),
        },
        |number, all, second| match number >= all / 2 {
            true => slow_file(second, 1.0, 1.4, 0.4),
            false => slow_file(second, 1.0, 1.0, 0.4),
        },
    ];
    for (shape, scene) in shapes.into_iter().enumerate() {
        for seconds in [20, 40, 60, 120] {
            for seed in 50..53 {
                let windows = recorded(seed, seconds, |number, second| {
                    scene(number, seconds, second);
                });
                let why = verdict(&[("h", windows)]);
                assert!(why.moments.is_empty(), "{shape} {seconds} {seed}");
            }
        }
    }
}

#[test]
fn what_is_slow_from_the_start_of_a_recording_is_never_sure() {
    for seconds in [20, 40, 60, 120] {
        for seed in [46, 47] {
            let first = |slow: i64| {
                let windows = recorded(seed, seconds, |number, second| {
                    let times = if number < slow { 6.0 } else { 1.0 };
                    slow_file(second, 1.0, times, 0.4);
                });
                verdict(&[("h", windows)]).moments
            };
            assert!(first(seconds).is_empty(), "{seconds} {seed}");
            assert!(first(seconds / 2).is_empty(), "{seconds} {seed}");
            let is_sure = |of: &Moment| of.confidence == Confidence::High;
            assert!(!first(4).iter().any(is_sure), "{seconds} {seed}");
        }
    }
}
