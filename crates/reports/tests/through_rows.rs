//! `noisy` and `slow` on recorded rows in a store.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use trackiops_query::{Question, Range};
use trackiops_reports::network_or_server::Split;
use trackiops_reports::noisy::{self, Verdict};
use trackiops_reports::slow;
use trackiops_schemas::identity::FileKey;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::incidents::{
    SECONDS, at, is_planted, local, noisy_neighbour, office, recorded, slow_network, usual,
};
use trackiops_testkit::questions::question;
use trackiops_testkit::queueing::{Day, windows};
use trackiops_testkit::stores::{options_of, record};
use trackiops_testkit::windows::{granularity, used_by};

/// Midnight, 2026-11-21.
const T0: i64 = 1_795_219_200_000;

fn stored(windows: &[ClosedWindow]) -> (tempfile::TempDir, Question) {
    stored_as("10s,1m", windows)
}

fn stored_as(granularities: &str, windows: &[ClosedWindow]) -> (tempfile::TempDir, Question) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    record(&store, options_of("h", granularities, "2h"), windows);
    let question = Question {
        now: UtcMs(T0 + 2 * 86_400_000),
        ..question(&store)
    };
    (dir, question)
}

#[test]
fn a_neighbour_is_found_in_what_was_recorded() {
    let all = &["tenant", "file", "dir"][..];
    for (neighbour, seed, kinds) in [(true, 131, all), (false, 132, &["tenant"])] {
        let day = Day {
            seed,
            neighbour,
            seconds: 86_400,
        };
        let (windows, truth) = windows(day, T0, 10_000);
        let (_dir, question) = stored(&windows);
        for by in kinds.iter().copied() {
            let made = noisy::report::make(&question, by.parse().unwrap(), granularity("10s"));
            let report = made.unwrap().unwrap();
            let rows = &report.candidates.answer.rows;
            assert_eq!(rows.len(), truth.tenants);
            let named = rows
                .iter()
                .filter(|row| row.evidence.verdict == Verdict::Named);
            let names: Vec<_> = named.map(|row| row.subject.name.to_string()).collect();
            let planted = truth.neighbour.map(|of| match by {
                "tenant" => format!("{}:/t{of}.slice", 1000 + of),
                "file" => format!("/mnt/t{of}/data"),
                _ => format!("/mnt/t{of}"),
            });
            assert_eq!(names, Vec::from_iter(planted), "{by}");
        }
    }
}

