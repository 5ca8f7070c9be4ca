//! How soon and how often the same client reads blocks and files again. This shows what a larger page cache would have saved.
//!
//! A READ that reaches a server was not in the client's page cache. Its stack distance is the amount of other data that the client used
//! since it last used the block. An LRU cache that is larger by that amount would have had the block. Blocks are sampled by hash in bounded
//! memory; see Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015.

mod order;
mod sample;

use ahash::AHashMap;
use trackiops_schemas::unit::{Unit, grouped};

use self::sample::{Sample, Use};
use crate::distribution::{self, Distribution};
use crate::sheet::{Datum, Heading, Sheet, few_digits};
use crate::source::{Name, Request};

/// The smallest cache of the table, bytes.
const SMALLEST_CACHE: u64 = 1 << 20;
const NS_PER_S: f64 = 1e9;
/// Most blocks of a request that are examined: no rsize has more.
const MOST_BLOCKS: u64 = 1 << 12;

/// Parts of a block that are tracked separately, one bit each.
const PARTS: u32 = u64::BITS;

/// How reuse is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Length of a block, bytes.
    pub block_bytes: u64,
    /// Most blocks to follow, and most files, for each client.
    pub sample: usize,
    /// A file that was idle for longer counts as used again, ns.
    pub gap_ns: i64,
}

/// State of a client.
struct Client {
    blocks: Sample,
    files: Sample,
}

/// The verdict names the smallest cache that saves this share of the possible savings.
const NEARLY_ALL: f64 = 0.9;

/// Sums of reads.
struct Read {
    bytes: f64,
    /// Bytes read again, by the smallest cache that would have had them, as a power of two.
    saved: [f64; 64],
    /// Time from the last use of a block until it was read again.
    again_s: Distribution,
}

/// One sentence: the smallest cache that would have saved nearly all possible savings.
fn verdict(cache: &Sheet, read_bytes: f64, all: f64) -> String {
    let nearly_all = cache.rows.iter().find_map(|row| match row[..] {
        [Datum::Count(size), Datum::Figure(saved), _] if saved >= NEARLY_ALL * all => {
            Some((size, saved))
        }
        _ => None,
    });
    match nearly_all {
        Some((size, saved)) if all > 0.0 => format!(
            "a page cache larger by {} bytes on each client would have saved {} % of the bytes read",
            grouped(size),
            few_digits((1000.0 * saved / read_bytes).round() / 10.0)
        ),
        _ => "nothing was read again: no page cache would have saved a read".to_owned(),
    }
}

/// The analysis.
pub struct Reuse {
    settings: Settings,
    clients: AHashMap<Name, Client>,
    read: Read,
    files_s: Distribution,
    requests: u64,
}

