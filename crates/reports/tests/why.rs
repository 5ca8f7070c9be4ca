//! `why` names the planted cause, moment, culprit and victims; and reports nothing where nothing was planted.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

#[path = "why/short.rs"]
mod short;

use std::path::Path;
use std::sync::Arc;

use trackiops_query::{FileSelector, Question, Range};
use trackiops_reports::network_or_server::Split;
use trackiops_reports::why::track::Kind;
use trackiops_reports::why::{Cause, Confidence, Moment, Why, make};
use trackiops_schemas::row::ClosedWindow;
use trackiops_testkit::incidents::{
    self, BEGIN, END, SECONDS, Usual, at, backup_requests, disk, in_windows, is_planted, local,
    nfs, office, office_of, office_over, recorded, slow_network, slow_server, usual, written_over,
};
use trackiops_testkit::questions::question;
use trackiops_testkit::stores::{options_of, record, record_with_requests};
use trackiops_testkit::windows::{connection, stalled};

fn verdict(hosts: &[(&str, Vec<ClosedWindow>)]) -> Why {
    verdict_of(hosts, Range::default())
}

fn verdict_of(hosts: &[(&str, Vec<ClosedWindow>)], range: Range) -> Why {
    verdict_about(hosts, range, &[])
}

/// About files below these directories; about all without any.
fn verdict_about(hosts: &[(&str, Vec<ClosedWindow>)], range: Range, dirs: &[&str]) -> Why {
    let dir = tempfile::tempdir().unwrap();
    for (host, windows) in hosts {
        record(
            &dir.path().join(host),
            options_of(host, "1s,10s,1m", "1h"),
            windows,
        );
    }
    let question = Question {
        stores: hosts
            .iter()
            .map(|(host, _)| dir.path().join(host))
            .collect(),
        range,
        files: dirs
            .iter()
            .map(|dir| FileSelector::below(Path::new(dir)).unwrap())
            .collect(),
        ..question(dir.path())
    };
    let why = make(&question).unwrap().unwrap();
    for of in &why.moments {
        eprintln!(
            "{}..{} {:?} {:?} {:?} {:?} lost {:.1} s, {:?}; {:?}",
            (of.time.start.0 - at(0).0) as f64 / 1000.0,
            (of.time.end.0 - at(0).0) as f64 / 1000.0,
            of.mounts,
            of.kinds,
            of.cause,
            of.confidence,
            of.lost_s,
            of.victims.iter().take(2).collect::<Vec<_>>(),
            of.facts,
        );
    }
    why
}

/// The first moment. It must lie from [`BEGIN`] to [`END`], within two seconds.
fn planted(windows: Vec<ClosedWindow>) -> Moment {
    let why = verdict(&[("h", windows)]);
    is_at(&why, 2)
}

fn is_at(why: &Why, within_s: i64) -> Moment {
    is_from_to(why, [BEGIN, END], within_s)
}

fn is_from_to(why: &Why, [begin, end]: [i64; 2], within_s: i64) -> Moment {
    let first = why.moments.first().expect("nothing was found");
    let off = |time: i64, second: i64| (time - at(second).0).abs() <= 1000 * within_s;
    assert!(off(first.time.start.0, begin), "{:?}", first.time);
    assert!(off(first.time.end.0, end), "{:?}", first.time);
    assert_eq!(why.moments.len(), 1, "more than was planted");
    first.clone()
}

fn first_victim(of: &Moment) -> &str {
    &of.victims.first().expect("no victim").name
}

fn culprit(of: &Moment) -> &str {
    of.culprit.as_ref().expect("no culprit").owner.name()
}

#[test]
fn a_noisy_neighbour_on_a_mount() {
    let of = planted(incidents::noisy_neighbour());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Neighbour, Confidence::High)
    );
    assert_eq!(culprit(&of), "/srv/scratch/backup.tar");
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
    assert!(of.ratio.unwrap() > 5.0);
    // Of both there are the same figures. The culprit did nothing before: its lost time is unknown.
    let load = of.culprit.as_ref().unwrap();
    assert!((300e6..500e6).contains(&load.figures.throughput));
    assert!((300.0..500.0).contains(&load.figures.iops));
    assert_eq!(load.lost_s, None);
    let victim = &of.victims[0];
    assert!((40.0..70.0).contains(&victim.figures.iops));
    assert!(victim.figures.p99_us.unwrap() > victim.now_us.unwrap());
}

