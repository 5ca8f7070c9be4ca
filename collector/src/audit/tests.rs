//! Tests of the audit protocol against a simulated kernel.

use proptest::prelude::*;
use trackiops_schemas::ebpf::ring::{FoldKey, FoldValue, RequestRecord, flags};
use trackiops_schemas::identity::Dev;
use zerocopy::FromZeros as _;

use super::*;
use crate::rollup::RequestStream;

const DEV: Dev = Dev(50);

/// A request as the kernel sees it. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
struct Played {
    start: u64,
    reply: u64,
    /// When the kernel adds it to its counters.
    counted: u64,
    /// When the programs stamp it.
    end: u64,
    bytes: u32,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Recorded,
    /// Recorded by an engine that does not know the parts of latencies.
    Unsplit,
    Untimed,
    Folded,
    /// Left out by a filter.
    LeftOut,
    Missed,
}

impl Played {
    fn transfers(&self) -> Transfers {
        Transfers::new((1, u64::from(self.bytes)), (0, 0))
    }

    fn record(&self) -> RequestRecord {
        let split = flags::UNSPLIT * u32::from(self.fate == Fate::Unsplit);
        RequestRecord {
            dev: DEV.0,
            done_bytes: self.bytes,
            end_ns: self.end * 1000,
            latency_ns: (self.end - self.start) * 1000,
            rtt_ns: (self.reply - self.start) * 1000,
            flags: split + flags::UNTIMED * u32::from(self.fate == Fate::Untimed),
            ..RequestRecord::default()
        }
    }
}

fn requests(most: usize) -> impl Strategy<Value = Vec<Played>> {
    let fate = prop_oneof![
        12 => Just(Fate::Recorded),
        2 => Just(Fate::Unsplit),
        1 => Just(Fate::Untimed),
        2 => Just(Fate::Folded),
        2 => Just(Fate::LeftOut),
        2 => Just(Fate::Missed),
    ];
    let times = (0_u64..10_000_000, 1_u64..5000, 0_u64..200, 0_u64..200);
    let request =
        (times, 0_u32..10_000, fate).prop_map(|((start, rtt, until, more), bytes, fate)| {
            let reply = start + rtt;
            let counted = reply + until;
            Played {
                start,
                reply,
                counted,
                end: counted + more,
                bytes,
                fate,
            }
        });
    prop::collection::vec(request, 0..most)
}

/// A simulated recorder.
struct Recording {
    audit: Audit,
    /// In the order of completion; those before the cursor are in rows.
    requests: Vec<Played>,
    cursor: usize,
    rows: Transfers,
    left_out: Transfers,
    booked: Transfers,
    alarms: u32,
}

impl Recording {
    fn new(mut requests: Vec<Played>, attached: u64) -> Self {
        requests.sort_by_key(|played| played.end);
        let cursor = requests.partition_point(|played| played.end < attached);
        Self {
            audit: Audit::new(MonotonicNs(attached * 1000), Levels::WIRE, false),
            requests,
            cursor,
            rows: Transfers::default(),
            left_out: Transfers::default(),
            booked: Transfers::default(),
            alarms: 0,
        }
    }

    fn kernel(&self, at: u64) -> Transfers {
        let mut kernel = Transfers::default();
        let counted = self.requests.iter().filter(|played| played.counted <= at);
        counted.for_each(|played| kernel.add(played.transfers()));
        kernel
    }

    /// The requests missed from `attached` on that the kernel had counted by `at`.
    fn missing(&self, attached: u64, at: u64) -> Transfers {
        let mut missing = Transfers::default();
        let missed = self.requests.iter().filter(|played| {
            played.fate == Fate::Missed && played.counted > attached && played.counted <= at
        });
        missed.for_each(|played| missing.add(played.transfers()));
        missing
    }

    /// Reads everything that completed by `until` into rows.
    fn drain(&mut self, until: u64) {
        while let Some(played) = self.requests.get(self.cursor)
            && played.end <= until
        {
            self.cursor += 1;
            match played.fate {
                Fate::Missed => continue,
                Fate::LeftOut => {
                    self.left_out.add(played.transfers());
                    continue;
                }
                Fate::Folded => {
                    let key = FoldKey {
                        dev: DEV.0,
                        ..FoldKey::new_zeroed()
                    };
                    let bytes = u64::from(played.bytes);
                    let sum = FoldValue {
                        requests: 1,
                        bytes,
                        ..FoldValue::default()
                    };
                    self.audit.see_folded(&key, &sum);
                }
                _ => {
                    let mut records = &[played.record()][..];
                    let mut watched = self.audit.watch(&mut records);
                    watched.pass(1);
                    assert!(watched.peek().is_empty());
                }
            }
            self.rows.add(played.transfers());
        }
    }

