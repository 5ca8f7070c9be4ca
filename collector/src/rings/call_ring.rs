//! The ring in which single calls of applications arrive, where they are kept.

use std::mem;
use std::sync::atomic::Ordering;

use aya::maps::{Map, MapData, MapError, RingBuf};
use trackiops_schemas::ebpf::ring::{RequestRecord, flags};
use zerocopy::FromBytes;

use crate::shared_memory::SharedWords;

/// The ring, and the count of calls that found no room in it.
pub struct CallRing {
    ring: RingBuf<MapData>,
    left_out: SharedWords,
    left_out_before: u64,
}

impl CallRing {
    /// Wraps the ring's map and the word that counts the calls left out.
    pub fn new(map: Map, left_out: SharedWords) -> Result<Self, MapError> {
        Ok(Self {
            ring: RingBuf::try_from(map)?,
            left_out,
            left_out_before: 0,
        })
    }

    /// The calls that have arrived by now, up to `most` of them.
    pub fn arrived(&mut self, most: usize) -> Vec<RequestRecord> {
        let mut calls = Vec::new();
        while calls.len() < most
            && let Some(bytes) = self.ring.next()
        {
            let record = RequestRecord::read_from_prefix(&bytes).ok();
            let record = record.map(|(record, _)| record);
            calls.extend(record.filter(|record| record.flags & !flags::ALL == 0));
        }
        calls
    }

    /// The number of calls left out since the last call of this function.
    pub fn take_left_out(&mut self) -> u64 {
        let words = self.left_out.words().iter();
        let all = words.map(|count| count.load(Ordering::Relaxed)).sum();
        all - mem::replace(&mut self.left_out_before, all)
    }
}
