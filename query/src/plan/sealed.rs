//! Sealed journals and segments in the catalog for a range.

use std::collections::BTreeMap;

use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Dataset, JournalSpan, SealedJournal, Segment, Snapshot, StoreIndex};

use super::{Bounds, HealthPart, Journal, Twice};
use crate::error::QueryError;
use crate::granularity_cover::{Level, align_up, cover};
use crate::interval::Interval;
use crate::origin::HostIndex;
use crate::step::{Part, Step};

/// Sealed data of all stores.
pub(super) struct Sealed {
    pub(super) hosts: Vec<String>,
    /// Time of all of each host's data.
    pub(super) spans: Vec<Option<Interval>>,
    /// Journals that overlap the range.
    pub(super) journals: Vec<Together>,
    /// Times in the range for which two stores or exports have data of one host.
    pub(super) twice: Vec<Twice>,
}

/// A journal, or several that share merged segments.
pub(super) struct Together {
    host: HostIndex,
    journals: Vec<JournalSpan>,
    granularities: BTreeMap<Granularity, Stored>,
}

/// Segments of one granularity.
#[derive(Default)]
struct Stored {
    rows: Vec<Segment>,
    health: Vec<Segment>,
    /// Unreadable segments.
    left_out: Vec<Segment>,
}

impl Sealed {
    pub(super) fn new(
        snapshot: &Snapshot,
        dataset: Dataset,
        asked: Interval,
    ) -> Result<Self, QueryError> {
        let health = snapshot.segments(Dataset::Health, None)?;
        let rows = snapshot.segments(dataset, Some((asked.start, asked.end)))?;
        let journals = snapshot.journals()?;
        let tail_hosts = snapshot.tails().iter().map(|tail| tail.host().to_owned());
        let mut hosts: Vec<String> = journals.iter().map(|of| of.host.clone()).collect();
        hosts.extend(tail_hosts);
        hosts.sort_unstable();
        hosts.dedup();

        let mut spans = vec![None; hosts.len()];
        // A host may have recorded into several stores, and each store numbers its journals.
        let mut recorders: BTreeMap<(HostIndex, StoreIndex), Recorder> = BTreeMap::new();
        for SealedJournal { store, host, span } in journals {
            let host = super::index_of(&hosts, &host);
            let extent = extent(&span);
            let of_host: &mut Option<Interval> = &mut spans[host];
            *of_host = Some(of_host.map_or(extent, |span| span.hull(extent)));
            let recorder = recorders.entry((host, store)).or_default();
            recorder.journals.push(span);
        }
        let left_out = [Dataset::Health, dataset].map(|of| snapshot.left_out(of));
        let [left_out_health, left_out_rows] = left_out;
        let all = rows
            .into_iter()
            .map(|segment| (segment, Kind::Rows))
            .chain(health.into_iter().map(|segment| (segment, Kind::Health)))
            .chain(left_out_health?.into_iter().map(|s| (s, Kind::LeftOut)))
            .chain(left_out_rows?.into_iter().map(|s| (s, Kind::LeftOut)));
        for (segment, kind) in all {
            // The catalog must not list segments of journals that it does not know.
            if let Ok(host) = hosts.binary_search(&segment.host)
                && let Some(recorder) = recorders.get_mut(&(host, segment.store))
            {
                recorder.segments.push((segment, kind));
            }
        }
        let tails = snapshot.tails().iter().filter_map(|tail| {
            let (start, end) = tail.span()?;
            let host = super::index_of(&hosts, tail.host());
            Some((host, Interval::new(start, end), tail.store))
        });
        let journals = recorders.iter().flat_map(|((host, store), recorder)| {
            let extents = recorder.journals.iter().map(extent);
            extents.map(|extent| (*host, extent, *store))
        });
        let are_related = |a, b| {
            let mut ids = snapshot.ids(a).iter();
            ids.any(|id| snapshot.ids(b).contains(id))
        };
        let twice = twice(journals.chain(tails), asked, are_related);
        let mut in_range = Vec::new();
        for ((host, _), Recorder { journals, segments }) in recorders {
            let together = together(host, journals, segments).into_iter();
            in_range.extend(together.filter(|of| !of.extent().intersect(asked).is_empty()));
        }
        Ok(Self {
            hosts,
            spans,
            journals: in_range,
            twice,
        })
    }
}

