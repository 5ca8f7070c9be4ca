//! Notes: facts about an answer beside its rows.

use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::captured::StreamBytes;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::shed::Details;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_schemas::unit::grouped;

use crate::coverage::captures::Lacking;
use crate::coverage::stalls::{Stall, stalled};
use crate::coverage::{Gap, Losses};
use crate::group::{GroupBy, Level};
use crate::interval::Interval;
use crate::times::{Zone, show, show_length, show_offset, show_range};

/// Levels with rows in the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherLevels {
    /// The level of the answer.
    pub shown: IoLevel,
    /// The other levels.
    pub others: Vec<IoLevel>,
}

/// A fact about an answer, one line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Times are local.
    LocalTimes {
        /// A time at which the offset is valid.
        at: UtcMs,
    },
    /// A selector matches nothing that was ever recorded; the text names the selector.
    NoSuchFile(String),
    /// A selector matches only files outside of the range.
    SeenElsewhere {
        /// The selector, as text.
        names: String,
        /// From the first to the last window with such files.
        range: Interval,
    },
    /// The answer is about one level, and other levels also have rows.
    OtherLevels(OtherLevels),
    /// Entities without rows: they had no READ or WRITE requests, and no calls if the question is about calls.
    OnlyMetadata {
        /// Number of entities.
        count: usize,
        /// The kind of entity.
        by: GroupBy,
    },
    /// Lost time is unknown, because it would be compared with too many files and tenants.
    LostTimeUnknown {
        /// The limit.
        most: usize,
    },
    /// Some selected operations did not occur.
    NoOperation {
        /// These operations, as text.
        what: String,
    },
    /// The query chose a step, although finer ones are stored.
    StepChosen {
        /// The step.
        step: Granularity,
        /// The finest stored granularity.
        finest: Granularity,
    },
    /// Rows that a table omits to remain readable.
    MoreRows {
        /// Number of rows.
        count: usize,
    },
    /// The answer is from an export, which does not show unrecorded time.
    Export {
        /// Path of the export.
        path: PathBuf,
    },
    /// A part of the store is damaged.
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        why: String,
        /// Time of its data and number of their files; `None` if unknown. The number is 0 for a journal.
        covers: Option<(Interval, usize)>,
    },
    /// Damaged files beyond the limit of separate notes.
    MoreDamaged {
        /// Number of files.
        count: usize,
        /// Time of their data.
        range: Interval,
    },
    /// A part of the range was not recorded.
    Gap {
        /// The host, if there are several.
        host: Option<String>,
        /// The gap.
        gap: Gap,
    },
    /// The question is about operations, and a part of the range was recorded without them.
    LeftOut {
        /// The host, if there are several.
        host: Option<String>,
        /// The part.
        gap: Gap,
    },
    /// The question names application calls, and a part of the range was recorded without them.
    WithoutCalls {
        /// The host, if there are several.
        host: Option<String>,
        /// The part.
        gap: Gap,
    },
    /// Details of the question were shed, because tracing had reached its ceiling.
    Shed {
        /// The host, if there are several.
        host: Option<String>,
        /// The details.
        details: Details,
        /// The part.
        gap: Gap,
    },
    /// The question is about tenants, and the rules that name them changed.
    TenantRules {
        /// The host, if there are several.
        host: Option<String>,
        /// From the first to the last window with a change.
        range: Interval,
        /// Number of changes.
        count: u64,
    },
    /// Gaps beyond the limit of separate notes.
    MoreGaps {
        /// Number of gaps.
        count: usize,
        /// Sum of the unrecorded time, ms.
        missing_ms: u64,
    },
    /// Lost requests: the recorder had no room for them, and only counted them.
    Lost {
        /// The host, if there are several.
        host: Option<String>,
        /// Number and range.
        losses: Losses,
    },
    /// Single requests that were dropped although they were to be kept.
    RequestsDropped {
        /// The host, if there are several.
        host: Option<String>,
        /// From the first to the last window with such requests.
        range: Interval,
        /// Their number.
        count: u64,
    },
    /// Requests of time in which no single requests were kept.
    RequestsNotKept {
        /// From the first to the last window with such requests.
        range: Interval,
        /// Their number.
        count: u64,
    },
    /// Single requests that were deleted later, because they exceeded their budget.
    RequestsDeleted {
        /// Time of the oldest remaining ones.
        before: UtcMs,
        /// Whether they may be lost instead.
        is_unknown: bool,
    },
    /// Mounts from before the catalog was rebuilt without an earlier one.
    MountsUnknown,
    /// Folded requests: only their sums are known.
    Folded {
        /// Number and range.
        losses: Losses,
    },
    /// Calls that percentiles leave out: the kernel had no room for a histogram of their file.
    OutOfPercentiles {
        /// The operation.
        op: Arc<str>,
        /// Number of calls in the percentiles.
        known: u64,
        /// Number of timed calls.
        timed: u64,
    },
    /// Missed requests: the kernel skipped a probe.
    Missed {
        /// The host, if there are several.
        host: Option<String>,
        /// Upper bound of their number, and their range.
        losses: Losses,
    },
    /// Requests that the kernel counted but no row of a file has. Rows `(missed)` have them.
    Booked {
        /// The host, if there are several.
        host: Option<String>,
        /// From the first to the last window with such requests.
        range: Interval,
        /// Their number.
        count: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Rows and the kernel's counters differ for a reason unknown to the recorder.
    AuditAlarm {
        /// The host, if there are several.
        host: Option<String>,
        /// From the first to the last window with such a comparison.
        range: Interval,
        /// Number of such comparisons.
        count: u64,
    },
    /// A filter restricted the recording.
    Filtered {
        /// The host, if there are several.
        host: Option<String>,
        /// The filter.
        filter: Arc<str>,
        /// From the first to the last window with this filter.
        range: Interval,
    },
    /// Rows were imported.
    Imported {
        /// The kind of import.
        source: Arc<str>,
        /// From the first to the last window.
        range: Interval,
    },
    /// An imported capture lacks bytes, or has bytes that could not be parsed.
    CaptureLacks {
        /// Time and number of these bytes.
        lacking: Lacking,
    },
    /// A server did not answer.
    Stalled {
        /// The host, if there are several.
        host: Option<String>,
        /// The server, and the time of the stall.
        stall: Stall,
    },
    /// Stalls beyond the limit of separate notes.
    MoreStalls {
        /// The host, if there are several.
        host: Option<String>,
        /// Number of stalls.
        count: usize,
    },
    /// Two stores or exports have data of one host for the same time, so they are counted twice.
    Twice {
        /// The host.
        host: String,
        /// From the first to the last such time.
        range: Interval,
        /// Whether they share an id, as a copy and an export do with the store, and clones with each other. After it was made, a copy may
        /// have recorded other data. Without a common id, two hosts may have the same name.
        are_related: bool,
    },
    /// The wall clock was set.
    ClockSteps {
        /// The host, if there are several.
        host: Option<String>,
        /// From the first to the last window with a step.
        range: Interval,
        /// Number of steps.
        count: u64,
    },
}

