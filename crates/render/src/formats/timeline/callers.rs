//! Finds the calls that a request was made for: calls under way when it began, or for a write, calls that wrote its bytes before.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use super::Place;

/// Most remembered calls, about 150 bytes each. Beyond that, the older half is forgotten.
const MOST_CALLS: usize = 1 << 20;
/// Most calls that are examined for a request.
const MOST_LOOKED_AT: usize = 1 << 14;
/// Length of a stretch of a file, whose writes are listed together.
const STRETCH_BYTES: i64 = 1 << 20;
/// Most calls that a request has arrows from.
const MOST_CALLERS: usize = 64;

/// Kind of operation of a call or a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Read,
    Write,
    Sync,
    /// An operation that moves no bytes.
    Other,
}

impl Does {
    /// The kind of an operation's name.
    pub fn of(op: &str) -> Self {
        match op {
            "read" | "READ" => Self::Read,
            "write" | "WRITE" => Self::Write,
            "fsync" => Self::Sync,
            _ => Self::Other,
        }
    }
}

/// The host's number and the file's key. Both are needed, because hosts share NFS files.
pub type FileOfHost = (usize, i64);

/// A call or a request: its operation, bytes and time, ns since the epoch.
#[derive(Clone)]
pub struct Deed {
    pub file: FileOfHost,
    pub does: Does,
    /// Its bytes, if known.
    pub bytes: Option<Range<i64>>,
    pub start_ns: i64,
    pub end_ns: i64,
    /// Its process, if known.
    pub process: Option<i64>,
}

impl Deed {
    /// Whether both ranges are known and overlap.
    fn overlaps(&self, other: &Self) -> bool {
        let both = self.bytes.as_ref().zip(other.bytes.as_ref());
        both.is_some_and(|(own, other)| own.start < other.end && other.start < own.end)
    }
}

/// A call, and its position in the timeline.
#[derive(Clone)]
pub struct Call {
    pub deed: Deed,
    pub thread: Option<i64>,
    pub place: Place,
}

/// The calls that a request was made for.
pub struct Callers<'c> {
    pub calls: Vec<&'c Call>,
    /// It may have been made for other calls, or only for some of these.
    pub is_ambiguous: bool,
    /// There may be more callers, which were forgotten or not examined.
    pub is_partial: bool,
}

/// Recent calls by file.
#[derive(Default)]
pub struct RecentCalls {
    files: HashMap<FileOfHost, CallsOfFile>,
    count: usize,
    /// The latest end of a forgotten call.
    forgotten_ns: Option<i64>,
}

/// Recent calls of a file, in order of their ends.
#[derive(Default)]
struct CallsOfFile {
    calls: VecDeque<Call>,
    /// Number of calls that were forgotten before the first one.
    first: usize,
    longest_ns: i64,
    /// Numbers of writes by stretch of the file.
    writes: HashMap<i64, VecDeque<usize>>,
}

impl RecentCalls {
    /// Remembers a call that has returned. Calls must come in order of their ends.
    pub fn add(&mut self, call: Call) {
        if self.count >= MOST_CALLS {
            self.forget();
        }
        let file = self.files.entry(call.deed.file).or_default();
        file.add(call);
        self.count += 1;
    }

    /// Whether no call was added yet.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Forgets the older half.
    fn forget(&mut self) {
        let all = self.files.values().flat_map(|file| &file.calls);
        let mut ends: Vec<_> = all.map(|call| call.deed.end_ns).collect();
        let middle = ends.len() / 2;
        let until_ns = *ends.select_nth_unstable(middle).1;
        self.files.retain(|_, file| {
            file.forget(until_ns);
            !file.calls.is_empty()
        });
        self.count = self.files.values().map(|file| file.calls.len()).sum();
        self.forgotten_ns = Some(until_ns);
    }