/// For each host, the time from the first to the last overlap of journals of two stores, separately for related stores
/// and for others. An export counts as a store.
fn twice(
    journals: impl Iterator<Item = (HostIndex, Interval, StoreIndex)>,
    asked: Interval,
    are_related: impl Fn(StoreIndex, StoreIndex) -> bool,
) -> Vec<Twice> {
    let in_range = journals.map(|(host, time, store)| (host, time.intersect(asked), store));
    let mut journals: Vec<_> = in_range.filter(|(_, time, _)| !time.is_empty()).collect();
    journals.sort_unstable();
    let mut found: BTreeMap<(HostIndex, bool), Interval> = BTreeMap::new();
    for of_host in journals.chunk_by(|a, b| a.0 == b.0) {
        // End of each store's journals so far.
        let mut reach: BTreeMap<StoreIndex, UtcMs> = BTreeMap::new();
        for (host, time, store) in of_host {
            for (other, end) in reach.iter().filter(|(other, _)| *other != store) {
                let both = time.intersect(Interval::new(time.start, *end));
                if !both.is_empty() {
                    let kind = (*host, are_related(*store, *other));
                    let known = found.entry(kind).or_insert(both);
                    *known = known.hull(both);
                }
            }
            let own = reach.entry(*store).or_insert(time.end);
            *own = (*own).max(time.end);
        }
    }
    let twice = |((host, are_related), range)| Twice {
        host,
        range,
        are_related,
    };
    found.into_iter().map(twice).collect()
}

/// Data that a host recorded into one store.
#[derive(Default)]
struct Recorder {
    journals: Vec<JournalSpan>,
    segments: Vec<(Segment, Kind)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Rows,
    Health,
    LeftOut,
}

/// Groups a host's journals, ordered by number, that share segments.
fn together(
    host: HostIndex,
    journals: Vec<JournalSpan>,
    segments: Vec<(Segment, Kind)>,
) -> Vec<Together> {
    let place = |number: u64| journals.partition_point(|journal| journal.number < number);
    // Whether a journal shares a segment with the previous one.
    let mut joined = vec![false; journals.len()];
    for (segment, _) in &segments {
        let (first, last) = (place(segment.journal), place(segment.last_journal));
        let behind_first = (first + 1).min(joined.len());
        let end = (last + 1).clamp(behind_first, joined.len().max(behind_first));
        joined[behind_first..end].fill(true);
    }
    let mut all: Vec<Together> = Vec::new();
    let mut of_journal = Vec::with_capacity(journals.len());
    for (journal, joined) in journals.iter().zip(joined) {
        match all.last_mut() {
            Some(last) if joined => last.journals.push(*journal),
            _ => all.push(Together {
                host,
                journals: vec![*journal],
                granularities: BTreeMap::new(),
            }),
        }
        of_journal.push(all.len() - 1);
    }
    for (segment, kind) in segments {
        let Some(of) = of_journal.get(place(segment.journal)) else {
            continue;
        };
        let stored = all[*of]
            .granularities
            .entry(segment.granularity)
            .or_default();
        match kind {
            Kind::Rows => stored.rows.push(segment),
            Kind::Health => stored.health.push(segment),
            Kind::LeftOut => stored.left_out.push(segment),
        }
    }
    all
}

impl Stored {
    /// Whether the journal was sealed into this granularity, and its data has not expired.
    fn is_of(&self, journal: &JournalSpan) -> bool {
        let health = self.health.iter().chain(&self.left_out);
        has(health, journal)
    }

    /// Whether all segments of a journal are readable.
    fn can_tell(&self, journal: &JournalSpan) -> bool {
        has(self.health.iter(), journal) && !has(self.left_out.iter(), journal)
    }

    fn in_range(segments: &[Segment], range: Interval) -> Vec<Segment> {
        let overlaps = |s: &&Segment| !Interval::new(s.start, s.end).intersect(range).is_empty();
        segments.iter().filter(overlaps).cloned().collect()
    }
}