/// Whether the recorder compares the bytes of calls with the kernel's counters under this filter. It must include all
/// READs and WRITEs.
fn compares_calls(filter: &str) -> bool {
    let words: Vec<_> = filter.split(' ').collect();
    let operations = words.chunks(2).filter_map(|pair| match pair {
        ["--ops", operation] => Some(operation.to_lowercase()),
        _ => None,
    });
    let operations: Vec<_> = operations.collect();
    let has = |name: &str| operations.iter().any(|operation| operation == name);
    2 * operations.len() == words.len() && has("read") && has("write")
}

impl Note {
    /// Whether the text has a time, which is then local.
    pub fn has_time(&self) -> bool {
        matches!(
            self,
            Self::Gap { .. }
                | Self::Damaged {
                    covers: Some(_),
                    ..
                }
                | Self::MoreDamaged { .. }
                | Self::LeftOut { .. }
                | Self::WithoutCalls { .. }
                | Self::Shed { .. }
                | Self::TenantRules { .. }
                | Self::Lost { .. }
                | Self::Missed { .. }
                | Self::Booked { .. }
                | Self::AuditAlarm { .. }
                | Self::Folded { .. }
                | Self::RequestsDropped { .. }
                | Self::RequestsNotKept { .. }
                | Self::RequestsDeleted { .. }
                | Self::Filtered { .. }
                | Self::Imported { .. }
                | Self::CaptureLacks { .. }
                | Self::Stalled { .. }
                | Self::Twice { .. }
                | Self::ClockSteps { .. }
        )
    }