    /// The calls that a request was made for.
    pub fn callers_of(&self, request: &Deed) -> Callers<'_> {
        let mut search = Search {
            left: MOST_LOOKED_AT,
        };
        let file = self.files.get(&request.file);
        let mut calls = file.map_or_else(Vec::new, |file| file.under_way(request, &mut search));
        if calls
            .iter()
            .any(|call| call.deed.process == request.process)
        {
            calls.retain(|call| call.deed.process == request.process);
        }
        let is_sync = |call: &Call| call.deed.does == Does::Sync;
        let mut is_ambiguous = false;
        if calls.iter().any(|call| call.deed.overlaps(request)) {
            calls.retain(|call| is_sync(call) || call.deed.overlaps(request));
        } else if request.bytes.is_some() {
            // It may be read-ahead.
            is_ambiguous = calls.iter().any(|call| !is_sync(call));
        }
        let was_forgotten = |since_ns| self.forgotten_ns.is_some_and(|ns| ns >= since_ns);
        let mut is_partial = was_forgotten(request.start_ns);
        let mut threads = calls.iter().filter(|call| !is_sync(call));
        if let Some(first) = threads.next() {
            is_ambiguous |= threads.any(|call| call.thread != first.thread);
        } else if request.does == Does::Write {
            let (written, is_all) = match file {
                Some(file) => file.last_writers(request, &mut search),
                None => (Vec::new(), false),
            };
            is_partial |= !is_all && was_forgotten(i64::MIN);
            is_ambiguous |= request.bytes.is_none() && written.len() > 1;
            let drawn = if request.bytes.is_none() {
                1
            } else {
                MOST_CALLERS
            };
            calls.extend(written.into_iter().take(drawn));
        }
        is_partial |= search.left == 0 || calls.len() > MOST_CALLERS;
        calls.truncate(MOST_CALLERS);
        Callers {
            calls,
            is_ambiguous,
            is_partial,
        }
    }
}

/// Counts how many calls may still be examined for a request.
struct Search {
    left: usize,
}

