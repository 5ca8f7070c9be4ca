//! Events of a range: what people and the recorder noted, and when tenants began.
//!
//! A tenant begins in a window if it did next to nothing in the windows before. From that window on, it has much of all load.

use trackiops_query::events::{Event, EventKind};
use trackiops_query::{GroupBy, Outcome, QueryError, Question, Step, ask};

use crate::by::ReportBy;
use crate::report::ReportError;
use crate::series::{Series, SeriesSet};
use crate::subject;
use crate::usage::Usage;

/// Windows before and after a begin that are compared: at least this number, and this part of the range.
const LEAST_WINDOWS: usize = 3;
const PART: usize = 20;
/// Before it begins, a tenant has at most this part of its later rate.
const IDLE: f64 = 0.02;
/// From then on, it has at least this part of the rate of all tenants.
const LEAST_SHARE: f64 = 0.2;
/// A tenant that begins more often works in bursts, which no line would explain.
const MOST_OF_TENANT: usize = 3;
/// Most begins in a range: those with the largest share.
const MOST: usize = 10;
/// With more windows, or more rows of tenants in them, a range has no begins: they would take too much time and memory.
const MOST_WINDOWS: u64 = 100_000;
const MOST_ROWS: usize = if cfg!(test) { 1 << 12 } else { 1 << 18 };

/// Lists the events in the range of a question, by time. Begins are about the files that it selects, and about all of their tenants.
pub fn ask_events(question: &Question) -> Result<Outcome<Event>, ReportError> {
    let events = trackiops_query::ask_events(question)?;
    Ok(events.and_events(tenant_starts(question)?))
}

