//! Collects the notes of an answer.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use trackiops_schemas::columns::APP_DIRECTIONS;
use trackiops_schemas::row::AppCalls;
use trackiops_schemas::shed::Details;
use trackiops_schemas::time::UtcMs;

use crate::answer::AnswerRow;
use crate::coverage::captures::Lacking;
use crate::coverage::note::Note;
use crate::coverage::stalls::Stall;
use crate::coverage::{Coverage, Gap, Losses};
use crate::interval::Interval;
use crate::plan::Plan;
use crate::question::Question;
use crate::step::Step;

/// Most gaps with separate notes; one note sums up the others.
const MAX_GAPS: usize = 20;
/// Least unrecorded time that needs a note, ms. A restart of the recorder misses less.
const LEAST_GAP_MS: u64 = 1000;
/// Most stalls with separate notes, longest first; one note counts the others.
const MAX_STALLS: usize = 20;
/// A live recording closes its last window within this time after the window's end, ms. Until then, the present is not
/// a gap. Two windows of the finest granularity apply if they are longer.
const CLOSING_MS: i64 = 5000;

/// Adds notes about the range, its coverage, and folded requests in the rows.
pub(crate) fn notes(
    mut notes: Vec<Note>,
    hosts: Vec<(Coverage, Option<Interval>)>,
    plan: &Plan<'_>,
    question: &Question,
    is_empty: bool,
    folded: Option<Losses>,
) -> Vec<Note> {
    if let (Some(finest), Step::Windows(step), true) = (plan.finer, plan.step, !is_empty) {
        notes.push(Note::StepChosen { step, finest });
    }
    let several = plan.hosts.len() > 1;
    // Each client of a capture is a host, so hosts are not named one by one.
    let mut sources: BTreeMap<Arc<str>, Interval> = BTreeMap::new();
    let mut lacking: Option<Lacking> = None;
    for (host, (mut coverage, span)) in plan.hosts.iter().zip(hosts) {
        let Some(span) = span else { continue };
        let host = several.then(|| host.clone());
        for (source, range) in coverage.sources() {
            let known = sources.entry(Arc::clone(source)).or_insert(range);
            *known = known.hull(range);
        }
        if let Some(of_host) = coverage.lacking() {
            match &mut lacking {
                Some(lacking) => lacking.merge(&of_host),
                None => lacking = Some(of_host),
            }
        }
        let mut losses = loss_notes(&host, &coverage);
        let dropped = coverage.count(|health| health.requests_dropped);
        let dropped = dropped.filter(|_| question.projection.has_single_requests());
        losses.extend(dropped.map(|(range, count)| Note::RequestsDropped {
            host: host.clone(),
            range,
            count,
        }));
        let steps = coverage.count(|health| health.clock_steps);
        let stalls = coverage.stalls();
        let filters = coverage.filters();
        let left_out = coverage.left_out();
        let without_calls = coverage.without_calls();
        let rules = coverage.count(|health| health.tenant_changes);
        let shed = coverage.details_shed();
        let gaps = gaps(&coverage, plan, question, span);
        tell_gaps(&mut notes, &host, gaps);
        tell_stalls(&mut notes, &host, stalls);
        notes.extend(filters.into_iter().map(|(range, filter)| Note::Filtered {
            host: host.clone(),
            filter,
            range,
        }));
        if let Some(gap) = left_out {
            let host = host.clone();
            notes.push(Note::LeftOut { host, gap });
        }
        if let Some(gap) = without_calls.filter(|_| question.projection.names_calls()) {
            let host = host.clone();
            notes.push(Note::WithoutCalls { host, gap });
        }
        notes.extend(shed.into_iter().filter_map(|(details, gap)| {
            let details: Details = details
                .iter()
                .filter(|detail| question.projection.depends_on(*detail))
                .collect();
            let host = host.clone();
            (!details.is_empty()).then_some(Note::Shed { host, details, gap })
        }));
        let are_tenants_asked = question.by.tenants || !question.tenants.is_empty();
        if let Some((range, count)) = rules.filter(|_| are_tenants_asked) {
            let host = host.clone();
            notes.push(Note::TenantRules { host, range, count });
        }
        notes.extend(losses);
        if let Some((range, count)) = steps {
            notes.push(Note::ClockSteps { host, range, count });
        }
    }
    let sources = sources.into_iter();
    notes.extend(sources.map(|(source, range)| Note::Imported { source, range }));
    notes.extend(lacking.map(|lacking| Note::CaptureLacks { lacking }));
    notes.extend(plan.twice.iter().map(|twice| Note::Twice {
        host: plan.hosts[twice.host].clone(),
        range: twice.range,
        are_related: twice.are_related,
    }));
    if let Some(losses) = folded {
        notes.push(Note::Folded { losses });
    }
    if let (Some(_), at) = (notes.iter().find(|note| note.has_time()), plan.asked.start) {
        notes.insert(0, Note::LocalTimes { at });
    }
    notes
}