#[test]
fn a_culprit_has_its_process_where_single_requests_were_kept() {
    let windows = incidents::noisy_neighbour();
    let dir = tempfile::tempdir().unwrap();
    let options = options_of("h", "1s,10s,1m", "1h");
    record_with_requests(dir.path(), options, &windows, &backup_requests());
    let why = make(&question(dir.path())).unwrap().unwrap();
    let process = is_at(&why, 2).process.expect("no process");
    assert_eq!((&*process.name, process.pid), ("tar", 4711));
    assert_eq!(process.cgroup.as_deref(), Some("/backup.service"));
    assert_eq!(planted(windows.clone()).process, None);
    // Requests of the last third say little about the whole time.
    let mut late = backup_requests();
    late.requests.drain(..400);
    let dir = tempfile::tempdir().unwrap();
    let options = options_of("h", "1s,10s,1m", "1h");
    record_with_requests(dir.path(), options, &windows, &late);
    let why = make(&question(dir.path())).unwrap().unwrap();
    assert_eq!(is_at(&why, 2).process, None);
}

#[test]
fn a_noisy_neighbour_on_a_device() {
    let of = planted(incidents::noisy_neighbour_on_a_device());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Neighbour, Confidence::High)
    );
    assert_eq!(culprit(&of), "/data/scratch/backup.tar");
    assert_eq!(first_victim(&of), "/data/db/orders.db");
}

#[test]
fn requests_of_devices_that_no_probe_saw_are_no_place_of_their_own() {
    let windows = recorded(2, SECONDS, |number, second| {
        disk(second, if is_planted(number) { 8.0 } else { 1.0 });
        if number == BEGIN + 5 {
            second.missed();
        }
    });
    let why = verdict(&[("h", windows)]);
    is_at(&why, 2);
    assert!(why.unknown.is_empty(), "{:?}", why.unknown);
}

#[test]
fn commits_of_a_large_transfer_are_no_storm() {
    let backup = nfs("nas:/data", "/srv/scratch/backup.tar", "0:/backup.service");
    let of = planted(recorded(2, SECONDS, |number, second| {
        office(second, if is_planted(number) { 30.0 } else { 1.0 });
        if is_planted(number) {
            second.writes(&backup, usual(50.0, 262_144, 500_000.0));
            second.operations(&backup, "COMMIT", usual(13.0, 0, 20_000.0));
        }
    }));
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Neighbour, Confidence::High)
    );
    assert_eq!(culprit(&of), "/srv/scratch/backup.tar");
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
}

/// A database that only reads, and a backup that is there for the planted time alone. Its own writes vary.
fn reader_and_backup() -> Vec<ClosedWindow> {
    let orders = local("/dev/sdb1", "/data/db/orders.db", "/db.service");
    let backup = local("/dev/sdb1", "/data/scratch/backup.tar", "/backup.service");
    recorded(2, SECONDS, |number, second| {
        let times = if is_planted(number) { 30.0 } else { 1.0 };
        second.reads(&orders, usual(100.0, 4096, 200.0).slower(times));
        let us = match number - BEGIN {
            0..15 => 10_000.0,
            15..50 => 25_000.0,
            _ => 12_000.0,
        };
        if is_planted(number) {
            second.writes(&backup, usual(1000.0, 1 << 20, us));
        }
    })
}

#[test]
fn a_load_that_was_not_there_before_is_no_victim_of_itself() {
    let of = planted(reader_and_backup());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Neighbour, Confidence::High)
    );
    assert_eq!(culprit(&of), "/data/scratch/backup.tar");
    assert_eq!(first_victim(&of), "/data/db/orders.db");
    assert_eq!(of.all_victims, 1);
}

#[test]
fn a_neighbour_that_waits_for_itself_is_no_victim() {
    let backup = nfs("nas:/data", "/srv/scratch/backup.tar", "0:/backup.service");
    let windows = recorded(2, SECONDS, |number, second| {
        let is_on = is_planted(number);
        office(second, if is_on { 10.0 } else { 1.0 });
        // It is there before, too, and then its requests add up to more lost time than the database's.
        let (rate, us) = if is_on {
            (400.0, 9700.0)
        } else {
            (2.0, 9000.0)
        };
        second.writes(&backup, usual(rate, 1 << 20, us));
    });
    let why = verdict(&[("h", windows)]);
    let of = why.moments.first().expect("nothing was found");
    assert_eq!(of.cause, Cause::Neighbour);
    assert_eq!(culprit(of), "/srv/scratch/backup.tar");
    assert_eq!(first_victim(of), "/srv/db/orders.db");
    let is_victim = |name: &str| of.victims.iter().any(|victim| *victim.name == *name);
    assert!(!is_victim(culprit(of)));
    assert!(of.culprit.as_ref().unwrap().lost_s.is_some());
}

