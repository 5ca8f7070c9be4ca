//! Messages of a recording: stalls, differences between rows and the kernel's counters, and the final summary.

use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use trackiops_collector::{RecordingTotals, Stall, StallChange, Unprobed};
use trackiops_query::coverage::stalls::stalled;
use trackiops_render::units::plural;
use trackiops_schemas::kernel_usage::{KernelUsage, TracingLoad};
use trackiops_schemas::row::Health;
use trackiops_schemas::shed::Details;
use trackiops_store::{RequestCounts, Warning};

use crate::output::say;
use crate::recorder::log::{self, Level};

/// The message that a server has stopped answering, or that nothing waits for it any more.
fn stall_text(Stall { change, server }: &Stall) -> String {
    let requests = match server.requests_max {
        1 => "1 request".to_owned(),
        n => format!("{n} requests"),
    };
    match change {
        StallChange::Stalled => format!(
            "{server} {}: {requests} pending",
            stalled(server.age_ms_max)
        ),
        StallChange::Over => format!(
            "{server} no longer stalled: {requests} had waited for up to {} s",
            server.age_ms_max / 1000
        ),
    }
}

/// Reports that a server has stopped answering, or that nothing waits for it any more.
pub fn report_stall(stall: &Stall) {
    let (level, event) = match stall.change {
        StallChange::Stalled => (Level::Warning, "stall"),
        StallChange::Over => (Level::Notice, "stall-end"),
    };
    let server = &stall.server;
    let fields = [
        (
            "TRACKIOPS_SERVER",
            server.address.clone().unwrap_or_default(),
        ),
        ("TRACKIOPS_MOUNTS", server.mounts.join(" ")),
        ("TRACKIOPS_REQUESTS", server.requests_max.to_string()),
        ("TRACKIOPS_AGE_MS", server.age_ms_max.to_string()),
    ];
    log::report(level, event, &fields, stall_text(stall));
}

/// Reports warnings of the threads that write the store.
pub fn report_warning(warning: Warning) {
    let (level, event) = match &warning {
        Warning::RecoveredWindows { .. } | Warning::RecoveredRequests { .. } => {
            (Level::Notice, "recovered")
        }
        Warning::Quarantined(_) => (Level::Error, "damaged"),
        Warning::WillRetry(_) => (Level::Warning, "retry"),
        Warning::Spared(_) => (Level::Notice, "spared"),
        Warning::RequestsFull(_) => (Level::Notice, "requests-full"),
        Warning::RequestsLeftOut => (Level::Warning, "requests-left-out"),
        Warning::CannotWriteRequests(_) | Warning::RequestsEnded(_) => {
            (Level::Error, "requests-failing")
        }
        Warning::RequestsWrittenAgain => (Level::Notice, "requests-written"),
        Warning::CannotWrite(_) => (Level::Error, "store-failing"),
        Warning::Replaced(_) => (Level::Error, "store-replaced"),
        Warning::WrittenAgain { .. } => (Level::Notice, "store-written"),
        Warning::WindowLeftOut(_) | Warning::WaitingLost(_) | Warning::LostAfterPanic(_) => {
            (Level::Error, "windows-lost")
        }
    };
    log::report(level, event, &[], warning);
}

/// Reports changes in shedding, at most once in ten seconds: a varying load must not fill a log.
#[derive(Default)]
pub struct ShedReports {
    /// Whether the lack of room for files was reported. That is done once.
    is_full: bool,
    reported: Details,
    last: Option<Instant>,
}

/// Least time between two such reports.
const SHED_REPORTS_APART: Duration = Duration::from_secs(10);

