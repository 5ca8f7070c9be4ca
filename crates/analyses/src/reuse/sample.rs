//! A sample of a client's blocks or files: those with the smallest hashes, up to a fixed number.

use std::collections::BinaryHeap;

use ahash::{AHashMap, RandomState};

use super::order::Order;
use crate::source::Name;

/// A block: its file and its number in the file.
type Block = ((Name, i64), u64);

/// Places per followed block, before all are renumbered.
const PLACES: usize = 4;
/// Hashes are compared by their upper bits.
const HASHES: f64 = 4_294_967_296.0;

/// Result of a use of a followed block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Estimated number of other blocks used since its last use; `None` for its first use.
    pub others: Option<f64>,
    /// Time since its last use, ns.
    pub since_ns: Option<i64>,
    /// Parts of the block that were used before.
    pub parts: u64,
    /// Number of blocks that it represents.
    pub weight: f64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    place: usize,
    time_ns: i64,
    /// A bit for each part of the block that was used.
    parts: u64,
}

/// The followed blocks.
pub struct Sample {
    most: usize,
    /// Blocks with hashes below this are followed.
    threshold: u64,
    hasher: RandomState,
    known: AHashMap<Block, Known>,
    largest: BinaryHeap<(u32, Block)>,
    order: Order,
}

impl Sample {
    /// An empty sample with room for some blocks.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self {
            most,
            threshold: HASHES as u64,
            // Fixed seeds, so that the same requests give the same result.
            hasher: RandomState::with_seeds(0x5eed, 0x0f, 0x10, 0xcafe),
            known: AHashMap::new(),
            largest: BinaryHeap::new(),
            order: Order::new(most.saturating_mul(PLACES)),
        }
    }

    /// The share of blocks that is followed.
    pub fn share(&self) -> f64 {
        self.threshold as f64 / HASHES
    }

    /// Records a use of parts of a block. `None` if the block is not followed.
    pub fn touch(&mut self, block: Block, parts: u64, time_ns: i64) -> Option<Use> {
        let hash = (self.hasher.hash_one(block) >> 32) as u32;
        if u64::from(hash) >= self.threshold {
            return None;
        }
        let share = self.share();
        let weight = 1.0 / share;
        if self.order.is_full() {
            self.number_again();
        }
        if let Some(known) = self.known.get_mut(&block) {
            let others = f64::from(self.order.behind(known.place)) / share;
            let since_ns = time_ns.saturating_sub(known.time_ns);
            let before = known.parts;
            self.order.remove(known.place);
            *known = Known {
                place: self.order.push(),
                time_ns,
                parts: before | parts,
            };
            return Some(Use {
                others: Some(others),
                since_ns: Some(since_ns),
                parts: before,
                weight,
            });
        }
        let place = self.order.push();
        let known = Known {
            place,
            time_ns,
            parts,
        };
        self.known.insert(block, known);
        self.largest.push((hash, block));
        if self.known.len() > self.most {
            self.shrink();
        }
        Some(Use {
            others: None,
            since_ns: None,
            parts: 0,
            weight,
        })
    }

    /// Follows fewer blocks: drops those with the largest hash.
    fn shrink(&mut self) {
        let Some((largest, _)) = self.largest.peek() else {
            return;
        };
        let threshold = u64::from(*largest);
        self.threshold = threshold;
        while let Some((hash, block)) = self.largest.peek().copied() {
            if u64::from(hash) < threshold {
                break;
            }
            self.largest.pop();
            if let Some(known) = self.known.remove(&block) {
                self.order.remove(known.place);
            }
        }
    }

    /// Renumbers the places of the blocks, and keeps their order.
    fn number_again(&mut self) {
        let mut known: Vec<_> = self.known.values_mut().collect();
        known.sort_unstable_by_key(|known| known.place);
        self.order = Order::new(self.most.saturating_mul(PLACES));
        for known in known {
            known.place = self.order.push();
        }
    }
}