#[test]
fn a_neighbour_is_found_by_who_asks_about_the_victim_alone() {
    let hosts = [("h", reader_and_backup())];
    let why = verdict_about(&hosts, Range::default(), &["/data/db"]);
    let of = is_at(&why, 2);
    assert_eq!(of.cause, Cause::Neighbour);
    assert_eq!(culprit(&of), "/data/scratch/backup.tar");
    assert_eq!(first_victim(&of), "/data/db/orders.db");
}

#[test]
fn a_server_that_is_slower_for_all() {
    let of = planted(incidents::slower_server());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::ServerOrNetwork, Confidence::High)
    );
    assert_eq!(of.facts.split(), Some(Split::FewReadings));
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
}

#[test]
fn a_moment_begins_with_the_first_kind_of_work_that_is_slow() {
    let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
    let of = planted(recorded(3, SECONDS, |number, second| {
        let reads = if is_planted(number) { 20.0 } else { 1.0 };
        // They lose more, and later.
        let is_late = (BEGIN + 4..END).contains(&number);
        let writes = if is_late { 30.0 } else { 1.0 };
        second.reads(&orders, usual(40.0, 8192, 400.0).slower(reads));
        second.writes(&orders, usual(40.0, 8192, 700.0).slower(writes));
    }));
    assert_eq!(of.cause, Cause::ServerOrNetwork);
    assert_eq!(of.kinds, [Kind::Read, Kind::Write]);
}

#[test]
fn one_file_that_is_slower_by_far_than_others() {
    let log = nfs("nas:/data", "/srv/log/app.log", "1006:/app.service");
    for (others, cause) in [(1.25, Cause::OneFile), (2.5, Cause::ServerOrNetwork)] {
        let of = planted(recorded(3, SECONDS, |number, second| {
            let [others, own] = match is_planted(number) {
                true => [others, 40.0],
                false => [1.0, 1.0],
            };
            office(second, others);
            second.writes(&log, usual(8.0, 4096, 800.0).slower(own));
        }));
        assert_eq!((of.cause, of.confidence), (cause, Confidence::Medium));
        assert_eq!(first_victim(&of), "/srv/log/app.log");
    }
}

#[test]
fn the_queue_of_one_client() {
    // The database does ten times as much, and its requests wait before they are sent.
    let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
    let page = nfs("nas:/data", "/srv/web/page", "1001:/web.service");
    let of = planted(recorded(4, SECONDS, |number, second| {
        let usual_reads = usual(40.0, 8192, 400.0);
        let queued = Usual {
            parts: [0.9, 0.08],
            ..usual_reads.more(10.0).slower(8.0)
        };
        second.reads(
            &orders,
            if is_planted(number) {
                queued
            } else {
                usual_reads
            },
        );
        second.reads(&page, usual(10.0, 16_384, 500.0));
    }));
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::OwnLoad, Confidence::High)
    );
    assert_eq!(culprit(&of), "/srv/db/orders.db");
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
}

#[test]
fn a_client_that_is_slow_to_send_or_to_complete() {
    for (parts, cause) in [
        ([0.85, 0.1], Cause::ClientQueue),
        ([0.05, 0.15], Cause::ClientCpu),
    ] {
        let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
        let of = planted(recorded(5, SECONDS, |number, second| {
            let usual = usual(60.0, 8192, 400.0);
            let starved = Usual {
                parts,
                ..usual.slower(6.0)
            };
            second.reads(&orders, if is_planted(number) { starved } else { usual });
        }));
        assert_eq!(of.cause, cause);
        assert_ne!(of.confidence, Confidence::High);
    }
}

#[test]
fn calls_that_take_longer_than_their_requests() {
    let orders = local("/dev/sdb1", "/data/db/orders.db", "/db.service");
    let of = planted(recorded(5, SECONDS, |number, second| {
        let late_us = if is_planted(number) { 20_000 } else { 40 };
        second.late_calls(&orders, usual(40.0, 8192, 400.0), late_us);
    }));
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::ClientCpu, Confidence::Medium)
    );
    assert_eq!(of.kinds, [Kind::ReadCall]);
    assert_eq!(first_victim(&of), "/data/db/orders.db");
}