/// The begins of tenants, as exactly as the windows that suit the range.
fn tenant_starts(question: &Question) -> Result<Vec<Event>, ReportError> {
    let by = ReportBy {
        by: GroupBy {
            tenants: true,
            ..GroupBy::HOST
        },
        hosts: true,
    };
    let asked = Question {
        step: None,
        by: by.by,
        projection: Usage::needs().with(subject::needs()),
        // Rows of several levels are not added up, and then the first level with rows is as good as another.
        levels: match question.levels[..] {
            [level] => vec![level],
            _ => Vec::new(),
        },
        // A tenant is explained by those beside it.
        tenants: Vec::new(),
        ops: Vec::new(),
        conditions: Vec::new(),
        sort: None,
        top: None,
        row_limit: Some(MOST_ROWS),
        ..question.clone()
    };
    let answer = match ask(&asked) {
        Ok(Outcome::Found(answer)) => answer,
        Ok(Outcome::Nothing { .. })
        | Err(QueryError::NoCommonStep { .. } | QueryError::TooManyRows) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let Step::Windows(length) = answer.step else {
        return Ok(Vec::new());
    };
    if answer.range.ms() / length.ms().unsigned_abs() > MOST_WINDOWS {
        return Ok(Vec::new());
    }
    let set = SeriesSet::new(answer, by, length, Usage::of)?;
    Ok(starts(&set))
}

/// What is done, in words.
type Measure = (&'static str, fn(&Usage) -> u64);
const MEASURES: [Measure; 2] = [("bytes", Usage::bytes), ("operations", operations)];

fn operations(of: &Usage) -> u64 {
    of.requests() + of.metadata_operations
}

/// The begin of a tenant.
struct Start {
    /// Indices of the series and of the window.
    series: usize,
    at: usize,
    /// Part of all load in the windows from then on.
    share: f64,
    /// What is loaded.
    what: &'static str,
}

fn starts(set: &SeriesSet<Usage>) -> Vec<Event> {
    let count = set.intervals.count;
    let length = LEAST_WINDOWS.max(count / PART);
    let mut found: Vec<Start> = Vec::new();
    for (what, measure) in MEASURES {
        let all = all_rates(set, measure);
        for (series, of) in set.series.iter().enumerate() {
            let rates = set.rates(of, measure);
            for at in begins(&rates, length) {
                let windows = at..count.min(at + length);
                let share = sum(&rates[windows.clone()]) / all[windows].iter().sum::<f64>();
                if share >= LEAST_SHARE {
                    found.push(Start {
                        series,
                        at,
                        share,
                        what,
                    });
                }
            }
        }
    }
    // The larger one of both measures remains.
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut kept: Vec<Start> = Vec::new();
    for start in found {
        if !kept.iter().any(|of| is_same(of, &start, length)) {
            kept.push(start);
        }
    }
    let of_tenant = |series| kept.iter().filter(|of| of.series == series).count();
    let rare = kept
        .iter()
        .filter(|of| of_tenant(of.series) <= MOST_OF_TENANT);
    rare.filter_map(|start| event(set, start))
        .take(MOST)
        .collect()
}

/// The rate of all series together in each window.
fn all_rates(set: &SeriesSet<Usage>, measure: fn(&Usage) -> u64) -> Vec<f64> {
    let mut all = vec![0.0; set.intervals.count];
    for series in &set.series {
        for (sum, rate) in all.iter_mut().zip(set.rates(series, measure)) {
            *sum += rate.unwrap_or(0.0);
        }
    }
    all
}

/// Whether both are of one tenant and about the same time.
fn is_same(a: &Start, b: &Start, length: usize) -> bool {
    a.series == b.series && a.at.abs_diff(b.at) < length
}

/// The sum of recorded windows.
fn sum(rates: &[Option<f64>]) -> f64 {
    rates.iter().flatten().sum()
}

/// Indices of windows in which a load begins.
fn begins(rates: &[Option<f64>], length: usize) -> Vec<usize> {
    let begins = |at: &usize| {
        // Of time that was not recorded it is not known whether the tenant was idle.
        let did_at_most = |most: f64| {
            let mut before = rates[at - length..*at].iter().rev();
            before.all(|rate| rate.is_some_and(|rate| rate <= most))
        };
        // Most windows end here, and no sum is needed for them.
        let Some(rate) = rates[*at].filter(|rate| *rate > 0.0 && did_at_most(*rate)) else {
            return false;
        };
        let after = &rates[*at..rates.len().min(at + length)];
        let recorded = after.iter().flatten().count();
        let idle = IDLE * sum(after) / recorded.max(1) as f64;
        recorded >= LEAST_WINDOWS && rate > idle && did_at_most(idle)
    };
    (length..rates.len()).filter(begins).collect()
}

/// The event; `None` if nothing is known of the tenant.
fn event(set: &SeriesSet<Usage>, start: &Start) -> Option<Event> {
    let Series { subject, .. } = &set.series[start.series];
    let tenant = subject.tenant.named()?;
    Some(Event {
        time: set.intervals.at(start.at).start,
        host: subject.host.as_deref().unwrap_or_default().to_owned(),
        kind: EventKind::TenantStart,
        text: format!(
            "{tenant} begins: {:.0} % of all {}",
            100.0 * start.share,
            start.what
        ),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
mod tests {
    use super::*;
    use trackiops_schemas::row::ClosedWindow;
    use trackiops_testkit::incidents::{at, nfs, noisy_neighbour, office, recorded, usual};
    use trackiops_testkit::questions::question;
    use trackiops_testkit::stores::{options_of, record};

    fn events(windows: &[ClosedWindow]) -> Vec<Event> {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), options_of("web-1", "1s,10s,1m", "1h"), windows);
        match ask_events(&question(dir.path())).unwrap() {
            Outcome::Found(answer) => answer.rows,
            Outcome::Nothing { .. } => Vec::new(),
        }
    }

    #[test]
    fn a_backup_begins_and_a_database_that_goes_on_does_not() {
        let found = events(&noisy_neighbour());
        let [start] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((start.time, start.kind), (at(600), EventKind::TenantStart));
        assert_eq!(start.host, "web-1");
        assert!(
            start.text.starts_with("0:/backup.service begins: ")
                && start.text.ends_with(" % of all bytes"),
            "{}",
            start.text
        );
    }

    #[test]
    fn bursts_of_a_tenant_are_no_begins() {
        let batch = nfs("nas:/data", "/srv/scratch/batch", "0:/batch.service");
        let windows = recorded(1, 600, |second, scene| {
            office(scene, 1.0);
            if second % 100 >= 60 {
                scene.writes(&batch, usual(50.0, 1 << 20, 900.0));
            }
        });
        assert_eq!(events(&windows), []);
    }

    #[test]
    fn a_question_about_a_tenant_has_the_begins_of_others() {
        let dir = tempfile::tempdir().unwrap();
        record(
            dir.path(),
            options_of("web-1", "1s,10s,1m", "1h"),
            &noisy_neighbour(),
        );
        let mut asked = question(dir.path());
        asked.tenants = vec!["0:/other.service".to_owned()];
        let Outcome::Found(answer) = ask_events(&asked).unwrap() else {
            panic!("nothing found");
        };
        let kinds: Vec<_> = answer.rows.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::TenantStart]);
    }

    #[test]
    fn more_tenants_than_fit_into_memory_have_no_begins() {
        let batch = nfs("nas:/data", "/srv/scratch/batch", "0:/batch.service");
        let begins = |tenants: usize| {
            let of = |n: usize| nfs("nas:/data", &format!("/srv/{n}"), &format!("{n}:/job"));
            let others: Vec<_> = (0..tenants).map(of).collect();
            let windows = recorded(1, 600, |second, scene| {
                for file in &others {
                    scene.reads(file, usual(2.0, 4096, 300.0));
                }
                if second >= 300 {
                    scene.writes(&batch, usual(50.0, 1 << 20, 900.0));
                }
            });
            events(&windows).len()
        };
        assert_eq!((begins(2), begins(64)), (1, 0));
    }

    #[test]
    fn a_recording_that_begins_is_no_begin_of_a_tenant() {
        let mut windows = recorded(1, 300, |_, scene| office(scene, 1.0));
        // Not known, which is not idle.
        windows.drain(100..200);
        let kinds: Vec<_> = events(&windows).iter().map(|event| event.kind).collect();
        assert_eq!(
            kinds,
            [EventKind::RecorderEnded, EventKind::RecorderStarted]
        );
    }

    #[test]
    fn a_begin_is_the_first_window_after_idle_ones() {
        let rates = |text: &str| -> Vec<Option<f64>> {
            let digits = text.chars().map(|c| c.to_digit(10));
            digits.map(|digit| Some(f64::from(digit?))).collect()
        };
        for (text, expected) in [
            ("0009999", &[3][..]),
            ("000999", &[3]),
            // Too short to know.
            ("00099", &[]),
            ("1119999", &[]),
            ("00?9999", &[]),
            ("9990009990", &[6]),
        ] {
            assert_eq!(begins(&rates(text), 3), expected, "{text}");
        }
    }
}
