//! Coverage: distinguishes *no data* from *idle*.
//!
//! The recorder writes a health row for every window, with the milliseconds in which its probes were attached.
//! If these add up to less than the range, there is a gap.

pub mod captures;
pub mod damage;
pub mod note;
pub mod recorded_time;
pub mod stalls;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use trackiops_schemas::row::Health;
use trackiops_schemas::shed::{Detail, Details};
use trackiops_schemas::time::UtcMs;

pub use crate::interval::Interval;

use crate::coverage::captures::{CapturedStream, Captures, Lacking};
use crate::coverage::stalls::{Stall, Stalls};

/// A window and its recorded time. It is not known which part of the window was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The window, cut to the extent of its journal.
    pub window: Interval,
    /// Recorded time, ms.
    pub covered_ms: u64,
}

impl Piece {
    fn is_whole(&self) -> bool {
        self.covered_ms >= self.window.ms()
    }
}

/// A part of the range that was not recorded, or not completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The part.
    pub range: Interval,
    /// Unrecorded time in it, ms.
    pub missing_ms: u64,
}

impl Gap {
    /// Whether the whole part was unrecorded.
    pub fn is_whole(&self) -> bool {
        self.missing_ms >= self.range.ms()
    }
}

/// Requests that rows lack, or have only as sums, and their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses {
    /// From the first to the last window with such requests.
    pub range: Interval,
    /// Number of such requests in the range.
    pub count: u64,
    /// Number of all requests seen in the range.
    pub seen: u64,
}

impl Losses {
    /// Adds up windows, each with a number of such requests and a number of requests seen. `None` without losses.
    pub fn between(windows: impl Iterator<Item = (Interval, u64, u64)> + Clone) -> Option<Self> {
        let with_loss = windows.clone().filter(|(_, count, _)| *count > 0);
        let range = with_loss
            .map(|(window, ..)| window)
            .reduce(Interval::hull)?;
        let mut losses = Self {
            range,
            count: 0,
            seen: 0,
        };
        for (window, count, seen) in windows {
            if !window.intersect(range).is_empty() {
                losses.count = losses.count.saturating_add(count);
                losses.seen = losses.seen.saturating_add(seen);
            }
        }
        Some(losses)
    }
}

/// Coverage of one host.
#[derive(Debug, Default)]
pub struct Coverage {
    pieces: Vec<Piece>,
    health: Vec<(Interval, Health)>,
    stalls: Stalls,
    filters: BTreeMap<Arc<str>, Interval>,
    sources: BTreeMap<Arc<str>, Interval>,
    captures: Captures,
    left_out: Option<Gap>,
    without_calls: Option<Gap>,
    without_block: Option<Gap>,
    shed: BTreeMap<Detail, Gap>,
}

/// Adds a window to the range of a text.
fn hull(ranges: &mut BTreeMap<Arc<str>, Interval>, text: &Arc<str>, window: Interval) {
    let known = ranges.entry(Arc::clone(text));
    known
        .and_modify(|range| *range = range.hull(window))
        .or_insert(window);
}

/// Adds a window with `missing_ms` of unrecorded time.
fn extend(gap: &mut Option<Gap>, window: Interval, missing_ms: u64) {
    if missing_ms > 0 {
        let known = gap.get_or_insert(Gap {
            range: window,
            missing_ms: 0,
        });
        known.range = known.range.hull(window);
        known.missing_ms += missing_ms;
    }
}

impl Coverage {
    /// Adds a recorded window in which the recorder was configured to skip the planned dataset for `missing_ms`.
    pub fn leave_out(&mut self, window: Interval, missing_ms: u64) {
        extend(&mut self.left_out, window, missing_ms);
    }

    /// Adds a recorded window, if application calls or requests to block devices were not recorded in it.
    pub fn leave_levels_out(&mut self, window: Interval, health: &Health) {
        let with_calls_ms = health.app_covered_ms.saturating_add(health.shed_calls_ms);
        let without_calls_ms = health.covered_ms.saturating_sub(with_calls_ms);
        extend(&mut self.without_calls, window, without_calls_ms);
        let without_block_ms = health.covered_ms.saturating_sub(health.block_covered_ms);
        extend(&mut self.without_block, window, without_block_ms);
    }