#[test]
fn a_slow_time_is_described() {
    let day = Day {
        seed: 133,
        neighbour: false,
        seconds: 7200,
    };
    let (mut windows, _) = windows(day, T0, 10_000);
    // From 01:30:00 to 01:40:00 every read of one tenant waits a second longer for the server.
    const LONGER_NS: u64 = 1_000_000_000;
    let sufferer = |of: &trackiops_schemas::row::FileRow| of.file.tenant.uid == Some(1001);
    let mut added_requests = 0;
    for window in &mut windows[540..600] {
        for row in window.rows.iter_mut().filter(|row| sufferer(row)) {
            let read = &mut row.row.read;
            added_requests += read.requests;
            read.latency_ns_sum += LONGER_NS * read.requests;
            read.rtt_ns_sum += LONGER_NS * read.requests;
            read.retrans += read.requests;
        }
        // A new tenant.
        let mut new = window.rows[0].clone();
        new.file = used_by(&new.file, "4711:/new.slice");
        new.row.read.latency.record(1);
        window.rows.insert(1, new);
    }
    let (_dir, mut question) = stored(&windows);
    question.range = Range {
        since: Some(UtcMs(T0 + 3_600_000)),
        until: Some(UtcMs(T0 + 7_200_000)),
    };
    let made = slow::report::make(&question, None, granularity("10s"));
    let report = made.unwrap().unwrap();
    let times = &report.times.answer.rows;
    // The simulated server has other slow times; this one adds most time.
    let shown: Vec<_> = times
        .iter()
        .map(|of| (of.time.start.0 - T0, of.time.end.0 - T0))
        .collect();
    assert_eq!(
        shown[0],
        (5_400_000, 6_000_000),
        "{:?}",
        report.about.remarks
    );
    let (before, now) = (times[0].before.parts.unwrap(), times[0].now.parts.unwrap());
    assert!(now.rtt_us > before.rtt_us + 100_000.0, "{before:?} {now:?}");
    assert!((now.queue_us - before.queue_us).abs() < 50_000.0);
    let tenants: Vec<_> = report
        .sufferers
        .answer
        .rows
        .iter()
        .filter(|of| of.kind == "tenant")
        .collect();
    assert_eq!(tenants[0].subject.tenant.uid, Some(1001));
    let figures = tenants[0].figures;
    assert!(
        figures.iops > 0.0 && figures.throughput > 0.0,
        "{figures:?}"
    );
    let added_s = tenants[0].suffering.added_s.unwrap();
    assert!(
        (added_s / added_requests as f64 - 1.0).abs() < 0.2,
        "{added_s} of {added_requests}"
    );
    let notable = report
        .changes
        .answer
        .rows
        .iter()
        .filter(|of| of.change.is_notable);
    let notable: Vec<_> = notable.map(|of| of.change.what).collect();
    assert!(
        notable.contains(&"retransmissions per request"),
        "{notable:?}"
    );
    let new = report
        .changes
        .answer
        .rows
        .iter()
        .find(|of| of.change.what == "new tenants");
    assert_eq!(new.unwrap().change.now, Some(1.0));
    let named = new.unwrap().which.as_deref();
    assert!(named.is_some_and(|name| !name.is_empty()), "{named:?}");
    // The time after it matches the time before.
    question.range.since = Some(UtcMs(T0 + 6_100_000));
    question.range.until = Some(UtcMs(T0 + 7_100_000));
    let baseline = trackiops_query::coverage::Interval::new(UtcMs(T0), UtcMs(T0 + 3_600_000));
    let made = slow::report::make(&question, Some(baseline), granularity("10s"));
    let report = made.unwrap().unwrap();
    assert!(report.times.answer.rows.is_empty());
    assert!(
        report
            .about
            .remarks
            .iter()
            .any(|of| of == "srv:/export: nothing was slow")
    );
}

/// The baseline is of the level of the range, although another level comes first there.
#[test]
fn a_range_is_compared_with_a_baseline_of_its_level() {
    let orders = local("/dev/sdb1", "/data/db/orders.db", "/db.service");
    let windows = recorded(40, SECONDS, |number, second| {
        if number < 300 {
            office(second, 1.0);
        }
        let times = if is_planted(number) { 8.0 } else { 1.0 };
        second.reads(&orders, usual(60.0, 8192, 250.0).slower(times));
    });
    let (_dir, mut question) = stored_as("1s,10s", &windows);
    question.range = Range {
        since: Some(at(450)),
        until: Some(at(750)),
    };
    let made = slow::report::make(&question, None, granularity("10s"));
    let report = made.unwrap().unwrap();
    let times = &report.times.answer.rows;
    let found: Vec<_> = times.iter().map(|of| (&*of.mount, of.time.start)).collect();
    assert_eq!(
        found,
        [("/dev/sdb1", at(600))],
        "{:?}",
        report.about.remarks
    );
    let mut sufferers = report.sufferers.answer.rows.iter();
    let of = sufferers.find(|of| of.kind == "tenant").unwrap();
    assert!(of.suffering.before_us.is_some(), "{of:?}");
}

#[test]
fn requests_of_devices_that_no_probe_saw_have_no_remark() {
    let orders = local("/dev/sdb1", "/data/db/orders.db", "/db.service");
    let windows = recorded(2, SECONDS, |number, second| {
        second.reads(&orders, usual(60.0, 8192, 250.0));
        if number == 605 {
            second.missed();
        }
    });
    let (_dir, mut question) = stored_as("1s,10s", &windows);
    question.range.since = Some(at(600));
    let made = slow::report::make(&question, None, granularity("10s"));
    let remarks = made.unwrap().unwrap().about.remarks;
    let of_mounts = remarks.iter().filter(|remark| remark.contains(": "));
    let of_mounts: Vec<_> = of_mounts.skip(1).collect();
    assert_eq!(of_mounts, ["/dev/sdb1: nothing was slow"], "{remarks:?}");
}