    /// Shows the audit the sums of the filter.
    fn see_left_out(&mut self, at: u64) {
        let mut sums = LeftOutSums::default();
        sums.by_device.insert(DEV, self.left_out);
        self.audit.see_left_out(MonotonicNs(at * 1000), sums);
    }

    /// Reads the counters between `began` and `ended`, and compares a moment later.
    fn look(&mut self, began: u64, read: u64, ended: u64) -> Comparison {
        self.drain(began);
        self.see_left_out(began);
        let mut look = Look::new(
            self.kernel(read),
            0,
            (MonotonicNs(began * 1000), MonotonicNs(ended * 1000)),
        );
        look.left_out = self.audit.left_out.counted(DEV);
        self.audit.looks.insert(DEV, look);
        self.drain(ended + 250_000);
        self.see_left_out(ended + 250_000);
        assert_eq!(
            self.audit
                .arrived(MonotonicNs((ended + 250_000) * 1000), false),
            [DEV]
        );
        let comparison = self.audit.compare(DEV, self.rows);
        self.booked.add(comparison.missed);
        self.alarms += u32::from(comparison.is_excess);
        comparison
    }
}

fn at_most(a: Transfers, b: Transfers) -> bool {
    a.min(b) == a
}

proptest! {
    /// Under any load and at any time of looking, the audit books only missing requests, each once, and books all
    /// of them once the load is quiet.
    #[test]
    fn what_is_missing_is_booked_once_and_nothing_else(
        requests in requests(400),
        attached in 0_u64..5_000_000,
        looks in prop::collection::vec((0_u64..400_000, 0_u64..100, 0_u64..100), 0..12),
    ) {
        let mut recording = Recording::new(requests, attached);
        // The first look is exact if no request is then between reply and completion.
        let is_quiet = |played: &Played| played.start > attached || played.end < attached;
        let is_exact = recording.requests.iter().all(is_quiet);
        let mut at = attached;
        recording.look(at, at, at);
        for (pause, until_read, until_end) in looks {
            let read = at + 250_000 + pause + until_read;
            recording.look(at + 250_000 + pause, read, read + until_end);
            let missing = recording.missing(attached, read);
            prop_assert!(at_most(recording.booked, missing), "{:?} {missing:?}", recording.booked);
            at = read + until_end;
        }
        let end = 11_000_000.max(at + 250_000);
        for pause in [0, 1_000_000, 2_000_000] {
            recording.look(end + pause, end + pause, end + pause);
        }
        let missing = recording.missing(attached, u64::MAX);
        prop_assert!(at_most(recording.booked, missing));
        prop_assert_eq!(recording.alarms, 0);
        if !is_exact {
            return Ok(());
        }
        prop_assert_eq!(recording.booked, missing);
        let mut all = recording.rows;
        all.add(recording.left_out);
        all.add(recording.booked);
        prop_assert_eq!(all, recording.kernel(u64::MAX).since(recording.kernel(attached)));
    }
}

/// Transfers of one direction.
fn reads(requests: u64, bytes: u64) -> Transfers {
    Transfers::new((requests, bytes), (0, 0))
}

fn look(kernel: Transfers, born_s: i64) -> Look {
    let at = MonotonicNs(200_000_000_000);
    Look::new(kernel, born_s, (at, at))
}

/// Compares a look with the rows of a window.
fn compare(audit: &mut Audit, kernel: Transfers, born_s: i64, rows: Transfers) -> Comparison {
    audit.looks.insert(DEV, look(kernel, born_s));
    audit.compare(DEV, rows)
}

fn audit() -> Audit {
    Audit::new(MonotonicNs(100_000_000_000), Levels::WIRE, false)
}