    /// Adds a recorded window in which the recorder shed details.
    pub fn shed(&mut self, window: Interval, health: &Health) {
        for detail in Detail::ALL {
            let shed_ms = detail.shed_ms(health);
            if shed_ms > 0 {
                let mut known = self.shed.remove(&detail);
                extend(&mut known, window, shed_ms);
                self.shed.extend(known.map(|gap| (detail, gap)));
            }
        }
    }

    /// Details that were shed, with their range and time. Details with the same range and time come together.
    pub fn details_shed(&self) -> Vec<(Details, Gap)> {
        let mut together: Vec<(Details, Gap)> = Vec::new();
        for (detail, gap) in &self.shed {
            match together.last_mut() {
                Some((details, same)) if same == gap => {
                    *details = details.iter().chain([*detail]).collect();
                }
                _ => together.push(([*detail].into_iter().collect(), *gap)),
            }
        }
        together
    }

    /// Range and time in which application calls were not counted.
    pub fn without_calls(&self) -> Option<Gap> {
        self.without_calls
    }

    /// Range and time in which application calls were shed, because tracing had reached its ceiling.
    pub fn calls_shed(&self) -> Option<Gap> {
        self.shed.get(&Detail::Calls).copied()
    }

    /// Range and time in which requests to block devices were not recorded.
    pub fn without_block(&self) -> Option<Gap> {
        self.without_block
    }

    /// Range and time in which the recorder was configured to skip the planned dataset.
    pub fn left_out(&self) -> Option<Gap> {
        self.left_out
    }

    /// Adds the health of a window. Windows of several journals may overlap.
    pub fn add_health(&mut self, window: Interval, health: Health) {
        if let Some(pending) = &health.pending {
            self.stalls.add(window, pending);
        }
        if let Some(filter) = &health.filter {
            hull(&mut self.filters, filter, window);
        }
        if let Some(source) = &health.source {
            hull(&mut self.sources, source, window);
        }
        self.captures.add(window, &health.captured);
        let noted = [
            health.seen,
            health.lost,
            health.missed,
            health.clock_steps,
            health.tenant_changes,
            health.audit_missed_requests,
            health.audit_missed_bytes,
            health.audit_alarms,
            health.requests_dropped,
        ];
        if noted.iter().any(|count| *count > 0) {
            self.health.push((window, health));
        }
    }

    /// Adds the recorded time of a window.
    pub fn add_piece(&mut self, piece: Piece) {
        if !piece.window.is_empty() {
            self.pieces.push(piece);
        }
    }

    /// Losses by the counter `of`: lost or missed requests.
    pub fn losses(&self, of: fn(&Health) -> u64) -> Option<Losses> {
        let windows = self.health.iter();
        Losses::between(windows.map(|(window, health)| (*window, of(health), health.seen)))
    }

    /// Takes the filters, each with the time from its first to its last window.
    pub fn filters(&mut self) -> Vec<(Interval, Arc<str>)> {
        let filters = mem::take(&mut self.filters).into_iter();
        let mut filters: Vec<_> = filters.map(|(filter, range)| (range, filter)).collect();
        filters.sort();
        filters
    }

    /// The kinds of imports, each with the time from its first to its last window.
    pub fn sources(&self) -> impl Iterator<Item = (&Arc<str>, Interval)> {
        self.sources.iter().map(|(source, range)| (source, *range))
    }

    /// The bytes that imported captures lack.
    pub fn lacking(&self) -> Option<Lacking> {
        self.captures.lacking()
    }

    /// Takes the streams of captures.
    pub fn captures(&mut self) -> Vec<CapturedStream> {
        mem::take(&mut self.captures).finish()
    }

    /// Takes the stalls of servers.
    pub fn stalls(&mut self) -> Vec<Stall> {
        mem::take(&mut self.stalls).finish()
    }

    /// Total of the counter `of`, such as steps of the wall clock, and the time from the first to the last.
    pub fn count(&self, of: fn(&Health) -> u64) -> Option<(Interval, u64)> {
        let counts = self
            .health
            .iter()
            .map(|(window, health)| (*window, of(health)));
        let add =
            |(r, n): (Interval, u64), (s, m): (Interval, u64)| (r.hull(s), n.saturating_add(m));
        counts.filter(|(_, count)| *count > 0).reduce(add)
    }