impl Search {
    fn may_look(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

impl CallsOfFile {
    fn add(&mut self, call: Call) {
        let deed = &call.deed;
        self.longest_ns = self.longest_ns.max(deed.end_ns - deed.start_ns);
        if deed.does == Does::Write {
            let number = self.first + self.calls.len();
            for stretch in deed.bytes.iter().flat_map(stretches) {
                self.writes.entry(stretch).or_default().push_back(number);
            }
        }
        self.calls.push_back(call);
    }

    /// Forgets calls that ended up to then.
    fn forget(&mut self, until_ns: i64) {
        let gone = self.ended(until_ns);
        self.calls.drain(..gone);
        self.first += gone;
        self.writes.retain(|_, numbers| {
            let gone = numbers.partition_point(|number| *number < self.first);
            numbers.drain(..gone);
            !numbers.is_empty()
        });
    }

    /// Number of calls that ended up to then.
    fn ended(&self, until_ns: i64) -> usize {
        self.calls
            .partition_point(|call| call.deed.end_ns <= until_ns)
    }

    /// Calls that may have caused a request and were under way when it began, the newest first.
    fn under_way(&self, request: &Deed, search: &mut Search) -> Vec<&Call> {
        let begin_ns = request.start_ns;
        // Calls that ended later than this began after the request.
        let until = self.ended(begin_ns.saturating_add(self.longest_ns));
        let from = self.ended(begin_ns.saturating_sub(1));
        let is_due = |call: &Call| match request.does {
            Does::Read => call.deed.does == Does::Read,
            _ => matches!(call.deed.does, Does::Write | Does::Sync),
        };
        let newest_first = self.calls.range(from..until).rev();
        newest_first
            .take_while(|_| search.may_look())
            .filter(|call| is_due(call) && call.deed.start_ns <= begin_ns)
            .collect()
    }

    /// The last writers of a request's bytes before it began, except calls whose bytes were all written again, and whether they wrote all
    /// bytes. If the bytes are unknown: at most the last two writes.
    fn last_writers(&self, request: &Deed, search: &mut Search) -> (Vec<&Call>, bool) {
        let before = self.ended(request.start_ns);
        let Some(bytes) = &request.bytes else {
            let newest_first = self.calls.range(..before).rev();
            let looked_at = newest_first.take_while(|_| search.may_look());
            let writes = looked_at.filter(|call| call.deed.does == Does::Write);
            let writes: Vec<_> = writes.take(2).collect();
            let is_all = !writes.is_empty();
            return (writes, is_all);
        };
        let (mut numbers, mut is_all) = (BTreeSet::new(), true);
        for stretch in stretches(bytes) {
            let begin = stretch * STRETCH_BYTES;
            let end = begin.saturating_add(STRETCH_BYTES);
            let part = bytes.start.max(begin)..bytes.end.min(end);
            let mut left = vec![part];
            let listed = self.writes.get(&stretch).into_iter().flatten().rev();
            let listed = listed.filter(|number| **number < self.first + before);
            for number in listed.take_while(|_| search.may_look()) {
                let Some(written) = &self.calls[number - self.first].deed.bytes else {
                    continue;
                };
                let pieces = without(&left, written);
                if pieces != left {
                    numbers.insert(*number);
                    left = pieces;
                }
                if left.is_empty() {
                    break;
                }
            }
            is_all &= left.is_empty();
        }
        let newest_first = numbers.into_iter().rev();
        let writers = newest_first.map(|number| &self.calls[number - self.first]);
        (writers.collect(), is_all)
    }
}

/// The stretches that contain bytes of a file.
fn stretches(bytes: &Range<i64>) -> std::ops::RangeInclusive<i64> {
    bytes.start.div_euclid(STRETCH_BYTES)..=(bytes.end - 1).div_euclid(STRETCH_BYTES)
}

/// The ranges without the part that `other` covers.
fn without(ranges: &[Range<i64>], other: &Range<i64>) -> Vec<Range<i64>> {
    let pieces = ranges.iter().flat_map(|range| {
        let before = range.start..range.end.min(other.start);
        let behind = range.start.max(other.end)..range.end;
        [before, behind]
    });
    pieces.filter(|range| range.start < range.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(does: Does, bytes: Range<i64>, times: Range<i64>) -> Deed {
        Deed {
            file: (0, 1),
            does,
            bytes: Some(bytes),
            start_ns: times.start,
            end_ns: times.end,
            process: None,
        }
    }

    /// A call with a separate track.
    fn call(track: u64, thread: i64, deed: Deed) -> Call {
        let place = Place { process: 1, track };
        Call {
            deed,
            thread: Some(thread),
            place,
        }
    }

    fn tracks(calls: &RecentCalls, request: &Deed) -> (Vec<u64>, bool) {
        let callers = calls.callers_of(request);
        let tracks = callers.calls.iter().map(|call| call.place.track).collect();
        (tracks, callers.is_ambiguous)
    }

    #[test]
    fn a_read_is_for_the_call_under_way_that_wants_its_bytes() {
        let mut calls = RecentCalls::default();
        calls.add(call(1, 7, deed(Does::Read, 0..4096, 0..10)));
        calls.add(call(2, 7, deed(Does::Read, 0..4096, 20..40)));
        calls.add(call(3, 8, deed(Does::Read, 8192..12288, 20..40)));
        let request = |bytes| deed(Does::Read, bytes, 25..30);
        assert_eq!(tracks(&calls, &request(0..4096)), (vec![2], false));
        assert_eq!(tracks(&calls, &request(0..65536)), (vec![3, 2], true));
        // Read-ahead after both.
        assert_eq!(tracks(&calls, &request(65536..131_072)), (vec![3, 2], true));
        let later = deed(Does::Read, 0..4096, 50..60);
        assert_eq!(tracks(&calls, &later), (vec![], false));
    }

    #[test]
    fn another_host_has_callers_of_its_own_and_memory_is_bounded() {
        let mut calls = RecentCalls::default();
        calls.add(call(1, 7, deed(Does::Read, 0..4096, 0..10)));
        let elsewhere = Deed {
            file: (1, 1),
            ..deed(Does::Read, 0..4096, 5..6)
        };
        assert_eq!(tracks(&calls, &elsewhere), (vec![], false));
        for file in 0..MOST_CALLS as i64 + 10 {
            let deed = Deed {
                file: (0, file),
                ..deed(Does::Write, 0..1, 20 + file..30 + file)
            };
            calls.add(call(1, 7, deed));
        }
        assert!(calls.count < MOST_CALLS / 2 + 20 && calls.files.len() == calls.count);
        // A forgotten call may have written the bytes of file 1. All calls of the last file are remembered.
        let written = |file, at| Deed {
            file: (0, file),
            ..deed(Does::Write, 0..1, at)
        };
        assert!(calls.callers_of(&written(1, 100..101)).is_partial);
        let last = MOST_CALLS as i64;
        let callers = calls.callers_of(&written(last, last + 40..last + 41));
        assert!(!callers.is_partial && callers.calls.len() == 1);
    }

    #[test]
    fn every_request_of_a_busy_file_has_its_caller() {
        const CALLS: i64 = 100_000;
        let mut calls = RecentCalls::default();
        for n in 0..CALLS {
            let bytes = n * 4096..(n + 1) * 4096;
            calls.add(call(
                n as u64,
                7,
                deed(Does::Read, bytes, n * 10..n * 10 + 9),
            ));
        }
        for n in 0..CALLS {
            let bytes = n * 4096..(n + 1) * 4096;
            let write = deed(Does::Write, bytes, (CALLS + n) * 10..(CALLS + n) * 10 + 9);
            calls.add(call((CALLS + n) as u64, 7, write));
        }
        for n in (0..CALLS).step_by(7) {
            let bytes = n * 4096..(n + 1) * 4096;
            let read = deed(Does::Read, bytes.clone(), n * 10 + 2..n * 10 + 5);
            assert_eq!(tracks(&calls, &read), (vec![n as u64], false));
            let back = deed(Does::Write, bytes, CALLS * 20 + 1..CALLS * 20 + 2);
            assert_eq!(tracks(&calls, &back), (vec![(CALLS + n) as u64], false));
            assert!(!calls.callers_of(&back).is_partial);
        }
    }

    #[test]
    fn where_bytes_are_not_known_the_time_decides() {
        let mut calls = RecentCalls::default();
        let request = |does, times| Deed {
            bytes: None,
            ..deed(does, 0..0, times)
        };
        calls.add(call(1, 7, deed(Does::Write, 0..4096, 0..1)));
        assert_eq!(
            tracks(&calls, &request(Does::Write, 2..3)),
            (vec![1], false)
        );
        calls.add(call(2, 7, deed(Does::Write, 4096..8192, 4..8)));
        assert_eq!(
            tracks(&calls, &request(Does::Write, 5..6)),
            (vec![2], false)
        );
        assert_eq!(
            tracks(&calls, &request(Does::Write, 9..10)),
            (vec![2], true)
        );
    }

    #[test]
    fn what_is_written_back_is_of_who_wrote_it_last() {
        let mut calls = RecentCalls::default();
        calls.add(call(1, 7, deed(Does::Write, 0..8192, 0..1)));
        calls.add(call(2, 8, deed(Does::Write, 0..4096, 2..3)));
        calls.add(call(3, 9, deed(Does::Write, 16384..20480, 4..5)));
        calls.add(call(4, 9, deed(Does::Sync, 0..0, 10..30)));
        let request = |at| deed(Does::Write, 0..8192, at);
        assert_eq!(tracks(&calls, &request(6..7)), (vec![2, 1], false));
        assert_eq!(tracks(&calls, &request(15..25)), (vec![4, 2, 1], false));
    }
}