impl ShedReports {
    /// Compares the present state of tracing with the reported one.
    pub fn follow(&mut self, usage: &KernelUsage, now: Instant) {
        if usage.files_are_full && !mem::replace(&mut self.is_full, true) {
            let text = format!(
                "no room for more than {} files at a time: others are counted as (other) of their mount",
                usage.files_most
            );
            log::report(Level::Warning, "files", &[], text);
        }
        let load = &usage.tracing;
        if let Some((level, text)) = self.changed(load, now) {
            log::report(
                level,
                "shed",
                &[("TRACKIOPS_SHED", load.shed.to_string())],
                text,
            );
        }
    }

    fn changed(&mut self, load: &TracingLoad, now: Instant) -> Option<(Level, String)> {
        let is_soon = |last| now.saturating_duration_since(last) < SHED_REPORTS_APART;
        if load.shed == self.reported || self.last.is_some_and(is_soon) {
            return None;
        }
        let before = mem::replace(&mut self.reported, load.shed);
        self.last = Some(now);
        let percent = |ppm: u64| ppm as f64 / 1e4;
        let ceiling = percent(load.ceiling_ppm);
        Some(match load.shed.without(before).is_empty() {
            true if load.shed.is_empty() => (
                Level::Notice,
                format!(
                    "recorded again: {before}: tracing takes less than --max-overhead {ceiling} %"
                ),
            ),
            true => (
                Level::Notice,
                format!(
                    "recorded again: {}; still not recorded: {}",
                    before.without(load.shed),
                    load.shed
                ),
            ),
            false => (
                Level::Warning,
                format!(
                    "not recorded: {}: tracing had reached --max-overhead {ceiling} %",
                    load.shed
                ),
            ),
        })
    }
}

/// The alarm if rows and the kernel's counters differ without a known reason, by so much that an error is likely.
pub fn alarm(health: &Health) -> Option<String> {
    let added = match health.audit_missed_requests {
        0 => String::new(),
        some => format!("; {} were added as rows (missed)", plural(some, "request")),
    };
    (health.audit_alarms > 0).then(|| {
        format!(
            "warning: the rows and the kernel's counters (/proc/self/mountstats, /sys/block/*/stat) differ for no known \
             reason{added}; please report this with `trackiops doctor`"
        )
    })
}

/// Reports requests without a probe run, for each mount from time to time.
#[derive(Default)]
pub struct UnprobedReports(HashMap<String, Instant>);

/// Least time between two reports of one mount.
const UNPROBED_REPORTS_APART: Duration = Duration::from_secs(600);

impl UnprobedReports {
    /// Reports new findings.
    pub fn follow(&mut self, found: &[Unprobed], now: Instant) {
        for (text, fields) in self.due(found, now) {
            log::report(Level::Notice, "unprobed", &fields, text);
        }
    }

    fn due(
        &mut self,
        found: &[Unprobed],
        now: Instant,
    ) -> Vec<(String, [(&'static str, String); 3])> {
        let mut due = Vec::new();
        for found in found {
            let is_soon =
                |last: &Instant| now.saturating_duration_since(*last) < UNPROBED_REPORTS_APART;
            if !self.0.get(&found.of).is_some_and(is_soon) {
                self.0.insert(found.of.clone(), now);
                let fields = [
                    ("TRACKIOPS_OF", found.of.clone()),
                    ("TRACKIOPS_MISSED", found.missed.to_string()),
                    ("TRACKIOPS_COUNTED", found.counted.to_string()),
                ];
                due.push((found.text(), fields));
            }
        }
        due
    }
}

/// Reports the summary of a recording.
pub fn report(totals: &RecordingTotals, kept: &RequestCounts) {
    let (seen, lost) = (totals.books.seen, totals.books.lost);
    say(format_args!(
        "stopped: {seen} requests seen, {} recorded{}, {lost} lost{}{}{}",
        totals.read,
        folded(totals.folded),
        missed(totals.missed),
        booked(totals.booked),
        left_out(kept.unwritten())
    ));
    if totals.unbalanced > 0 {
        say(format_args!(
            "warning: {} times the kernel had counted more requests as recorded, folded or lost than as \
             seen: the numbers above are wrong; please report this with `trackiops doctor`",
            totals.unbalanced
        ));
    }
}

/// The number of folded requests, if any.
pub fn folded(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", {some} folded"),
    }
}