impl Reuse {
    /// Names of its tables.
    pub const TABLES: [&'static str; 3] = ["cache", "distributions", "counts"];

    /// Expects requests in order of completion.
    pub fn new(settings: Settings, exact_values: usize) -> Self {
        Self {
            settings: Settings {
                block_bytes: settings.block_bytes.max(1),
                ..settings
            },
            clients: AHashMap::new(),
            read: Read {
                bytes: 0.0,
                saved: [0.0; 64],
                again_s: Distribution::new(exact_values),
            },
            files_s: Distribution::new(exact_values),
            requests: 0,
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        if request.has_failed || request.bytes == 0 {
            return;
        }
        self.requests += 1;
        let settings = self.settings;
        let client = self
            .clients
            .entry(request.client)
            .or_insert_with(|| Client {
                blocks: Sample::new(settings.sample),
                files: Sample::new(settings.sample),
            });
        let file = (request.server, request.file);
        if let Some(Use {
            since_ns: Some(ns),
            weight,
            ..
        }) = client.files.touch((file, 0), 0, request.end_ns)
            && request.is_read
            && ns > settings.gap_ns
        {
            self.files_s
                .add_times(ns as f64 / NS_PER_S, weight.round() as u64);
        }
        let first = request.offset / settings.block_bytes;
        let last = (request.end_offset() - 1) / settings.block_bytes;
        for block in first..=last.min(first.saturating_add(MOST_BLOCKS)) {
            let start = block.saturating_mul(settings.block_bytes);
            let from = request.offset.saturating_sub(start);
            let to = (request.end_offset() - start).min(settings.block_bytes);
            let parts = parts(from, to, settings.block_bytes);
            let used = client.blocks.touch((file, block), parts, request.end_ns);
            if let Some(used) = used.filter(|_| request.is_read) {
                let bytes = (to - from) as f64 * used.weight;
                self.read.add(&used, parts, bytes, settings.block_bytes);
            }
        }
    }

    /// Tables: savings by cache size, time until blocks and files are read again, and counts.
    pub fn sheets(&self, parts: u64) -> [Sheet; 3] {
        let [name, distributions_name, counts_name] = Self::TABLES;
        let headings = vec![
            Heading::count("cache_bytes", Unit::Bytes),
            Heading::figure("read_bytes_saved", Unit::Bytes),
            Heading::figure("read_share_saved", Unit::Share),
        ];
        let caption = "each row is what a page cache that is larger by so much, on each client, would have saved of the bytes read";
        let mut cache = Sheet::new(name, caption, headings);
        let all: f64 = self.read.saved.iter().sum();
        let mut saved = 0.0;
        for (power, bytes) in self.read.saved.iter().enumerate() {
            saved += bytes;
            let size = 1_u64 << power;
            if size < SMALLEST_CACHE {
                continue;
            }
            let share = (self.read.bytes > 0.0).then(|| saved / self.read.bytes);
            cache.rows.push(vec![
                Datum::Count(size),
                Datum::Figure(saved),
                Datum::some_figure(share),
            ]);
            if saved >= all {
                break;
            }
        }
        cache.verdict = Some(verdict(&cache, self.read.bytes, all));
        let mut headings = vec![Heading::text("what")];
        headings.extend(distribution::headings());
        let caption = "each row is how long after it was used the same is read again, s";
        let mut distributions = Sheet::new(distributions_name, caption, headings);
        let both = [
            ("block_again_s", &self.read.again_s),
            ("file_again_s", &self.files_s),
        ];
        for (what, of) in both.into_iter().filter(|(_, of)| of.count() > 0) {
            let mut row = vec![Datum::text(what)];
            row.extend(distribution::cells(of, parts));
            distributions.rows.push(row);
        }
        let share = self.clients.values().map(|client| client.blocks.share());
        let counts = [
            ("requests", self.requests as f64),
            ("read_bytes_estimated", self.read.bytes),
            ("read_bytes_again_estimated", all),
            (
                "smallest_share_of_blocks_followed",
                share.fold(1.0, f64::min),
            ),
        ];
        [
            cache,
            distributions,
            Sheet::of_counts(counts_name, "what was read", counts),
        ]
    }
}

impl Read {
    /// Adds bytes of a block. Some of its parts may have been used before.
    fn add(&mut self, used: &Use, parts: u64, bytes: f64, block_bytes: u64) {
        self.bytes += bytes;
        let again = (parts & used.parts).count_ones();
        let (Some(others), Some(ns), 1..) = (used.others, used.since_ns, again) else {
            return;
        };
        // The cache must hold the block itself, too.
        let needed = (others + 1.0) * block_bytes as f64;
        let power = needed.log2().ceil().clamp(0.0, 63.0) as usize;
        self.saved[power] += bytes * f64::from(again) / f64::from(parts.count_ones());
        let times = used.weight.round() as u64;
        self.again_s.add_times(ns as f64 / NS_PER_S, times);
    }
}

/// One bit for each 64th of a block that contains some of these bytes.
fn parts(from: u64, to: u64, block_bytes: u64) -> u64 {
    let part = |byte: u64| u128::from(byte) * u128::from(PARTS) / u128::from(block_bytes);
    let (first, last) = (part(from), part(to.saturating_sub(1).max(from)));
    let count = u32::try_from(last - first + 1).unwrap_or(PARTS);
    let first = u32::try_from(first).unwrap_or(0).min(PARTS - 1);
    let ones = u64::MAX
        .checked_shr(PARTS.saturating_sub(count))
        .unwrap_or(0);
    ones.checked_shl(first).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: i64, offset: u64, bytes: u64, end_ns: i64) -> Request {
        Request {
            end_ns,
            latency_ns: Some(1),
            file,
            is_read: true,
            offset,
            bytes,
            ..Request::default()
        }
    }

    fn saved_by(reuse: &Reuse, size: u64) -> f64 {
        let sheet = &reuse.sheets(2)[0];
        let row = sheet
            .rows
            .iter()
            .rev()
            .find(|row| matches!(row[0], Datum::Count(of) if of <= size));
        match row.map(|row| &row[2]) {
            Some(Datum::Figure(share)) => *share,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parts_of_a_block_are_told_apart() {
        for (from, to, block, expected) in [
            (0, 64, 64, u64::MAX),
            (0, 16_384, 65_536, 0xffff),
            (16_384, 32_768, 65_536, 0xffff_0000),
            (65_535, 65_536, 65_536, 1 << 63),
            (0, 1, 1, 1),
        ] {
            assert_eq!(
                parts(from, to, block),
                expected,
                "{from} to {to} of {block}"
            );
        }
    }

    #[test]
    fn bytes_that_follow_each_other_are_not_read_again() {
        let settings = Settings {
            block_bytes: 1 << 16,
            sample: 100,
            gap_ns: 0,
        };
        let mut reuse = Reuse::new(settings, 1000);
        for place in 0..64 {
            reuse.add(&read(1, place << 14, 1 << 14, place as i64));
        }
        assert_eq!(saved_by(&reuse, 1 << 40), 0.0);
    }

    #[test]
    fn a_loop_is_saved_by_a_cache_that_holds_it() {
        const MIB: u64 = 1 << 20;
        for sample in [1 << 16, 256] {
            let settings = Settings {
                block_bytes: MIB / 16,
                sample,
                gap_ns: 0,
            };
            let mut reuse = Reuse::new(settings, 1000);
            // 64 MiB, ten times.
            for round in 0..10 {
                for block in 0..64_u64 {
                    let time = (round * 64 + block) as i64;
                    reuse.add(&read(1, block * MIB, MIB, time));
                }
            }
            assert!(saved_by(&reuse, 16 * MIB) < 0.05, "{sample}");
            let saved = saved_by(&reuse, 128 * MIB);
            assert!((saved - 0.9).abs() < 0.05, "{sample}: {saved}");
        }
    }
}