#[test]
fn a_server_whose_neighbour_waits_long_does_answer() {
    let mut windows = incidents::noisy_neighbour();
    for window in &mut windows[BEGIN as usize + 5..END as usize - 5] {
        window.health.pending = Some(stalled("10.0.0.5", "nas:/data", 11_000, 64));
    }
    let of = planted(windows);
    assert_eq!(of.cause, Cause::Neighbour);
}

#[test]
fn a_server_that_does_not_answer_and_returns() {
    let of = planted(incidents::stall());
    assert_eq!((of.cause, of.confidence), (Cause::Stall, Confidence::High));
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
}

#[test]
fn a_device_that_stands_still_and_returns() {
    let orders = local("/dev/sdb1", "/data/db/orders.db", "/db.service");
    let of = planted(recorded(7, SECONDS, |number, second| match number {
        BEGIN..659 => {}
        659 => second.reads(&orders, usual(30.0, 8192, 59e6).held_up()),
        _ => disk(second, 1.0),
    }));
    assert_eq!((of.cause, of.confidence), (Cause::Stall, Confidence::High));
}

#[test]
fn requests_that_are_sent_again() {
    let of = planted(incidents::retransmissions());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Retransmissions, Confidence::High)
    );
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
}

#[test]
fn requests_that_fail_as_fast_as_ever() {
    let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
    let of = planted(recorded(9, SECONDS, |number, second| {
        let errors = if is_planted(number) { 12 } else { 0 };
        second.faulty(&orders, usual(50.0, 8192, 400.0), errors, 0);
    }));
    assert_eq!((of.cause, of.confidence), (Cause::Errors, Confidence::High));
}

#[test]
fn a_cache_that_went_cold() {
    let of = planted(incidents::cold_cache());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::ColdCache, Confidence::High)
    );
}

#[test]
fn a_storm_of_metadata_operations() {
    let of = planted(incidents::metadata_storm());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::MetadataStorm, Confidence::High)
    );
    assert!(culprit(&of).contains("build"), "{:?}", of.culprit);
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
}

#[test]
fn a_storm_of_syncs() {
    let of = planted(incidents::sync_storm());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::SyncStorm, Confidence::High)
    );
    assert_eq!(culprit(&of), "/data/queue/log");
}

#[test]
fn files_that_begin_with_a_storm_are_no_victims_of_it() {
    let of = planted(recorded(12, SECONDS, |number, second| {
        office(second, if is_planted(number) { 5.0 } else { 1.0 });
        for log in 0..6 {
            // As large as the requests of others, and more of them.
            let log = nfs("nas:/data", &format!("/srv/queue/log{log}"), "7:/queue");
            if is_planted(number) {
                second.writes(&log, usual(20.0, 8192, 5000.0));
                second.operations(&log, "COMMIT", usual(7.0, 0, 20_000.0));
            }
        }
    }));
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::SyncStorm, Confidence::High)
    );
    assert_eq!(culprit(&of), "/srv/queue");
    assert_eq!(first_victim(&of), "/srv/db/orders.db");
    let is_own = |name: &str| name.starts_with("/srv/queue");
    assert!(!of.victims.iter().any(|victim| is_own(&victim.name)));
}

#[test]
fn one_slow_file_of_ten_thousand() {
    let of = planted(incidents::one_slow_file());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::OneFile, Confidence::High)
    );
    assert_eq!(first_victim(&of), "/srv/img/11/4711");
}

#[test]
fn a_tenant_that_grows_slowly() {
    let why = verdict(&[("h", incidents::growing_tenant())]);
    let of = why.moments.first().expect("nothing was found");
    assert!(
        matches!(of.cause, Cause::Neighbour | Cause::OwnLoad),
        "{:?}",
        of.cause
    );
    assert!(culprit(of).contains("crawl"), "{:?}", of.culprit);
    assert!(of.lasts && of.time.start > at(300), "{:?}", of.time);
}

#[test]
fn larger_requests_take_longer_and_that_is_all() {
    let video = nfs("nas:/data", "/srv/video/raw", "1004:/encode.service");
    let of = planted(recorded(15, SECONDS, |number, second| {
        match is_planted(number) {
            true => second.reads(&video, usual(20.0, 1 << 20, 6400.0)),
            false => second.reads(&video, usual(60.0, 131_072, 800.0)),
        }
    }));
    assert_eq!(of.cause, Cause::Pattern);
}