/// The number of requests that may have been missed, if any.
pub fn missed(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", up to {some} missed"),
    }
}

/// The number of requests that only the kernel's counters have, if any.
pub fn booked(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", {some} in rows (missed)"),
    }
}

/// The number of requests that should have been kept one by one but were not, if any.
pub fn left_out(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", {some} not kept one by one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::pending::StalledServer;
    use trackiops_schemas::shed::Detail;

    #[test]
    fn a_stall_is_told_when_it_begins_and_when_it_is_over() {
        let mut told = Stall {
            change: StallChange::Stalled,
            server: StalledServer {
                address: Some("10.0.0.5".to_owned()),
                mounts: Vec::new(),
                requests_max: 1,
                age_ms_max: 1400,
            },
        };
        assert_eq!(stall_text(&told), "10.0.0.5 STALLED 1 s: 1 request pending");
        told.change = StallChange::Over;
        (told.server.requests_max, told.server.age_ms_max) = (17, 42_900);
        assert_eq!(
            stall_text(&told),
            "10.0.0.5 no longer stalled: 17 requests had waited for up to 42 s"
        );
    }

    #[test]
    fn what_is_left_out_is_reported_once_per_change() {
        let mut reports = ShedReports::default();
        let begin = Instant::now();
        let mut said = |seconds, details: &[Detail]| {
            let load = TracingLoad {
                ceiling_ppm: 30_000,
                shed: details.iter().copied().collect(),
                ..TracingLoad::default()
            };
            let changed = reports.changed(&load, begin + Duration::from_secs(seconds));
            changed.map(|(_, text)| text)
        };
        assert_eq!(said(0, &[]), None);
        let both = [Detail::SingleCalls, Detail::Calls];
        let text = said(1, &both).unwrap();
        assert_eq!(
            text,
            "not recorded: single calls, calls: tracing had reached --max-overhead 3 %"
        );
        assert_eq!(said(2, &both), None);
        assert_eq!(said(3, &[]), None, "too soon");
        let text = said(12, &both[..1]).unwrap();
        assert_eq!(
            text,
            "recorded again: calls; still not recorded: single calls"
        );
        let text = said(30, &[]).unwrap();
        let expected = "recorded again: single calls: tracing takes less than --max-overhead 3 %";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_difference_for_no_known_reason_is_an_alarm() {
        let mut health = Health {
            audit_missed_requests: 2,
            ..Health::default()
        };
        assert_eq!(alarm(&health), None);
        health.audit_alarms = 1;
        let said = alarm(&health).unwrap();
        assert!(said.contains("; 2 requests were added"), "{said}");
        health.audit_missed_requests = 0;
        let said = alarm(&health).unwrap();
        assert!(!said.contains("added") && !said.contains(" 0 "), "{said}");
    }

    #[test]
    fn requests_without_a_probe_are_reported_from_time_to_time() {
        let mut reports = UnprobedReports::default();
        let begin = Instant::now();
        let mut said = |seconds, of: &str, missed| {
            let of = of.to_owned();
            let found = [Unprobed {
                of,
                missed,
                counted: 26_010,
            }];
            let due = reports.due(&found, begin + Duration::from_secs(seconds));
            due.into_iter().map(|(text, _)| text).collect::<Vec<_>>()
        };
        let text = "missed 12 of 26,010 requests of vda, 0.05 %: no probe ran; they are in its row (missed)";
        assert_eq!(said(0, "vda", 12), [text]);
        assert!(said(60, "vda", 13).is_empty());
        assert_eq!(said(61, "nas:/home", 1).len(), 1);
        assert_eq!(said(700, "vda", 14).len(), 1);
    }
}
