//! The flags of `trackiops watch`.

use std::time::Duration;

use trackiops_live::OnEvent;
use trackiops_schemas::time::{Granularity, parse_duration_ms};

use crate::help_headings::{EVENTS, OUTPUT, WHEN};
use crate::live_socket::SocketFlag;
use crate::query::SubjectFlags;
use crate::question_flags::{FileFlags, RowFlags};

const EXAMPLES: &str = "\
Examples:
  trackiops watch                                    each second, the busiest 20 files
  trackiops watch --by tenant --step 10s --sort p99  who is slow, every 10 seconds
  trackiops watch --on stall='/bin/page storage'     run a program when a server does not answer";

/// What `trackiops watch` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub socket: SocketFlag,
    #[command(flatten)]
    pub files: FileFlags,
    /// First what the store has from this time on: 10m (ago), 03:10 ...
    ///
    /// Takes what `query --since` takes. Each window comes once, from the store or from the recorder; the step in which the two
    /// meet has rows of both.
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    pub since: Option<String>,
    /// A row per window of this length [default: the shortest recorded]
    #[arg(long, value_name = "LENGTH", help_heading = WHEN)]
    pub step: Option<Granularity>,
    /// Stop after this time: 90s, 2h ... [default: until stopped]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = WHEN)]
    pub duration: Option<Duration>,
    /// Wait for a recorder, instead of failing without one
    #[arg(long, help_heading = WHEN)]
    pub wait: bool,
    #[command(flatten)]
    pub about: SubjectFlags,
    #[command(flatten)]
    pub rows: RowFlags,
    /// In tables: the parts of latencies: queue, network, completion
    #[arg(long, help_heading = OUTPUT)]
    pub parts: bool,
    /// One JSON object per row
    #[arg(long, group = "form", help_heading = OUTPUT)]
    pub json: bool,
    /// One JSON object per window, until the recorder ends
    ///
    /// {"since", "until", "from", "notes", "rows"}, also for windows without rows. A window from the `store` replaces an earlier one with
    /// the same start; one from the `recorder` adds to it. The last object is {"end", "notes"}: it says why there are no more.
    #[arg(long, group = "form", help_heading = OUTPUT)]
    pub windows: bool,
    /// CSV, with one header
    #[arg(long, group = "form", help_heading = OUTPUT)]
    pub csv: bool,
    /// The lines of the CHEOPS'24 paper, one per file and window
    ///
    /// [Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency: requests/s, bytes/s and ns.
    #[arg(long, group = "form", help_heading = OUTPUT)]
    pub paper: bool,
    /// Events, not windows: a server stalls, requests are lost ...
    ///
    /// A line per event, or with --json an object. `slow` and `slow-end`: requests take longer than usual, with the verdict of
    /// `trackiops why`; they do not any more. `stall` and `stall-end`: a server does not answer; nothing waits for it any more.
    /// `alert` and `alert-end`: a row matches --where; it does not any more. `lost`: requests were lost. `audit`: rows and the kernel's
    /// counters differ for no known reason. `store-failing` and `store-written`: the store cannot be written; it can again. `budget`:
    /// the store has used 90 % of --store-size. `recorder-ended` and `recorder-started`.
    #[arg(long, conflicts_with_all = ["csv", "paper", "windows", "since"], help_heading = EVENTS)]
    pub events: bool,
    /// Run a program at such an event; repeatable
    ///
    /// Implies --events. The program runs without a shell, as `nobody` if you are root, with the event as JSON on its standard input.
    #[arg(long, value_name = "EVENT=COMMAND", conflicts_with_all = ["csv", "paper", "windows", "since"], help_heading = EVENTS)]
    pub on: Vec<OnEvent>,
    /// How often --on may run a program for the same event
    ///
    /// The same event is one of the same kind about the same server, mount, file ...
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1m", help_heading = EVENTS)]
    pub on_every: Duration,
    /// For an alert, windows in a row that match --where
    #[arg(long = "for", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "1", help_heading = EVENTS)]
    pub matching: u32,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text).and_then(|ms| u64::try_from(ms).ok());
    ms.map(Duration::from_millis)
        .ok_or_else(|| "write a number and a unit, such as 90s, 15m or 2h".to_owned())
}
