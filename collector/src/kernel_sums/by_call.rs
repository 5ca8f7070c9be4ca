//! Calls by which applications read and write, and page cache changes, added up in the kernel.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use aya::maps::MapError;
use trackiops_schemas::ebpf::app_sums::{
    APP_CALL_ENTRIES, APP_CALL_MOUNT_ENTRIES, APP_CALLS_BY_FILE, APP_CALLS_BY_MOUNT,
    APP_CALLS_MAPS, APP_HALF_WORDS, APP_KEY_WORDS, APP_LATENCY_WORDS, APP_PLACE_WORDS,
    APP_PLACES_WORDS, APP_VALUE_WORDS, AppKey, AppLatencies, AppPlace, AppPlaces, AppValue,
    FILE_SYSTEM, LOCAL, OPENS, PAGES_ADDED, PAGES_DIRTIED, PAGES_EVICTED, SYNCS, WRITES,
    app_latency_bounds,
};
use trackiops_schemas::histogram::{Histogram, bucket_of};
use trackiops_schemas::row::AppCalls;
use zerocopy::transmute;

use crate::audit::transfers::Transfers;
use crate::kernel_sums::{BegunCounts, DoubleBufferedMap, MapsInUse, load_words};
use crate::rollup::row_key::RowKey;
use crate::shared_memory::SharedWords;

/// The places and the maps that the programs add to.
pub struct CallSums {
    programs: MapsInUse<APP_KEY_WORDS, APP_VALUE_WORDS>,
    by_file: DoubleBufferedMap<APP_KEY_WORDS, APP_VALUE_WORDS>,
    by_mount: DoubleBufferedMap<APP_KEY_WORDS, APP_VALUE_WORDS>,
    begun: BegunCounts<APP_CALLS_MAPS>,
    places: SharedWords,
    /// Histograms of the places, if calls are timed.
    latencies: SharedWords,
    /// How many places of each CPU had been taken at the last look.
    taken: Vec<u64>,
}

impl CallSums {
    /// Makes the maps, and passes them to the programs. `places` has an [`AppPlaces`] for each CPU, `latencies` the [`AppLatencies`] that
    /// they refer to; `begun` counts the sums begun in each map; `share` means [`crate::Settings::map_share`].
    pub fn create(
        mut programs: MapsInUse<APP_KEY_WORDS, APP_VALUE_WORDS>,
        places: SharedWords,
        latencies: SharedWords,
        begun: SharedWords,
        share: u32,
    ) -> Result<Self, MapError> {
        let sums =
            |programs: &mut _, index, entries| DoubleBufferedMap::create(programs, index, entries);
        Ok(Self {
            by_file: sums(&mut programs, APP_CALLS_BY_FILE, APP_CALL_ENTRIES / share)?,
            by_mount: sums(&mut programs, APP_CALLS_BY_MOUNT, APP_CALL_MOUNT_ENTRIES)?,
            programs,
            begun: BegunCounts::new(begun),
            taken: vec![0; places.words().len() / APP_PLACES_WORDS],
            places,
            latencies,
        })
    }

    /// Takes all sums so far.
    pub fn take(&mut self) -> Result<Vec<CallsInWindow>, MapError> {
        let mut taken = Vec::new();
        let halves = self.exchange();
        let mut sum = |key, value| {
            taken.extend(CallsInWindow::from_map(
                &transmute!(key),
                &transmute!(value),
            ));
        };
        // Taking a map waits for the programs that still add to exchanged memory. That includes
        // the halves.
        if self.begun.is_new(APP_CALLS_BY_FILE) || !halves.is_empty() {
            self.by_file.take(&mut self.programs, &mut sum)?;
        }
        if self.begun.is_new(APP_CALLS_BY_MOUNT) {
            self.by_mount.take(&mut self.programs, &mut sum)?;
        }
        for (cpu, half) in halves {
            self.drain(cpu, half, &mut taken);
        }
        Ok(taken)
    }

    /// Switches CPUs with new sums to their other halves. Returns each such CPU with its previous half.
    /// Programs that are adding finish in the previous half.
    fn exchange(&mut self) -> Vec<(usize, usize)> {
        let of_cpus = self.places.words().chunks_exact(APP_PLACES_WORDS);
        let mut halves = Vec::new();
        for (cpu, (words, seen)) in of_cpus.zip(&mut self.taken).enumerate() {
            let taken = words[offset_of!(AppPlaces, taken) / 8].load(Ordering::Acquire);
            if taken != *seen {
                *seen = taken;
                let half = &words[offset_of!(AppPlaces, half) / 8];
                let previous = half.load(Ordering::Relaxed) & 1;
                half.store(previous ^ 1, Ordering::SeqCst);
                halves.push((cpu, previous as usize));
            }
        }
        halves
    }