    /// Whether the note reports a problem of the recording or of the recorded servers, at any time.
    pub fn is_of_the_recording(&self) -> bool {
        matches!(
            self,
            Self::Shed { .. }
                | Self::Lost { .. }
                | Self::Folded { .. }
                | Self::Missed { .. }
                | Self::Booked { .. }
                | Self::AuditAlarm { .. }
                | Self::CaptureLacks { .. }
                | Self::Stalled { .. }
                | Self::MoreStalls { .. }
                | Self::ClockSteps { .. }
        ) || self.is_damage()
    }

    /// Rank by importance for an answer: faults of its rows first, then missing data, then further facts.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Damaged { .. } | Self::MoreDamaged { .. } | Self::Twice { .. } => 0,
            Self::NoSuchFile(_) | Self::SeenElsewhere { .. } => 1,
            Self::Lost { .. } | Self::AuditAlarm { .. } | Self::CaptureLacks { .. } => 2,
            Self::RequestsDropped { .. }
            | Self::RequestsNotKept { .. }
            | Self::RequestsDeleted { .. } => 2,
            Self::Stalled { .. } | Self::MoreStalls { .. } => 3,
            Self::Gap { .. } | Self::MoreGaps { .. } | Self::Missed { .. } => 4,
            Self::Booked { .. } | Self::Shed { .. } | Self::LeftOut { .. } => 5,
            Self::WithoutCalls { .. }
            | Self::ClockSteps { .. }
            | Self::Filtered { .. }
            | Self::LostTimeUnknown { .. } => 6,
            _ => 7,
        }
    }

    /// Whether the note is about the form of the answer, which programs see in its data.
    pub fn is_about_form(&self) -> bool {
        matches!(self, Self::LocalTimes { .. } | Self::StepChosen { .. })
    }

    /// Whether it reports damage.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::MoreDamaged { .. })
    }

    /// Text for people, with times in `zone`.
    pub fn show(&self, zone: Zone) -> String {
        let on = |host: &Option<String>| host.as_ref().map_or(String::new(), |h| format!("{h}: "));
        let between = |range: &Interval| show_range(range.start, range.end, zone);
        match self {
            Self::LocalTimes { at } => format!("times are local, UTC{}", show_offset(*at, zone)),
            Self::NoSuchFile(what) => what.clone(),
            Self::SeenElsewhere { names, range } => {
                format!("requests under {names} were seen {}", between(range))
            }
            Self::OnlyMetadata { count, by } => only_metadata(*count, *by),
            Self::OtherLevels(OtherLevels { shown, others }) => {
                let others: Vec<_> = others.iter().map(|level| level.as_str()).collect();
                format!(
                    "rows are of the level {shown}; --level {} shows what else was recorded, and --by level each",
                    others.join(" or ")
                )
            }
            Self::LostTimeUnknown { most } => format!(
                "lost time is unknown: it would be compared with more than {} files and tenants; select files, mounts or tenants",
                grouped(*most as u64)
            ),
            Self::NoOperation { what } => format!("there were no {what}"),
            Self::StepChosen { step, finest } => {
                format!(
                    "rows of {step}; {finest} is stored: --step {finest} or a shorter range shows more"
                )
            }
            Self::Export { path } => format!(
                "{} is an export, which does not say what was not recorded: rates are over all of its time",
                path.display()
            ),
            Self::MoreRows { count } => {
                let rows = if *count == 1 { "row is" } else { "rows are" };
                format!("{count} more {rows} not shown; --top N shows more, --step all shows all")
            }
            Self::Damaged { path, why, covers } => {
                let covers = covers.map_or(String::new(), |(range, files)| {
                    let files = match files {
                        0 => String::new(),
                        1 => " of 1 file".to_owned(),
                        n => format!(" of {n} files"),
                    };
                    format!("; it covers {}{files}", between(&range))
                });
                format!(
                    "{} is damaged: {why}{covers}; the rest is answered; see `trackiops store check`",
                    path.display()
                )
            }
            Self::MoreDamaged { count, range } => format!(
                "{count} more segments, of times from {}, are damaged or missing; `trackiops store check` names them",
                between(range)
            ),
            Self::Gap { host, gap } if gap.is_whole() => {
                format!("{}{} not recorded", on(host), between(&gap.range))
            }
            Self::Gap { host, gap } => {
                let missing = show_length(gap.missing_ms);
                format!(
                    "{}{} not recorded for {missing} of it",
                    on(host),
                    between(&gap.range)
                )
            }
            Self::LeftOut { host, gap } => {
                let part = match gap.is_whole() {
                    true => String::new(),
                    false => format!(" for {} of it", show_length(gap.missing_ms)),
                };
                format!(
                    "{}{} recorded without operations{part} (--no-ops, a filter, or the tracepoint engine)",
                    on(host),
                    between(&gap.range)
                )
            }
            Self::WithoutCalls { host, gap } => {
                let part = match gap.is_whole() {
                    true => String::new(),
                    false => format!(" for {} of it", show_length(gap.missing_ms)),
                };
                format!(
                    "{}{} recorded without calls of applications{part}: they are 0 there \
                     (`record --app-view` counts them, and the level app)",
                    on(host),
                    between(&gap.range)
                )
            }
            Self::Shed { host, details, gap } => {
                let part = match gap.is_whole() {
                    true => String::new(),
                    false => format!(" for {} of it", show_length(gap.missing_ms)),
                };
                format!(
                    "{}{} recorded without {details}{part}: tracing had reached --max-overhead",
                    on(host),
                    between(&gap.range)
                )
            }
            Self::TenantRules { host, range, count } => format!(
                "{}the rules that name tenants were replaced {} between {}: rows have the names of their time",
                on(host),
                if *count == 1 { "once" } else { "several times" },
                between(range).replace(" to ", " and "),
            ),
            Self::MoreGaps { count, missing_ms } => {
                let missing = show_length(*missing_ms);
                format!("{count} more gaps not recorded, {missing} in all")
            }
            Self::Lost { host, losses } => format!(
                "{}{} of {} requests lost between {}: counts below are too low by that",
                on(host),
                grouped(losses.count),
                grouped(losses.seen),
                between(&losses.range).replace(" to ", " and "),
            ),
            Self::Missed { host, losses } => format!(
                "{}up to {} requests missed beside {} seen between {}: counts below may be too low by that",
                on(host),
                grouped(losses.count),
                grouped(losses.seen),
                between(&losses.range).replace(" to ", " and "),
            ),
            Self::Booked {
                host,
                range,
                count,
                bytes,
            } => format!(
                "{}{} {} missed between {}, {} in all: rows `(missed)` have them, from the kernel's own counters, \
                 without latencies",
                on(host),
                grouped(*count),
                if *count == 1 {
                    "request was"
                } else {
                    "requests were"
                },
                between(range).replace(" to ", " and "),
                in_bytes(*bytes),
            ),
            Self::AuditAlarm { host, range, count } => format!(
                "{}{} between {}, the recorder's rows and the kernel's counters differed for no known reason: \
                 please report this with `trackiops doctor`",
                on(host),
                if *count == 1 { "once" } else { "several times" },
                between(range).replace(" to ", " and "),
            ),
            Self::Folded { losses } => format!(
                "{} of {} requests between {} were folded: their counts, bytes and sums are exact, \
                 percentiles and sequential shares leave them out",
                grouped(losses.count),
                grouped(losses.seen),
                between(&losses.range).replace(" to ", " and "),
            ),
            Self::OutOfPercentiles { op, known, timed } => format!(
                "percentiles of {op} are of {} of {} calls, as the kernel has room for histograms of only 32 files at a time: \
                 counts, sums and maxima are exact",
                grouped(*known),
                grouped(*timed),
            ),
            Self::RequestsDropped { host, range, count } => format!(
                "{}{count} single {} not kept between {}, as memory was too small, or the disk full or too slow: they are missing below",
                on(host),
                if *count == 1 {
                    "request was"
                } else {
                    "requests were"
                },
                between(range).replace(" to ", " and "),
            ),
            Self::RequestsNotKept { range, count } => format!(
                "{} {} not kept one by one between {}: they are missing below",
                grouped(*count),
                if *count == 1 {
                    "request was"
                } else {
                    "requests were"
                },
                between(range).replace(" to ", " and "),
            ),
            Self::RequestsDeleted {
                before,
                is_unknown: false,
            } => format!(
                "single requests from before {} were deleted to stay within --requests-size",
                show(*before, zone)
            ),
            Self::RequestsDeleted { before, .. } => format!(
                "single requests from before {} are unknown: they were deleted to stay within --requests-size, or are \
                 lost; the catalog was rebuilt without the earlier one",
                show(*before, zone)
            ),
            Self::MountsUnknown => {
                "mounts from before the catalog was rebuilt are unknown: there was no earlier catalog to take them from"
                    .to_owned()
            }
            Self::Filtered {
                host,
                filter,
                range,
            } => format!(
                "{}between {} only {filter} was recorded{}",
                on(host),
                between(range).replace(" to ", " and "),
                match compares_calls(filter) {
                    true => "",
                    false => ", and only requests were compared with the kernel's counters",
                }
            ),
            Self::Imported { source, range } => {
                let times = match &**source {
                    "pcap" | "nfsdump" => {
                        ": latencies are from the call to its reply, at the capture's place"
                    }
                    _ => "",
                };
                format!(
                    "rows of {} were imported with `import {source}`{times}",
                    between(range)
                )
            }
            Self::CaptureLacks { lacking } => {
                let StreamBytes {
                    payload_bytes,
                    lost_bytes,
                    not_understood_bytes,
                    ..
                } = lacking.bytes;
                format!(
                    "between {} captures lack {} beside the {} that they have, and {} of those could not be read: \
                     counts below may be too low; `trackiops import account` lists connections",
                    between(&lacking.range).replace(" to ", " and "),
                    in_bytes(lost_bytes),
                    in_bytes(payload_bytes),
                    in_bytes(not_understood_bytes),
                )
            }
            Self::Stalled { host, stall } => format!(
                "{}{}{}: {} did not answer {}between {}, {} waited",
                on(host),
                stalled(stall.server.age_ms_max),
                if stall.is_one() { "" } else { " at most" },
                stall.server,
                if stall.is_one() { "" } else { "at times " },
                between(&stall.range).replace(" to ", " and "),
                match stall.server.requests_max {
                    1 => "1 request".to_owned(),
                    most => format!("up to {most} requests"),
                },
            ),
            Self::MoreStalls { host, count } => format!(
                "{}STALLED {count} more times; a shorter range lists them",
                on(host)
            ),
            Self::Twice {
                host,
                range,
                are_related: true,
            } => format!(
                "{} is counted twice on {host}, unless both recorded then: one of these is a copy or an export of another; leave it out",
                between(range)
            ),
            Self::Twice {
                host,
                range,
                are_related: false,
            } => format!(
                "{} is counted twice on {host}, unless two hosts have this name: two of these stores or exports have it",
                between(range)
            ),
            Self::ClockSteps { host, range, count } => {
                let times = if *count == 1 { "once" } else { "several times" };
                let between = between(range).replace(" to ", " and ");
                format!(
                    "{}the clock was set {times} between {between}: times there are approximate",
                    on(host)
                )
            }
        }
    }
}