/// Notes about requests that rows of files lack.
fn loss_notes(host: &Option<String>, coverage: &Coverage) -> Vec<Note> {
    let lost = coverage.losses(|health| health.lost);
    let missed = coverage.losses(|health| health.missed);
    let booked = coverage.booked();
    // Rows `(missed)` have the requests from the kernel's counters, so these do not make counts too low.
    let count = |losses: &Option<Losses>| losses.map_or(0, |losses| losses.count);
    let is_booked =
        booked.is_some_and(|(_, known, _)| known >= count(&lost).saturating_add(count(&missed)));
    let mut notes = Vec::new();
    if let Some(losses) = lost.filter(|_| !is_booked) {
        let host = host.clone();
        notes.push(Note::Lost { host, losses });
    }
    if let Some(losses) = missed.filter(|_| !is_booked) {
        let host = host.clone();
        notes.push(Note::Missed { host, losses });
    }
    if let Some((range, count, bytes)) = booked {
        notes.push(Note::Booked {
            host: host.clone(),
            range,
            count,
            bytes,
        });
    }
    let alarms = coverage.count(|health| health.audit_alarms);
    notes.extend(alarms.map(|(range, count)| Note::AuditAlarm {
        host: host.clone(),
        range,
        count,
    }));
    notes
}

/// Requests in the rows that are known only as sums.
pub(crate) fn folded(plan: &Plan<'_>, rows: &[AnswerRow]) -> Option<Losses> {
    let windows = rows.iter().map(|row| {
        let [read, write] = [row.sum.read(), row.sum.write()];
        let window = match plan.step {
            Step::Windows(step) => Interval::new(row.time, row.time.plus(step)),
            Step::All => plan.asked,
        };
        let [folded, seen] = [read.folded + write.folded, read.requests + write.requests];
        (window, folded, seen)
    });
    Losses::between(windows)
}

/// Notes about calls whose times are in no histogram, from operations, their times in histograms, and timed calls.
pub(crate) fn out_of_percentiles<'o>(
    counts: impl Iterator<Item = (&'o str, u64, u64)>,
) -> Vec<Note> {
    let mut by_op: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (op, known, timed) in counts {
        let sums = by_op.entry(op).or_default();
        sums.0 = sums.0.saturating_add(known.min(timed));
        sums.1 = sums.1.saturating_add(timed);
    }
    let lacking = by_op
        .into_iter()
        .filter(|(_, (known, timed))| known < timed);
    let notes = lacking.map(|(op, (known, timed))| Note::OutOfPercentiles {
        op: op.into(),
        known,
        timed,
    });
    notes.collect()
}

/// Notes about calls in the rows whose times are in no histogram, if the question names percentiles of calls.
pub(crate) fn calls_out_of_percentiles(question: &Question, rows: &[AnswerRow]) -> Vec<Note> {
    type Calls = fn(&AnswerRow) -> Cow<'_, AppCalls>;
    let both: [Calls; 2] = [|row| row.sum.app_read(), |row| row.sum.app_write()];
    let named = APP_DIRECTIONS.into_iter().zip(both);
    let named = named.filter(|(prefix, _)| question.projection.names_percentiles_of_calls(prefix));
    let counts = named.flat_map(|(prefix, calls)| {
        let name = prefix.trim_end_matches('_');
        rows.iter().map(move |row| {
            let calls = calls(row);
            (name, calls.latency.total(), calls.timed)
        })
    });
    out_of_percentiles(counts)
}

/// The gaps of a host in the range of a question. `span` is the time of all of its data.
pub(crate) fn gaps(
    coverage: &Coverage,
    plan: &Plan<'_>,
    question: &Question,
    span: Interval,
) -> Vec<Gap> {
    let until = until(plan, question, span);
    coverage.gaps(question.range.since, until, span)
}

/// End of the time in which missing data is a gap of the host: `--until`, or now if there is only `--since`. `None`
/// stands for the end of the host's data.
fn until(plan: &Plan<'_>, question: &Question, span: Interval) -> Option<UtcMs> {
    let end = match (question.range.until, question.range.since) {
        (Some(until), _) => until.min(question.now),
        (None, Some(_)) => question.now,
        (None, None) => return None,
    };
    let tails = plan.tails.iter().map(|tail| tail.tail.granularity());
    let finest = tails.chain(plan.journals.iter().map(|journal| journal.finest));
    let closing_ms = finest
        .map(|g| 2 * g.ms())
        .max()
        .unwrap_or(0)
        .max(CLOSING_MS);
    let at_work = question.now.0 - span.end.0 <= closing_ms;
    (end <= span.end || !at_work).then_some(end)
}

fn tell_gaps(notes: &mut Vec<Note>, host: &Option<String>, gaps: Vec<Gap>) {
    let is_short = |gap: &Gap| gap.missing_ms < LEAST_GAP_MS;
    let (short, mut told): (Vec<_>, Vec<_>) = gaps.into_iter().partition(is_short);
    let mut untold = told.split_off(told.len().min(MAX_GAPS));
    untold.extend(short);
    notes.extend(told.into_iter().map(|gap| Note::Gap {
        host: host.clone(),
        gap,
    }));
    let missing_ms = untold.iter().map(|gap| gap.missing_ms).sum();
    if missing_ms >= LEAST_GAP_MS {
        notes.push(Note::MoreGaps {
            count: untold.len(),
            missing_ms,
        });
    }
}

fn tell_stalls(notes: &mut Vec<Note>, host: &Option<String>, mut stalls: Vec<Stall>) {
    let count = stalls.len().saturating_sub(MAX_STALLS);
    if count > 0 {
        stalls.sort_by_key(|stall| Reverse(stall.server.age_ms_max));
        stalls.truncate(MAX_STALLS);
        stalls.sort_by_key(|stall| stall.range);
    }
    for stall in stalls {
        let host = host.clone();
        notes.push(Note::Stalled { host, stall });
    }
    if count > 0 {
        let host = host.clone();
        notes.push(Note::MoreStalls { host, count });
    }
}