#[test]
fn a_slow_network_is_told_from_a_slow_server() {
    let split = |windows: &[ClosedWindow]| {
        let (_dir, mut question) = stored_as("1s,10s", windows);
        question.range = Range {
            since: Some(at(450)),
            until: Some(at(750)),
        };
        let made = slow::report::make(&question, None, granularity("10s"));
        let report = made.unwrap().unwrap();
        let of = report.times.answer.rows[0].clone();
        assert_eq!((&*of.mount, of.time.start), ("nas:/data", at(600)));
        of.network_or_server.unwrap().split
    };
    let mut windows = slow_network();
    assert_eq!(split(&windows), Split::Network);
    windows.iter_mut().for_each(|window| window.ops.clear());
    assert_eq!(split(&windows), Split::FewReadings);
}

/// The new tenant takes 13 times the time that the others lose.
#[test]
fn others_are_slow_beside_a_new_tenant_that_takes_nearly_all_time() {
    let (_dir, mut question) = stored_as("1s,10s", &noisy_neighbour());
    question.range = Range {
        since: Some(at(600)),
        until: Some(at(900)),
    };
    let made = slow::report::make(&question, None, granularity("10s"));
    let report = made.unwrap().unwrap();
    let of = &report.times.answer.rows[0];
    assert_eq!((&*of.mount, of.time.start), ("nas:/data", at(600)));
    assert!((20.0..30.0).contains(&of.added_s), "{of:?}");
}

/// Reports on a short recording say what has enough intervals.
#[test]
fn a_short_recording_has_a_next_step() {
    let day = Day {
        seed: 131,
        neighbour: true,
        seconds: 300,
    };
    let (mut windows, _) = windows(day, T0, 10_000);
    {
        let (_dir, question) = stored(&windows);
        let made = slow::report::make(&question, None, granularity("10s"));
        let remarks = made.unwrap().unwrap().about.remarks;
        let few = "srv:/export: the baseline has 0 of the 12 intervals of 10s with requests that it needs";
        assert!(remarks.iter().any(|of| of == few), "{remarks:?}");
        let last = remarks.last().unwrap();
        assert!(last.contains("add --since '2026-11-21 00:0"), "{last}");
        assert!(last.ends_with("--interval 10s"), "{last}");
        let baseline = trackiops_query::coverage::Interval::new(UtcMs(T0 - 60_000), UtcMs(T0));
        let made = slow::report::make(&question, Some(baseline), granularity("10s"));
        let remarks = made.unwrap().unwrap().about.remarks;
        let last = remarks.last().unwrap();
        assert!(last.contains("--baseline: at least 2.33 min"), "{last}");
        let made = noisy::report::make(&question, "tenant".parse().unwrap(), granularity("10s"));
        let remarks = made.unwrap().unwrap().about.remarks;
        let last = remarks.last().unwrap();
        assert!(last.contains("too few intervals of 10s: "), "{last}");
        // Seconds are not stored.
        assert!(
            last.ends_with("180 are needed; record for at least 30.67 min"),
            "{last}"
        );
    }
    // Requests to devices have no tenant.
    for row in windows.iter_mut().flat_map(|window| &mut window.rows) {
        let mut file = (*row.file).clone();
        file.tenant = Default::default();
        row.file = file.into();
    }
    let (_dir, question) = stored(&windows);
    let made = noisy::report::make(&question, "tenant".parse().unwrap(), granularity("10s"));
    let report = made.unwrap().unwrap();
    let last = report.about.remarks.last().unwrap();
    assert!(last.ends_with("--by file compares files"), "{last}");
    let row = &report.candidates.answer.rows[0];
    assert_eq!(
        row.evidence.verdict,
        Verdict::Unknown(noisy::Reason::NoTenants)
    );
}