    /// Requests that are in rows `(missed)`, and their bytes.
    pub fn booked(&self) -> Option<(Interval, u64, u64)> {
        let requests = self.count(|health| health.audit_missed_requests);
        let bytes = self.count(|health| health.audit_missed_bytes);
        let ranges = requests.into_iter().chain(bytes).map(|(range, _)| range);
        let count = |of: Option<(Interval, u64)>| of.map_or(0, |(_, count)| count);
        Some((
            ranges.reduce(Interval::hull)?,
            count(requests),
            count(bytes),
        ))
    }

    /// End of the last recorded window.
    pub fn recorded_until(&self) -> Option<UtcMs> {
        self.pieces.iter().map(|piece| piece.window.end).max()
    }

    /// Windows in which the wall clock was set.
    pub fn clock_steps(&self) -> impl Iterator<Item = Interval> {
        let stepped = self.health.iter().filter(|(_, of)| of.clock_steps > 0);
        stepped.map(|(window, _)| *window)
    }

    /// Gaps from `since` to `until`. An open end becomes the end of the recorded time in this range. `span` is the time
    /// of all of the host's data. The recorder started in its first window and stopped in its last one, so these two
    /// windows have a known start and end.
    pub fn gaps(&self, since: Option<UtcMs>, until: Option<UtcMs>, span: Interval) -> Vec<Gap> {
        let mut pieces = add_up(self.pieces.clone());
        trim_edges(&mut pieces, span);
        let recorded = pieces.first().zip(pieces.last());
        let recorded = recorded.map(|(a, z)| Interval::new(a.window.start, z.window.end));
        let recorded = recorded.unwrap_or(span);
        let (start, end) = (
            since.unwrap_or(recorded.start),
            until.unwrap_or(recorded.end),
        );
        let mut gaps = Vec::new();
        let mut region = Region::after(start);
        for piece in pieces {
            if piece.is_whole() {
                let next = Region::after(piece.window.end.max(region.start));
                gaps.extend(region.close(piece.window.start));
                region = next;
            } else {
                region.partial.push(piece);
            }
        }
        gaps.extend(region.close(end));
        gaps.retain(|gap| !gap.range.is_empty() && gap.missing_ms > 0);
        gaps
    }
}

/// Sorts the pieces, and adds up overlapping ones: a restart cuts a window, so two journals share it.
fn add_up(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| piece.window);
    let mut sum: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match sum.last_mut() {
            Some(last) if piece.window.start < last.window.end => {
                last.window = last.window.hull(piece.window);
                last.covered_ms += piece.covered_ms;
            }
            _ => sum.push(piece),
        }
    }
    sum
}

/// Cuts off the time before the first start and after the last stop.
fn trim_edges(pieces: &mut [Piece], span: Interval) {
    let covered = |piece: &Piece| i64::try_from(piece.covered_ms).unwrap_or(i64::MAX);
    if let Some(first) = pieces.first_mut()
        && !first.is_whole()
        && first.window.start <= span.start
    {
        first.window.start = UtcMs(first.window.end.0.saturating_sub(covered(first)));
    }
    if let Some(last) = pieces.last_mut()
        && !last.is_whole()
        && last.window.end >= span.end
    {
        last.window.end = UtcMs(last.window.start.0.saturating_add(covered(last)));
    }
}

/// The time between two completely recorded pieces.
struct Region {
    start: UtcMs,
    partial: Vec<Piece>,
}

impl Region {
    fn after(start: UtcMs) -> Self {
        Self {
            start,
            partial: Vec::new(),
        }
    }