#[test]
fn a_difference_is_booked_when_two_looks_have_it() {
    let mut audit = audit();
    let base = compare(&mut audit, reads(1000, 9000), 7, reads(0, 0));
    assert_eq!((base.kernel, base.missed), (reads(0, 0), reads(0, 0)));
    let first = compare(&mut audit, reads(1010, 9100), 7, reads(8, 80));
    assert_eq!(
        (first.kernel, first.rows, first.missed),
        (reads(10, 100), reads(8, 80), reads(0, 0))
    );
    assert!(first.is_open && audit.follow_up());
    // One of the two requests was recorded later.
    let second = compare(&mut audit, reads(1020, 9200), 7, reads(19, 190));
    assert_eq!(second.missed, reads(1, 10));
    let third = compare(&mut audit, reads(1020, 9200), 7, reads(19, 190));
    assert_eq!((third.missed, third.is_open), (reads(0, 0), false));
    assert!(!audit.follow_up());
}

#[test]
fn rows_with_more_bytes_than_the_kernel_are_an_alarm_once() {
    let mut audit = audit();
    compare(&mut audit, reads(10, 100), 7, reads(0, 0));
    assert!(compare(&mut audit, reads(20, 200), 7, reads(11, 110)).is_excess);
    assert!(!compare(&mut audit, reads(30, 300), 7, reads(21, 210)).is_excess);
    assert!(compare(&mut audit, reads(40, 400), 7, reads(32, 320)).is_excess);
}

#[test]
fn requests_without_an_rpc_are_no_alarm() {
    // A block layout moves bytes without RPCs: the kernel counts bytes only.
    let mut audit = audit();
    compare(&mut audit, reads(10, 100), 7, reads(0, 0));
    let comparison = compare(&mut audit, reads(10, 300), 7, reads(20, 200));
    assert_eq!(
        (comparison.is_excess, comparison.missed),
        (false, reads(0, 0))
    );
    // If the programs were skipped for such a request, only bytes are booked.
    compare(&mut audit, reads(10, 310), 7, reads(20, 200));
    let booked = compare(&mut audit, reads(10, 310), 7, reads(20, 200)).missed;
    assert_eq!(booked, reads(0, 10));
    let again = compare(&mut audit, reads(10, 310), 7, reads(20, 200));
    assert_eq!((again.missed, again.is_excess), (reads(0, 0), false));
}

#[test]
fn a_mount_that_comes_is_compared_from_its_birth() {
    let mut audit = audit();
    let came = compare(&mut audit, reads(5, 500), 110, reads(4, 400));
    assert_eq!((came.kernel, came.rows), (reads(5, 500), reads(4, 400)));
    let booked = compare(&mut audit, reads(5, 500), 110, reads(4, 400)).missed;
    assert_eq!(booked, reads(1, 100));
}

#[test]
fn a_device_number_that_is_used_again_is_another_superblock() {
    let mut audit = audit();
    compare(&mut audit, reads(5, 500), 110, reads(5, 500));
    audit.follow_mounts(|_| false, || AHashMap::from([(DEV, reads(6, 600))]));
    // The device was seen without a mount in between: the new superblock's rows begin there.
    let next = compare(&mut audit, reads(2, 200), 150, reads(8, 800));
    assert_eq!((next.kernel, next.rows), (reads(2, 200), reads(2, 200)));
    assert!(!next.is_excess && !next.is_open);
    // It was not seen without a mount: rows before the first look cannot be assigned.
    let next = compare(&mut audit, reads(9, 900), 170, reads(10, 1000));
    assert_eq!((next.kernel, next.rows), (reads(0, 0), reads(0, 0)));
    let next = compare(&mut audit, reads(10, 1000), 170, reads(11, 1100));
    assert_eq!((next.kernel, next.rows), (reads(1, 100), reads(1, 100)));
}

#[test]
fn rows_of_a_predecessor_that_nobody_saw_are_no_alarm() {
    let mut audit = audit();
    let came = compare(&mut audit, reads(5, 500), 110, reads(9, 900));
    assert!(!came.is_excess);
    let next = compare(&mut audit, reads(6, 600), 110, reads(10, 1000));
    assert_eq!(
        (next.kernel, next.rows, next.is_excess),
        (reads(1, 100), reads(1, 100), false)
    );
}