#[test]
fn nothing_is_slow_on_quiet_days() {
    for seed in 20..23 {
        let quiet = recorded(seed, SECONDS, |_, second| office(second, 1.0));
        assert!(verdict(&[("h", quiet)]).moments.is_empty(), "{seed}");
        let quiet = recorded(seed, SECONDS, |_, second| disk(second, 1.0));
        assert!(verdict(&[("h", quiet)]).moments.is_empty(), "{seed}");
    }
}

/// A hundred files, each with more load by day than by night, and in bursts.
#[test]
fn nothing_is_slow_on_a_quiet_day_of_a_hundred_files() {
    let files: Vec<_> = (0..100)
        .map(|number| nfs("nas:/data", &format!("/srv/home/{number}"), "7:/w"))
        .collect();
    let day = in_windows(27, 60, 1440, |minute, second| {
        let by_day = 1.0 + 3.0 * (minute as f64 / 1440.0 * std::f64::consts::PI).sin();
        for (place, file) in files.iter().enumerate() {
            let burst = if (minute + 7 * place as i64) % 97 == 0 {
                8.0
            } else {
                1.0
            };
            let own = 200.0 + 9.0 * place as f64;
            second.reads(file, usual(2.0 * by_day * burst, 4096 << (place % 6), own));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("h", "1m,10m", "6h"), &day);
    let question = Question {
        range: Range {
            since: Some(at(0)),
            until: None,
        },
        ..question(dir.path())
    };
    assert!(make(&question).unwrap().unwrap().moments.is_empty());
}

#[test]
fn a_batch_that_harms_nobody_is_nothing() {
    let backup = nfs("nas:/data", "/srv/scratch/backup.tar", "0:/backup.service");
    let harmless = recorded(30, SECONDS, |number, second| {
        office(second, 1.0);
        if is_planted(number) {
            second.writes(&backup, usual(300.0, 1 << 20, 15_000.0));
        }
    });
    assert!(verdict(&[("h", harmless)]).moments.is_empty());
}

#[test]
fn work_that_starts_slowly_shows_no_cause_for_sure() {
    let log = nfs("nas:/data", "/srv/queue/log", "1005:/queue.service");
    let why = verdict(&[(
        "h",
        recorded(30, SECONDS, |number, second| {
            let is_first = (BEGIN..BEGIN + 2).contains(&number);
            office(second, if is_first { 3.0 } else { 1.0 });
            let commits = match is_first {
                true => usual(22.0, 0, 50_000.0),
                false => usual(300.0, 0, 8000.0),
            };
            if is_planted(number) {
                second.operations(&log, "COMMIT", commits);
            }
        }),
    )]);
    let is_sure = |of: &Moment| of.confidence == Confidence::High;
    assert!(!why.moments.iter().any(is_sure));
}

#[test]
fn hosts_are_told_apart() {
    // The culprit is on one host, the victims on another.
    let backup = nfs("nas:/data", "/srv/scratch/backup.tar", "0:/backup.service");
    let one = recorded(31, SECONDS, |number, second| {
        office(second, if is_planted(number) { 6.0 } else { 1.0 });
    });
    let two = recorded(32, SECONDS, |number, second| {
        let log = nfs("nas:/data", "/srv/log/two", "0:/log.service");
        second.writes(&log, usual(10.0, 4096, 500.0));
        if is_planted(number) {
            second.writes(&backup, usual(500.0, 1 << 20, 9000.0));
        }
    });
    let why = verdict(&[("one", one), ("two", two)]);
    let of = is_at(&why, 2);
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Neighbour, Confidence::High)
    );
    assert!(
        of.hosts.iter().any(|host| &**host == "one"),
        "{:?}",
        of.hosts
    );
    assert_eq!(&**of.culprit.as_ref().unwrap().owner.host(), "two");
    // A device belongs to one host.
    let one = recorded(33, SECONDS, |number, second| {
        disk(second, if is_planted(number) { 5.0 } else { 1.0 });
    });
    let two = recorded(34, SECONDS, |_, second| disk(second, 1.0));
    let of = is_at(&verdict(&[("one", one), ("two", two)]), 2);
    assert_eq!(of.cause, Cause::Device);
    assert_eq!(of.hosts, [Arc::from("one")]);
}