    /// The gap up to `end`. It can begin and end within a window, if the recorder stopped in the first one and started
    /// again in the last one.
    fn close(self, end: UtcMs) -> Option<Gap> {
        let mut range = Interval::new(self.start, end);
        if range.is_empty() {
            return None;
        }
        let covered: u64 = self.partial.iter().map(|piece| piece.covered_ms).sum();
        let missing_ms = range.ms().saturating_sub(covered);
        let touches_start = |p: &&Piece| p.window.start <= range.start;
        let touches_end = |p: &&Piece| p.window.end >= range.end;
        let head = self.partial.first().filter(touches_start);
        let tail = self.partial.last().filter(touches_end);
        let only_one_touches_both = self.partial.len() == 1 && head.is_some() && tail.is_some();
        if !only_one_touches_both {
            let ms = |piece: Option<&Piece>| piece.map_or(0, |p| p.covered_ms as i64);
            let (head, tail) = (ms(head), ms(tail));
            range.start.0 += head;
            range.end.0 -= tail;
        }
        Some(Gap { range, missing_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: i64, end: i64) -> Interval {
        Interval::new(UtcMs(start), UtcMs(end))
    }

    fn gaps(asked: Interval, span: Interval, pieces: &[(i64, i64, u64)]) -> Vec<(i64, i64, u64)> {
        let mut coverage = Coverage::default();
        for (start, end, covered_ms) in pieces.iter().copied() {
            let window = at(start, end);
            coverage.add_piece(Piece { window, covered_ms });
        }
        let gaps = coverage
            .gaps(Some(asked.start), Some(asked.end), span)
            .into_iter();
        gaps.map(|g| (g.range.start.0, g.range.end.0, g.missing_ms))
            .collect()
    }

    #[test]
    fn covered_time_has_no_gap_however_it_is_cut() {
        let all = at(0, 10_000);
        assert_eq!(gaps(all, all, &[(0, 10_000, 10_000)]), []);
        let cut = [(4000, 10_000, 6000), (0, 3000, 3000), (3000, 4000, 1000)];
        assert_eq!(gaps(all, all, &cut), []);
        // A restart within the window of 3000, so two journals share it.
        let shared = [(0, 4000, 3400), (3000, 10_000, 6600)];
        assert_eq!(gaps(all, all, &shared), []);
    }

    #[test]
    fn a_restart_gap_is_known_to_the_millisecond() {
        let all = at(0, 10_000);
        let pieces = [
            (0, 3000, 3000),
            (3000, 4000, 600),
            (7000, 8000, 700),
            (8000, 10_000, 2000),
        ];
        assert_eq!(gaps(all, all, &pieces), [(3600, 7300, 3700)]);
        let touching = [
            (0, 3000, 3000),
            (3000, 4000, 600),
            (4000, 5000, 700),
            (5000, 10_000, 5000),
        ];
        assert_eq!(gaps(all, all, &touching), [(3600, 4300, 700)]);
    }

    #[test]
    fn a_restart_within_one_window_tells_how_much_is_missing() {
        let all = at(0, 10_000);
        let pieces = [(0, 3000, 3000), (3000, 4000, 600), (4000, 10_000, 6000)];
        assert_eq!(gaps(all, all, &pieces), [(3000, 4000, 400)]);
    }

    #[test]
    fn the_windows_of_the_first_start_and_the_last_stop_are_no_gaps() {
        let span = at(0, 10_000);
        let pieces = [(0, 1000, 300), (1000, 9000, 8000), (9000, 10_000, 10)];
        assert_eq!(gaps(at(700, 9010), span, &pieces), []);
        // A range beyond the recorded time gets a gap at each end.
        assert_eq!(
            gaps(at(-5000, 12_000), span, &pieces),
            [(-5000, 700, 5700), (9010, 12_000, 2990)]
        );
        assert_eq!(gaps(at(700, 1000), at(0, 1000), &[(0, 1000, 300)]), []);
        let mut coverage = Coverage::default();
        for (start, end, covered_ms) in pieces {
            let window = at(start, end);
            coverage.add_piece(Piece { window, covered_ms });
        }
        assert_eq!(coverage.gaps(None, None, span), []);
    }

    #[test]
    fn a_range_without_any_window_is_one_gap() {
        assert_eq!(gaps(at(0, 10), at(500, 600), &[]), [(0, 10, 10)]);
    }

    #[test]
    fn a_flapping_recorder_is_one_gap_that_is_not_whole() {
        let all = at(0, 10_000);
        let pieces = [
            (0, 3000, 3000),
            (3000, 4000, 600),
            (5000, 6000, 100),
            (8000, 10_000, 2000),
        ];
        assert_eq!(gaps(all, all, &pieces), [(3600, 8000, 4300)]);
    }

    #[test]
    fn losses_count_between_the_first_and_the_last() {
        let mut coverage = Coverage::default();
        for (i, lost) in [0, 2, 0, 1, 0].into_iter().enumerate() {
            let start = i as i64 * 1000;
            let health = Health {
                seen: 10,
                lost,
                ..Health::default()
            };
            coverage.add_health(at(start, start + 1000), health);
        }
        let losses = coverage.losses(|health| health.lost).unwrap();
        assert_eq!(
            (losses.range, losses.count, losses.seen),
            (at(1000, 4000), 3, 30)
        );
        assert!(coverage.losses(|health| health.missed).is_none());
    }
}