#[test]
fn a_superblock_that_is_mounted_again_goes_on() {
    // `umount -l` with open files, or a remount that the mount table shows as another mount.
    let mut audit = audit();
    compare(&mut audit, reads(5, 500), 7, reads(0, 0));
    audit.follow_mounts(|_| false, || AHashMap::from([(DEV, reads(1, 100))]));
    let next = compare(&mut audit, reads(15, 1500), 8, reads(9, 900));
    assert_eq!((next.kernel, next.rows), (reads(10, 1000), reads(9, 900)));
    let booked = compare(&mut audit, reads(15, 1500), 7, reads(9, 900)).missed;
    assert_eq!(booked, reads(1, 100));
}

#[test]
fn counters_may_wrap_and_start_again() {
    let mut audit = audit();
    let near = u64::MAX - 50;
    compare(&mut audit, reads(1, near), 7, reads(0, 0));
    let wrapped = compare(
        &mut audit,
        reads(2, near.wrapping_add(100)),
        7,
        reads(1, 100),
    );
    assert_eq!((wrapped.kernel, wrapped.is_excess), (reads(1, 100), false));
    let again = compare(&mut audit, reads(1, 10), 7, reads(2, 110));
    assert_eq!(
        (again.kernel, again.missed, again.is_excess),
        (reads(0, 0), reads(0, 0), false)
    );
}

#[test]
fn looks_are_paced_by_what_they_cost() {
    let mut audit = audit();
    let second = |s: u64| MonotonicNs(s * 1_000_000_000);
    audit.look_at_once(second(100), &[]);
    assert_eq!(audit.next, second(160));
    audit.hasten();
    assert!(audit.next >= second(101) && audit.next < second(160));
    audit.last = (second(100), Duration::from_millis(20));
    audit.next = second(160);
    audit.hasten();
    assert_eq!(audit.next, second(150), "20 ms in 50 s are 0.04 %");
    audit.spend(Duration::from_millis(8));
    assert_eq!(audit.next, second(170), "comparisons cost, too");
}

#[test]
fn what_is_missed_while_reading_is_looked_for_soon() {
    let mut audit = audit();
    let second = |s: u64| MonotonicNs(s * 1_000_000_000);
    audit.begin(second(100), &[]);
    audit.hasten();
    audit.read_on(second(102), Duration::MAX);
    assert!(audit.next >= second(103) && audit.next < second(160));
}

#[test]
fn what_the_kernel_has_counted_and_the_programs_have_not_seen_yet_is_not_missing() {
    let at = |counted: u64| Played {
        start: counted - 500,
        reply: counted - 20,
        counted,
        end: counted + 100,
        bytes: 7,
        fate: Fate::Recorded,
    };
    let mut recording = Recording::new(vec![at(1_000_000), at(3_000_000)], 500_000);
    recording.look(500_000, 500_000, 500_000);
    for time in [1_000_010, 3_000_010, 5_000_000, 7_000_000] {
        let comparison = recording.look(time, time, time + 10);
        assert_eq!(
            (comparison.missed, comparison.is_excess),
            (reads(0, 0), false)
        );
    }
}

#[test]
fn looks_that_never_are_exact_are_not_repeated_forever() {
    let mut audit = audit();
    compare(&mut audit, reads(10, 100), 7, reads(0, 0));
    assert!(!audit.follow_up());
    let mut hastened = 0;
    for n in 1..30 {
        audit.next = MonotonicNs(u64::MAX);
        let mut look = look(reads(10 + n, 100 + n), 7);
        look.unsure = reads(1, 1);
        audit.looks.insert(DEV, look);
        assert!(audit.compare(DEV, reads(n, n)).is_open && audit.follow_up());
        hastened += u32::from(audit.next < MonotonicNs(u64::MAX));
        // Rounds without a comparison change nothing.
        assert!(!audit.follow_up());
    }
    assert_eq!(hastened, LOOKS_AGAIN);
}

#[test]
fn a_young_superblock_that_lost_a_mount_may_be_another_one() {
    let mut audit = audit();
    compare(&mut audit, reads(5, 500), 199, reads(5, 500));
    audit.doubt([DEV]);
    // The same age in whole seconds, and larger counters: possibly another superblock.
    let next = compare(&mut audit, reads(9, 900), 200, reads(20, 2000));
    assert_eq!(
        (next.kernel, next.missed, next.is_excess),
        (reads(0, 0), reads(0, 0), false)
    );
    // A superblock older than the last look is the same one.
    compare(&mut audit, reads(10, 1000), 150, reads(21, 2100));
    audit.doubt([DEV]);
    let same = compare(&mut audit, reads(12, 1200), 150, reads(23, 2300));
    assert_eq!(same.kernel, reads(2, 200));
}

