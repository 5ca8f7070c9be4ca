//! `trackiops analyze latency`: latencies by server, operation and other columns.

use std::process::ExitCode;

use anyhow::bail;
use trackiops_analyses::cube::Kind;
use trackiops_analyses::latency::{By, OfRequests, Pairing, Table};
use trackiops_analyses::source::Requests;
use trackiops_analyses::source::messages::Messages;

use super::distribution_flags::DistributionFlags;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze latency --since 1h                          by server and operation
  trackiops analyze latency --by mount,op --quantiles 1000      by mount, for a program
  trackiops analyze latency capture --of messages               all operations of a capture";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell latencies by server, operation and others, with duplicates and unanswered calls

Of a store: latencies of READs and WRITEs from the call of the client to its completion, with retransmissions; with --level app those of \
calls of applications, opens and syncs included. Of a capture: calls and \
replies are paired by xid and client; the latency is that from the first call, and the table has how many calls and replies were missing or \
came twice. Rows with * are sums.";

const ANALYSIS: Analysis = Analysis {
    name: "latency",
    title: "Latencies",
    method: &[
        "Latencies from the call, or from the first of several, to the reply. Of calls that were sent again each reply counts.",
        "Calls that were last sent less than 1 s before the last message and have no reply are missing replies; of older ones it is not known.",
    ],
};

/// What `trackiops analyze latency` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// A row stands for: server, op, client, mount, tenant
    ///
    /// Messages of a capture do not tell mounts and tenants.
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', default_value = "server,op", help_heading = ROWS)]
    by: Vec<By>,
    /// What is read: requests or messages [default: requests, where there are some]
    #[arg(long, value_name = "KIND", help_heading = ROWS)]
    of: Option<Kind>,
    #[command(flatten)]
    distributions: DistributionFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::new(args.tables, &Pairing::TABLES, &args.distributions)?;
    let source = args.source.source()?;
    let kind = args.of.map_or_else(|| Kind::of(&source), Ok)?;
    let table = Table::new(args.by.clone(), args.distributions.exact_values);
    let parts = args.distributions.quantiles;
    match kind {
        Kind::Requests => {
            let mut latencies = OfRequests::new(table);
            let mut requests = Requests::of_any_operation();
            let none =
                requests.read(&source, ANALYSIS.name, |request, _| latencies.add(request))?;
            let mut remarks = vec![
                "of READs and WRITEs, and of calls of applications at --level app; calls without a reply and other operations need \
                 messages of a capture"
                    .to_owned(),
            ];
            if !requests.has.retransmissions {
                remarks
                    .push("duplicates are not known: the source has no column retrans".to_owned());
            }
            let sheets = latencies.sheets(&requests, parts);
            outcome::write(&form, ANALYSIS, &requests.seen, none, remarks, sheets)
        }
        Kind::Messages => {
            if let Some(by) = args.by.iter().find(|by| !by.is_of_messages()) {
                bail!(
                    "--by {}: messages do not tell it; write server, op or client",
                    by.name()
                );
            }
            let mut pairing = Pairing::new(table);
            let mut messages = Messages::default();
            messages.read(&source, ANALYSIS.name, |message, _| {
                pairing.add(message);
                Ok(())
            })?;
            let sheets = pairing.sheets(&messages, parts);
            outcome::write(
                &form,
                ANALYSIS,
                &messages.seen,
                None,
                messages.remarks(),
                sheets,
            )
        }
        Kind::Packets => bail!("--of packets: packets have no latency; write requests or messages"),
    }
}