#[test]
fn several_levels_are_not_added_up() {
    let of = planted(recorded(35, SECONDS, |number, second| {
        office(second, 1.0);
        disk(second, if is_planted(number) { 5.0 } else { 1.0 });
    }));
    assert_eq!(of.cause, Cause::Device);
    assert_eq!(of.mounts, [Arc::from("/dev/sdb1")]);
}

#[test]
fn several_servers_at_once_share_something() {
    let why = verdict(&[(
        "h",
        recorded(36, SECONDS, |number, second| {
            let times = if is_planted(number) { 5.0 } else { 1.0 };
            office_of(second, "nas:/data", times);
            office_of(second, "filer:/home", times);
        }),
    )]);
    assert_eq!(why.moments.len(), 2);
    let causes = why.moments.iter().map(|of| of.cause);
    assert!(causes.into_iter().all(|of| of == Cause::SeveralServers));
}

#[test]
fn a_network_that_delays_and_loses_segments() {
    let of = planted(slow_network());
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Network, Confidence::Medium)
    );
    let tcp = of.facts.network_or_server.unwrap().tcp.unwrap();
    let [before_us, now_us] = tcp.rtt_us;
    assert!((before_us - 400.0).abs() < 1.0 && (38_000.0..=41_000.0).contains(&now_us));
    assert_eq!(tcp.retrans_share[0], 0.0);
    assert!((0.028..=0.031).contains(&tcp.retrans_share[1]));
}

#[test]
fn a_server_behind_a_quick_network() {
    let of = planted(slow_server(420));
    assert_eq!(
        (of.cause, of.confidence),
        (Cause::Server, Confidence::Medium)
    );
    // Who asks about a file learns the same.
    let why = verdict_about(&[("h", slow_server(420))], Range::default(), &["/srv/db"]);
    assert_eq!(is_at(&why, 2).cause, Cause::Server);
}

#[test]
fn a_server_may_acknowledge_as_late_as_it_answers() {
    let of = planted(slow_server(9000));
    assert_eq!(of.cause, Cause::ServerOrNetwork);
    assert_eq!(of.facts.split(), Some(Split::DelayedAcks));
}

#[test]
fn connections_of_others_show_nothing() {
    // The network to another server is slow, and its mount is not.
    let other = |is_on: bool, own: Option<u64>| {
        let (us, rtt_us, retrans) = if is_on {
            (14_000, 41_000, 31)
        } else {
            (700, 400, 0)
        };
        let mut ops = vec![
            written_over("tcp-0", "nas:/data", us),
            written_over("tcp-1", "filer:/home", 700),
            connection("tcp-1", rtt_us, retrans, 1000),
        ];
        ops.extend(own.map(|rtt_us| connection("tcp-0", rtt_us, 0, 1000)));
        ops
    };
    let of = planted(office_over(20.0, |is_on| other(is_on, Some(400))));
    assert_eq!(of.cause, Cause::Server);
    let of = planted(office_over(20.0, |is_on| other(is_on, None)));
    assert_eq!(of.cause, Cause::ServerOrNetwork);
    assert_eq!(of.facts.split(), Some(Split::FewReadings));
}

/// Like `watch`: asks again and again about the last minutes.
#[test]
fn it_is_found_as_long_as_it_goes_on() {
    let windows = &incidents::noisy_neighbour()[420..];
    for until in (612..=660).step_by(8) {
        let range = Range {
            since: Some(at(until - 300)),
            until: Some(at(until)),
        };
        let why = verdict_of(&[("h", windows.to_vec())], range);
        let first = why.moments.first();
        let of = first.unwrap_or_else(|| panic!("nothing at {until}"));
        assert_eq!(
            (of.cause, of.confidence),
            (Cause::Neighbour, Confidence::High),
            "{until}"
        );
        assert!(of.lasts, "{until}");
    }
}

#[test]
fn a_range_of_the_incident_alone_is_compared_with_the_time_before() {
    let range = Range {
        since: Some(at(BEGIN)),
        until: Some(at(END)),
    };
    let why = verdict_of(&[("h", incidents::noisy_neighbour())], range);
    assert_eq!(is_at(&why, 2).cause, Cause::Neighbour);
    let range = Range {
        since: Some(at(0)),
        until: Some(at(BEGIN)),
    };
    let why = verdict_of(&[("h", incidents::noisy_neighbour())], range);
    assert!(why.moments.is_empty());
}