#[test]
fn counters_of_requests_that_go_back_by_one_are_no_growth() {
    // The kernel adds a failed attempt first to the attempts, then to the errors.
    let mut audit = audit();
    compare(&mut audit, reads(11, 100), 7, reads(0, 0));
    let back = compare(&mut audit, reads(10, 100), 7, reads(0, 0));
    assert_eq!(
        (back.kernel, back.rows, back.missed, back.is_excess),
        (reads(0, 0), reads(0, 0), reads(0, 0), false)
    );
}

#[test]
fn an_exact_look_leaves_nothing_open_after_a_first_one_that_was_not() {
    let mut audit = audit();
    let mut first = look(reads(10, 100), 7);
    first.unsure = reads(1, 10);
    audit.looks.insert(DEV, first);
    assert!(audit.compare(DEV, reads(5, 50)).is_open && audit.follow_up());
    // The kernel had not counted that request yet. Another look cannot improve this.
    let exact = compare(&mut audit, reads(21, 210), 7, reads(15, 150));
    assert_eq!((exact.missed, exact.is_open), (reads(0, 0), false));
    assert!(!audit.follow_up());
    compare(&mut audit, reads(24, 240), 7, reads(15, 150));
    let booked = compare(&mut audit, reads(24, 240), 7, reads(15, 150)).missed;
    assert_eq!(booked, reads(3, 30));
}

#[test]
fn bookings_are_judged_when_all_that_was_missed_is_known() {
    let mut audit = audit();
    let second = |s: u64| MonotonicNs(s * 1_000_000_000);
    let judged = |audit: &mut Audit, s, explained, is_last| {
        let judgement = audit.judge(second(s), explained, is_last);
        assert_eq!(judgement.is_alarm, !judgement.of.is_empty());
        judgement.is_alarm
    };
    let book = |audit: &mut Audit, missed, s| {
        audit.lately.add(DEV, missed, missed);
        audit.book(missed, second(s));
    };
    book(&mut audit, reads(30, 3000), 100);
    book(&mut audit, reads(30, 3000), 104);
    assert!(!judged(&mut audit, 104, 0, false), "too early");
    assert!(!judged(&mut audit, 105, 30, false), "30 were skipped");
    assert!(
        !judged(&mut audit, 106, 30, false),
        "the others are judged later"
    );
    assert!(judged(&mut audit, 110, 30, false));
    assert!(!judged(&mut audit, 120, 30, true), "an alarm is given once");
    book(&mut audit, reads(20, 2000), 121);
    assert!(!judged(&mut audit, 121, 60, true));
}

#[test]
fn a_small_share_is_named_and_no_alarm() {
    let mut audit = audit();
    let second = |s: u64| MonotonicNs(s * 1_000_000_000);
    let missed = reads(12, 1200);
    audit.lately.add(DEV, reads(26_010, 2_601_000), missed);
    audit.book(missed, second(100));
    let judgement = audit.judge(second(110), 0, false);
    let [(dev, tally)] = judgement.of[..] else {
        panic!("{judgement:?}");
    };
    assert_eq!((dev, judgement.is_alarm), (DEV, false));
    assert_eq!((tally.booked, tally.kernel.requests()), (missed, 26_010));
}

#[test]
fn what_may_have_been_left_out_of_any_mount_is_not_missed() {
    let mut audit = audit();
    compare(&mut audit, reads(1000, 9000), 7, reads(0, 0));
    let sums = LeftOutSums {
        by_device: AHashMap::from([(DEV, reads(5, 50))]),
        of_others: reads(4, 40),
    };
    audit.see_left_out(MonotonicNs(201_000_000_000), sums);
    // Nine requests may have been left out, and ten are missing from rows.
    for _ in 0..2 {
        let found = compare(&mut audit, reads(1009, 9090), 7, reads(0, 0));
        assert_eq!((found.missed, found.is_excess), (reads(0, 0), false));
    }
    compare(&mut audit, reads(1010, 9100), 7, reads(0, 0));
    let found = compare(&mut audit, reads(1010, 9100), 7, reads(0, 0));
    assert_eq!((found.missed, found.is_excess), (reads(1, 10), false));
}
