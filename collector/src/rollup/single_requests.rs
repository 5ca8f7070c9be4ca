//! Passes requests on one by one, besides adding them up.

use ahash::AHashMap;
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::request::{Request, RequestBatch};

use crate::clock::{Clock, MonotonicNs};
use crate::names::Names;
use crate::rollup::RequestStream;
use crate::rollup::row_key::RowKey;

/// Takes copied requests; it must not block.
pub type RequestSink = Box<dyn FnMut(RequestBatch)>;

/// Copies of the requests that are read from the rings, for a sink.
pub struct SingleRequests {
    sink: RequestSink,
    records: Vec<RequestRecord>,
}

impl SingleRequests {
    /// Most records that are copied before they are handed on, which bounds their memory: 1.5 MiB.
    pub const AT_ONCE: usize = 16 << 10;

    /// For `sink`.
    pub fn new(sink: RequestSink) -> Self {
        Self {
            sink,
            records: Vec::new(),
        }
    }

    /// Copies records that are not part of the request stream.
    pub fn copy(&mut self, records: &[RequestRecord]) {
        self.records.extend(records);
    }

    /// Wraps `requests`, so that each is copied when it is passed.
    pub fn copying<'a, R: RequestStream>(
        &'a mut self,
        requests: &'a mut R,
    ) -> CopiedRequests<'a, R> {
        CopiedRequests {
            requests,
            records: &mut self.records,
        }
    }

    /// Passes the copied requests on, with the current attributes of their files.
    pub fn hand_on(&mut self, clock: &Clock, names: &mut Names, now: MonotonicNs) {
        if self.records.is_empty() {
            return;
        }
        let mut batch = RequestBatch {
            files: Vec::new(),
            requests: Vec::with_capacity(self.records.len()),
        };
        let mut places: AHashMap<RowKey, u32> = AHashMap::new();
        // Requests of a file often come in runs.
        let mut last = None;
        for record in &self.records {
            let row = RowKey::from(record);
            let file = match last {
                Some((key, file)) if key == row => file,
                _ => *places.entry(row).or_insert_with(|| {
                    batch.files.push(names.attributes(row, now));
                    batch.files.len() as u32 - 1
                }),
            };
            last = Some((row, file));
            let end_ns = clock.utc_ns(MonotonicNs(record.end_ns));
            batch.requests.push(Request {
                process: names.process(record.pid, now),
                ..Request::new(record, end_ns, file)
            });
        }
        self.records.clear();
        (self.sink)(batch);
    }
}

/// Requests that are copied.
pub struct CopiedRequests<'a, R> {
    requests: &'a mut R,
    records: &'a mut Vec<RequestRecord>,
}

impl<R: RequestStream> RequestStream for CopiedRequests<'_, R> {
    #[inline]
    fn peek(&mut self) -> &[RequestRecord] {
        self.requests.peek()
    }

    #[inline]
    fn pass(&mut self, count: usize) {
        self.records.extend(&self.requests.peek()[..count]);
        self.requests.pass(count);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::clock::ClockSample;
    use crate::rollup::Rollup;

    #[test]
    fn what_is_added_up_is_handed_on_one_by_one() {
        let record = |fileid, end_ns, offset| RequestRecord {
            end_ns,
            fileid,
            offset,
            dev: 0xfff,
            done_bytes: 100,
            xid: 9,
            uid: 1000,
            pid: std::process::id(),
            ..RequestRecord::default()
        };
        let records = [
            record(1, 10, 0),
            record(1, 20, 4096),
            record(2, 30, 0),
            record(1, 40, 8192),
        ];
        let handed = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&handed);
        let mut copies = SingleRequests::new(Box::new(move |batch| sink.borrow_mut().push(batch)));
        let mut rollup = Rollup::new("1s".parse().unwrap());
        let clock = Clock::new(ClockSample {
            now: MonotonicNs(0),
            offset_ns: 5_000_000_000,
        });
        let mut requests = &records[..];
        rollup.add(&clock, &mut copies.copying(&mut requests), |_, _| {});
        let mut names = Names::new(false, crate::plan::Levels::WIRE, None).unwrap();
        copies.hand_on(&clock, &mut names, MonotonicNs(50));
        copies.hand_on(&clock, &mut names, MonotonicNs(60));

        let windows = rollup.take_windows(|_, _| true);
        let counted: u64 = windows[0].rows.iter().map(|(_, r)| r.read.requests).sum();
        let handed = handed.borrow();
        let [batch] = &handed[..] else {
            panic!("{handed:?}")
        };
        let fileids: Vec<_> = batch.files.iter().map(|file| file.id.fileid).collect();
        assert_eq!((counted, fileids), (4, vec![1, 2]));
        assert_eq!(batch.files[0].tenant.uid, Some(1000));
        let requests = batch.requests.iter();
        let requests: Vec<_> = requests
            .map(|r| (r.file, r.end_ns - 5_000_000_000, r.offset, r.xid))
            .collect();
        assert_eq!(
            requests,
            [
                (0, 10, 0, 9),
                (0, 20, 4096, 9),
                (1, 30, 0, 9),
                (0, 40, 8192, 9)
            ]
        );
    }
}
