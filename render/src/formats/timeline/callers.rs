//! Which calls of applications a request was made for: those that were under way when it began, and of a write those that wrote its bytes before.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::Place;

/// Calls of a file that are remembered.
const MOST_CALLS: usize = 1024;
/// Calls that are remembered of all files, some 130 bytes each. When there are more, files are forgotten that were idle for a minute; or else all.
const MOST_CALLS_OF_ALL: usize = 1 << 20;
const IDLE_NS: i64 = 60_000_000_000;
/// Calls that a request is drawn from.
const MOST_CALLERS: usize = 64;

/// What a call or a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Read,
    Write,
    Sync,
    /// What moves no bytes.
    Other,
}

impl Does {
    /// By the name of an operation.
    pub fn of(op: &str) -> Self {
        match op {
            "read" | "READ" => Self::Read,
            "write" | "WRITE" => Self::Write,
            "fsync" => Self::Sync,
            _ => Self::Other,
        }
    }
}

/// The number of a host, and the key of a file: hosts share files of NFS.
pub type FileOfHost = (usize, i64);

/// A call or a request: what it does to which bytes, and when, ns since the epoch.
#[derive(Clone)]
pub struct Deed {
    pub file: FileOfHost,
    pub does: Does,
    /// Where they are known.
    pub bytes: Option<Range<i64>>,
    pub start_ns: i64,
    pub end_ns: i64,
    /// Where it is known.
    pub process: Option<i64>,
}

impl Deed {
    /// Whether it is known that they have bytes in common.
    fn overlaps(&self, other: &Self) -> bool {
        let both = self.bytes.as_ref().zip(other.bytes.as_ref());
        both.is_some_and(|(own, other)| own.start < other.end && other.start < own.end)
    }
}

/// A call, and where it is drawn.
#[derive(Clone)]
pub struct Call {
    pub deed: Deed,
    pub thread: Option<i64>,
    pub place: Place,
}

/// The calls that a request was made for.
pub struct Callers<'c> {
    pub calls: Vec<&'c Call>,
    /// It may have been made for others, or not for all of them.
    pub is_ambiguous: bool,
}

/// Recent calls by file.
#[derive(Default)]
pub struct RecentCalls {
    files: HashMap<FileOfHost, VecDeque<Call>>,
    count: usize,
}

impl RecentCalls {
    /// Remembers a call that has returned.
    pub fn add(&mut self, call: Call) {
        if self.count >= MOST_CALLS_OF_ALL {
            self.forget(call.deed.end_ns.saturating_sub(IDLE_NS));
        }
        let calls = self.files.entry(call.deed.file).or_default();
        if calls.len() == MOST_CALLS {
            calls.pop_front();
            self.count -= 1;
        }
        calls.push_back(call);
        self.count += 1;
    }

    /// Forgets files of which no call ended since.
    fn forget(&mut self, since_ns: i64) {
        self.files.retain(|_, calls| {
            calls
                .back()
                .is_some_and(|call| call.deed.end_ns >= since_ns)
        });
        self.count = self.files.values().map(VecDeque::len).sum();
        if self.count > MOST_CALLS_OF_ALL / 2 {
            self.files.clear();
            self.count = 0;
        }
    }

    /// Those that a request was made for.
    pub fn callers_of(&self, request: &Deed) -> Callers<'_> {
        let all = self.files.get(&request.file);
        let newest_first = || all.into_iter().flatten().rev();
        let is_due = |call: &&Call| match request.does {
            Does::Read => call.deed.does == Does::Read,
            _ => matches!(call.deed.does, Does::Write | Does::Sync),
        };
        let is_under_way = |call: &&Call| {
            call.deed.start_ns <= request.start_ns && request.start_ns <= call.deed.end_ns
        };
        let mut calls: Vec<&Call> = newest_first().filter(is_due).filter(is_under_way).collect();
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
            // It may be ahead of what is read.
            is_ambiguous = calls.iter().any(|call| !is_sync(call));
        }
        let mut threads = calls.iter().filter(|call| !is_sync(call));
        if let Some(first) = threads.next() {
            is_ambiguous |= threads.any(|call| call.thread != first.thread);
        } else if request.does == Does::Write {
            let mut written = last_writers(request, newest_first());
            if request.bytes.is_none() {
                is_ambiguous = written.len() > 1;
                written.truncate(1);
            }
            calls.extend(written);
        }
        calls.truncate(MOST_CALLERS);
        Callers {
            calls,
            is_ambiguous,
        }
    }
}

/// The calls that had written the bytes of a request when it began, as far as no later one has written them again; all that had written, where
/// its bytes are not known.
fn last_writers<'c>(request: &Deed, newest_first: impl Iterator<Item = &'c Call>) -> Vec<&'c Call> {
    let before = newest_first
        .filter(|call| call.deed.does == Does::Write && call.deed.end_ns <= request.start_ns);
    let Some(bytes) = request.bytes.clone() else {
        return before.collect();
    };
    let mut left = vec![bytes];
    let mut writers = Vec::new();
    for call in before {
        if left.is_empty() {
            break;
        }
        let Some(written) = call.deed.bytes.clone() else {
            continue;
        };
        let pieces = left.iter().flat_map(|range| {
            let before = range.start..range.end.min(written.start);
            let behind = range.start.max(written.end)..range.end;
            [before, behind]
        });
        let pieces: Vec<_> = pieces.filter(|range| range.start < range.end).collect();
        if pieces != left {
            writers.push(call);
            left = pieces;
        }
    }
    writers
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

    /// A call with a track of its own.
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
        // Ahead of both.
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
        for file in 0..MOST_CALLS_OF_ALL as i64 + 10 {
            let deed = Deed {
                file: (0, file),
                ..deed(Does::Read, 0..1, 0..1)
            };
            calls.add(call(1, 7, deed));
        }
        assert!(calls.count <= 20 && calls.files.len() == calls.count);
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
