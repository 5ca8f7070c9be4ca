//! `trackiops analyze burst`: how many requests come at once.

use std::process::ExitCode;

use std::time::Duration;

use anyhow::bail;
use trackiops_analyses::burst::Burst;
use trackiops_analyses::cube::{Events, Kind};
use trackiops_analyses::source::packets::Packets;

use super::distribution_flags::DistributionFlags;
use super::event_flags::KindFlag;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze burst --since 1h                            of an hour of the store
  trackiops analyze burst --mount nas:/home --window 1s,1m      of a mount, in two windows
  trackiops analyze burst capture --of packets                  of the packets of a capture";

/// Nanoseconds in a second.
const NS_PER_S: u64 = 1_000_000_000;

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell how much comes at once: rates in windows of several lengths that roll

Each window rolls by a twentieth of its length. Requests count when they complete, with the bytes that they moved.";

const ANALYSIS: Analysis = Analysis {
    name: "burst",
    title: "Bursts",
    method: &[
        "Sums in windows [s, s + W], where s moves on by W/20 from the first event; the last, incomplete windows are left out.",
    ],
};

/// What `trackiops analyze burst` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    kind: KindFlag,
    /// Lengths of windows
    #[arg(long, value_name = "LENGTH,...", value_delimiter = ',', value_parser = super::duration::parse, help_heading = ROWS,
          default_value = "1ms,10ms,100ms,1s,5s,15s,1m,5m,15m,1h")]
    window: Vec<Duration>,
    #[command(flatten)]
    distributions: DistributionFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::new(args.tables, &Burst::TABLES, &args.distributions)?;
    let source = args.source.source()?;
    if args.window.iter().any(Duration::is_zero) {
        bail!("--window: a window without a length holds nothing; write 1ms or more");
    }
    let kind = args.kind.kind(&source)?;
    let mut burst = Burst::new(args.window, args.distributions.exact_values);
    let parts = args.distributions.quantiles;
    if kind == Kind::Packets {
        let mut packets = Packets::default();
        packets.read(&source, ANALYSIS.name, |packet, names| {
            burst.add(packet.ticks, names.ticks_per_s, packet.bytes);
        })?;
        let sheet = burst.sheet(kind.plural(), parts);
        return outcome::write(&form, ANALYSIS, &packets.seen, None, Vec::new(), [sheet]);
    }
    let mut events = Events::new(kind, Vec::new(), 1)?;
    events.read(&source, ANALYSIS.name, |time_ns, _, cell| {
        burst.add(time_ns, NS_PER_S, cell.bytes);
    })?;
    let sheet = burst.sheet(kind.plural(), parts);
    outcome::write_of_events(&form, ANALYSIS, events, [sheet])
}