/// What a report advises works.
#[test]
fn a_shorter_interval_is_advised_if_it_has_enough() {
    let day = Day {
        seed: 131,
        neighbour: true,
        seconds: 300,
    };
    let last = |question: &Question, baseline, length: &str| {
        let made = slow::report::make(question, baseline, granularity(length));
        made.unwrap().unwrap().about.remarks.pop().unwrap()
    };
    let noise = |question: &Question, length: &str| {
        let by = "tenant".parse().unwrap();
        let made = noisy::report::make(question, by, granularity(length));
        made.unwrap().unwrap().about.remarks.pop().unwrap()
    };
    let (mut windows, _) = windows(day, T0, 1000);
    {
        let (_dir, question) = stored_as("1s,10s", &windows);
        // A tenant makes fewer than 5 requests/s.
        for length in ["10s", "20s"] {
            let remark = noise(&question, length);
            assert!(
                remark.ends_with("the others make too few requests: take a longer range"),
                "{remark}"
            );
        }
    }
    for row in windows.iter_mut().flat_map(|window| &mut window.rows) {
        let once = row.row.clone();
        (1..20).for_each(|_| row.row.merge(&once));
    }
    let (_dir, mut question) = stored_as("1s,10s", &windows);
    for length in ["10s", "20s"] {
        let remark = noise(&question, length);
        assert!(
            remark.ends_with("180 are needed; --interval 1s has enough"),
            "{remark}"
        );
    }
    let remark = noise(&question, "1s");
    assert!(!remark.contains("too few intervals"), "{remark}");
    question.range.since = Some(UtcMs(T0 + 150_000));
    let remark = last(&question, None, "20s");
    assert_eq!(
        remark,
        "with --interval 10s the baseline has enough intervals"
    );
    let remark = last(&question, None, "10s");
    assert!(!remark.contains("--interval"), "{remark}");
    let baseline = trackiops_query::coverage::Interval::new(UtcMs(T0), UtcMs(T0 + 9000));
    let remark = last(&question, Some(baseline), "1s");
    let expected = "name a longer time with requests with --baseline: at least 14 s";
    assert_eq!(remark, expected);
}

/// A neighbour's load on one export slows requests for another export: the server counts as a separate place.
#[test]
fn a_server_is_a_place_if_it_has_several_mounts() {
    let day = Day {
        seed: 131,
        neighbour: true,
        seconds: 86_400,
    };
    let (mut windows, truth) = windows(day, T0, 10_000);
    let planted = truth.neighbour.unwrap();
    let other =
        |of: &trackiops_schemas::row::FileRow| of.file.tenant.uid == Some(1000 + planted as u32);
    for row in windows.iter_mut().flat_map(|window| &mut window.rows) {
        if other(row) {
            let mut file = (*row.file).clone();
            let mount = Some("srv:/other");
            file.key = FileKey::new(mount, file.id);
            file.mount = mount.map(Into::into);
            row.file = file.into();
        }
    }
    windows
        .iter_mut()
        .for_each(|window| window.rows.sort_by_key(|row| row.file.key));
    let (_dir, question) = stored(&windows);
    for by in ["tenant", "mount"] {
        let made = noisy::report::make(&question, by.parse().unwrap(), granularity("10s"));
        let report = made.unwrap().unwrap();
        let rows = report.candidates.answer.rows.iter();
        let named: Vec<_> = rows
            .filter(|row| row.evidence.verdict == Verdict::Named)
            .collect();
        assert_eq!(named.len(), 1, "{by}: {:?}", report.about.remarks);
        assert_eq!((&*named[0].server, &named[0].mount), ("srv", &None));
        let name = match by {
            "tenant" => format!("{}:/t{planted}.slice", 1000 + planted),
            _ => "srv:/other".to_owned(),
        };
        assert_eq!(*named[0].subject.name, *name);
    }
}