    /// Takes the sums of a half to which no program adds any more.
    fn drain(&self, cpu: usize, half: usize, taken: &mut Vec<CallsInWindow>) {
        let of_cpu = self.places.words().chunks_exact(APP_PLACES_WORDS).nth(cpu);
        let halves = of_cpu.and_then(|of| of.get(offset_of!(AppPlaces, halves) / 8..));
        let half = halves.and_then(|halves| halves.chunks_exact(APP_HALF_WORDS).nth(half));
        for words in half.unwrap_or_default().chunks_exact(APP_PLACE_WORDS) {
            let AppPlace {
                begin_ns,
                inode: _,
                generation: _,
                key,
                value,
            } = transmute!(load_words::<APP_PLACE_WORDS>(words));
            if begin_ns != 0 {
                let mut calls = CallsInWindow::from_map(&key, &value);
                if let Some(calls) = &mut calls {
                    calls.calls.latency = self.take_latencies(&value);
                }
                taken.extend(calls);
                words
                    .iter()
                    .for_each(|word| word.store(0, Ordering::Relaxed));
            }
        }
    }

    /// Takes the latencies of a place.
    fn take_latencies(&self, of: &AppValue) -> Histogram {
        let mut histogram = Histogram::default();
        let element = of.latencies.checked_sub(1);
        let mut elements = self.latencies.words().chunks_exact(APP_LATENCY_WORDS);
        let element = element.and_then(|number| elements.nth(usize::try_from(number).ok()?));
        if let Some(words) = element {
            let counts: AppLatencies = transmute!(load_words::<APP_LATENCY_WORDS>(words));
            for (bucket, count) in counts.into_iter().enumerate().filter(|(_, n)| *n > 0) {
                let (first, last) = app_latency_bounds(bucket);
                // No call took longer than the longest one.
                let middle = (first + last.min(of.latency_ns_max).max(first)) / 2;
                histogram.add(bucket_of(middle), count.into());
            }
            words
                .iter()
                .for_each(|word| word.store(0, Ordering::Relaxed));
        }
        histogram
    }
}

/// The kinds of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summed {
    /// Calls that read.
    Reads,
    /// Calls that write.
    Writes,
    /// Pages added to the cache. For the three page kinds, only the bytes count.
    PagesAdded,
    /// Pages evicted from it.
    PagesEvicted,
    /// Pages dirtied.
    PagesDirtied,
    /// Calls that wait until the file is on its disk. Syncs and opens move no bytes.
    Syncs,
    /// Calls that open the file.
    Opens,
}

/// Calls of one kind on one file, or changes of its pages, in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallsInWindow {
    /// The file and the tenant. The file is [`others`](trackiops_schemas::identity::FileId::others)
    /// if the kernel had no room for it.
    pub row: RowKey,
    /// UTC in ns, divided by the length of a window.
    pub window: u64,
    /// The process that made the first of them.
    pub pid: u32,
    /// Their kind.
    pub what: Summed,
    /// The sums.
    pub calls: AppCalls,
}

impl CallsInWindow {
    /// The bytes that the audit compares.
    pub fn transfers(&self) -> Transfers {
        let none = AppCalls::default();
        match self.what {
            Summed::Reads => Transfers::of_calls(&self.calls, &none),
            Summed::Writes => Transfers::of_calls(&none, &self.calls),
            _ => Transfers::default(),
        }
    }

    /// `None` if the sum is empty.
    fn from_map(key: &AppKey, value: &AppValue) -> Option<Self> {
        let AppValue {
            calls,
            errors,
            bytes,
            direct_calls,
            direct_bytes,
            pid,
            timed,
            latency_ns_sum,
            latency_ns_max,
            latencies: _,
        } = *value;
        let sums = AppCalls {
            calls,
            errors,
            bytes,
            direct_calls,
            direct_bytes,
            timed,
            latency_ns_sum,
            latency_ns_max,
            latency: Histogram::default(),
        };
        (sums != AppCalls::default()).then_some(Self {
            row: RowKey::from(key),
            window: key.window,
            pid: pid as u32,
            what: match key.direction & !(LOCAL | FILE_SYSTEM) {
                WRITES => Summed::Writes,
                PAGES_ADDED => Summed::PagesAdded,
                PAGES_EVICTED => Summed::PagesEvicted,
                PAGES_DIRTIED => Summed::PagesDirtied,
                SYNCS => Summed::Syncs,
                OPENS => Summed::Opens,
                _ => Summed::Reads,
            },
            calls: sums,
        })
    }
}