/// Bytes with three digits, as tables show them.
fn in_bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut unit = "B";
    while let (true, Some(next)) = (size >= 999.5, units.as_slice().first()) {
        (size, unit) = (size / 1024.0, next);
        units.next();
    }
    match (unit, size) {
        ("B", _) => format!("{bytes} B"),
        (_, 99.95..) => format!("{size:.0} {unit}"),
        (_, 9.995..) => format!("{size:.1} {unit}"),
        _ => format!("{size:.2} {unit}"),
    }
}

/// Text about entities without reads and writes, with the query that lists them.
fn only_metadata(count: usize, by: GroupBy) -> String {
    let (one, several, word) = match by.level {
        Level::File => ("file", "files", "file"),
        Level::Name => ("name", "names", "file"),
        Level::Dir { .. } => ("directory", "directories", "dir"),
        Level::Mount => ("mount", "mounts", "mount"),
        Level::Volume => ("volume", "volumes", "volume"),
        Level::Host if by.tenants => ("tenant", "tenants", "tenant"),
        Level::Host => ("host", "hosts", "host"),
    };
    let is_pair = by.tenants && by.level != Level::Host;
    let what = match (count, is_pair) {
        (1, false) => format!("1 {one}"),
        (_, false) => format!("{count} {several}"),
        (1, true) => format!("1 pair of {one} and tenant"),
        (_, true) => format!("{count} pairs of {one} and tenant"),
    };
    let tenant = if is_pair { ",tenant" } else { "" };
    format!(
        "{what} had no READ or WRITE requests; `trackiops query --by {word}{tenant},op` shows other operations"
    )
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::pending::StalledServer;

    use super::*;

    #[test]
    fn counts_and_bytes_are_for_people() {
        assert_eq!(
            [897, 1000, 1_234_567].map(grouped),
            ["897", "1,000", "1,234,567"]
        );
        let sizes = [0, 999, 1000, 10_240, 150_000_000, u64::MAX].map(in_bytes);
        assert_eq!(
            sizes,
            [
                "0 B", "999 B", "0.98 KiB", "10.0 KiB", "143 MiB", "16.0 EiB"
            ]
        );
    }

    #[test]
    fn one_request_that_waited_is_one() {
        let said = |requests_max| {
            let server = StalledServer {
                requests_max,
                ..StalledServer::default()
            };
            let range = Interval::new(UtcMs(0), UtcMs(1000));
            let stall = Stall { server, range };
            Note::Stalled { host: None, stall }.show(Zone::utc())
        };
        assert!(said(1).ends_with(", 1 request waited"), "{}", said(1));
        assert!(said(4).ends_with(", up to 4 requests waited"));
    }

    #[test]
    fn a_range_that_no_single_wait_fills_may_be_several_stalls() {
        let said = |seconds: i64| {
            let server = StalledServer {
                age_ms_max: 1200,
                ..StalledServer::default()
            };
            let range = Interval::new(UtcMs(0), UtcMs(seconds * 1000));
            let stall = Stall { server, range };
            Note::Stalled { host: None, stall }.show(Zone::utc())
        };
        let (one, several) = (said(2), said(5));
        assert!(one.starts_with("STALLED 1 s: "), "{one}");
        assert!(one.contains("did not answer between "), "{one}");
        assert!(several.starts_with("STALLED 1 s at most: "), "{several}");
        assert!(
            several.contains("did not answer at times between "),
            "{several}"
        );
    }

    #[test]
    fn calls_that_were_filtered_were_not_compared_with_the_kernel() {
        let said = |filter: &str| {
            let range = Interval::new(UtcMs(0), UtcMs(1000));
            let filter = filter.into();
            let note = Note::Filtered {
                host: None,
                filter,
                range,
            };
            note.show(Zone::utc())
        };
        let words = "was recorded, and only requests were compared with the kernel's counters";
        for filter in [
            "--mount nas:/home",
            "--uid 7 --ops read --ops write",
            "--file /a --ops read --ops write",
            "--ops read",
            "--file --ops",
        ] {
            let said = said(filter);
            assert!(said.ends_with(&format!("only {filter} {words}")), "{said}");
        }
        let said = said("--ops read --ops WRITE --ops getattr");
        assert!(said.ends_with("--ops getattr was recorded"), "{said}");
    }
}