fn has<'s>(mut segments: impl Iterator<Item = &'s Segment>, journal: &JournalSpan) -> bool {
    segments.any(|segment| (segment.journal..=segment.last_journal).contains(&journal.number))
}

fn extent(journal: &JournalSpan) -> Interval {
    Interval::new(journal.start, journal.end)
}

impl Together {
    fn extent(&self) -> Interval {
        let extents = self.journals.iter().map(extent);
        let nothing = Interval::new(UtcMs(0), UtcMs(0));
        extents.reduce(Interval::hull).unwrap_or(nothing)
    }

    /// Granularities of each journal in the range.
    pub(super) fn parts(&self, asked: Interval, hosts: &[String]) -> Vec<Part> {
        let mut parts = Vec::new();
        for journal in &self.journals {
            let extent = extent(journal);
            let stored = self.granularities.iter();
            let stored = stored.filter(|(_, stored)| stored.is_of(journal));
            let granularities: Vec<_> = stored.map(|(granularity, _)| *granularity).collect();
            if !extent.intersect(asked).is_empty() && !granularities.is_empty() {
                parts.push(Part {
                    host: hosts[self.host].clone(),
                    extent: Some(extent),
                    granularities,
                });
            }
        }
        parts
    }

    fn level(&self, granularity: Granularity) -> Level {
        let stored = &self.granularities[&granularity];
        let missing = self
            .journals
            .iter()
            .filter(|journal| !stored.can_tell(journal));
        Level {
            granularity,
            missing: missing.map(extent).collect(),
        }
    }

    /// Plans the reads for a range, with windows that add up to the step.
    pub(super) fn plan(&self, asked: Interval, step: Step) -> Vec<Journal> {
        let levels = self.granularities.keys().map(|g| self.level(*g));
        let levels: Vec<_> = levels.collect();
        let accepted = levels
            .iter()
            .filter(|level| step.accepts(level.granularity));
        let accepted: Vec<_> = accepted.cloned().collect();
        let Some(coarsest) = accepted.last() else {
            return Vec::new();
        };
        let extent = self.extent();
        // If an end of the range is outside the journals, it need not cut a coarse window.
        let mut range = asked;
        if asked.start <= extent.start {
            range.start = extent.start.align(coarsest.granularity);
        }
        if asked.end >= extent.end {
            range.end = align_up(extent.end, coarsest.granularity);
        }
        let parts = cover(range, &accepted).into_iter();
        let journal = |(part, place): (Interval, usize)| {
            let granularity = accepted[place].granularity;
            let finest = levels.iter().find(|level| level.has(part));
            let finest = finest.map_or(granularity, |level| level.granularity.min(granularity));
            let stored = &self.granularities[&granularity];
            let (finest_rows, finest_health) = match &self.granularities[&finest] {
                _ if finest == granularity => (Vec::new(), Vec::new()),
                stored => (
                    Stored::in_range(&stored.rows, part),
                    Stored::in_range(&stored.health, part),
                ),
            };
            Journal {
                host: self.host,
                extent,
                bounds: Bounds::exactly(part),
                granularity,
                rows: Stored::in_range(&stored.rows, part),
                health: Stored::in_range(&stored.health, part),
                coarse_health: self.health(part, granularity),
                finest,
                finest_rows,
                finest_health,
            }
        };
        parts.map(journal).collect()
    }

    /// Splits a part with one answering granularity among health rows of that granularity and coarser ones.
    fn health(&self, part: Interval, granularity: Granularity) -> Vec<HealthPart> {
        let coarser = self.granularities.keys().filter(|g| **g >= granularity);
        let levels: Vec<_> = coarser.map(|g| self.level(*g)).collect();
        let mut parts = cover(part, &levels);
        let is_within = |(time, _): &(Interval, usize)| time.intersect(part) == *time;
        if !parts.iter().all(is_within) {
            // This granularity lacks data of the part.
            parts = vec![(part, 0)];
        }
        let health = |(part, place): (Interval, usize)| {
            let granularity = levels[place].granularity;
            HealthPart {
                bounds: Bounds::exactly(part),
                granularity,
                segments: Stored::in_range(&self.granularities[&granularity].health, part),
            }
        };
        parts.into_iter().map(health).collect()
    }
}
