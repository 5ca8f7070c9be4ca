//! `trackiops analyze files`: number, sizes and ages of files.

use std::process::ExitCode;

use anyhow::bail;
use trackiops_analyses::cube::Kind;
use trackiops_analyses::files::{OfCapture, OfRequests, TABLES};
use trackiops_analyses::join;
use trackiops_analyses::source::Requests;
use trackiops_analyses::source::attributes::AttributesReader;
use trackiops_analyses::source::files::MESSAGES;
use trackiops_analyses::source::messages::Messages;

use super::distribution_flags::DistributionFlags;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze files --since 24h                      of a day of the store
  trackiops analyze files day.parquet --table counts       of a file of requests
  trackiops analyze files capture --of messages            of a capture with attributes";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Count files; tell their sizes, how much of them was read, and their ages

Of requests: files that were read or written, and which of them were read whole. A size is known where a reply had it, or where a READ \
reached the end. Of a capture with attributes: all files that replies mention, and how long ago they were modified.";

const ANALYSIS: Analysis = Analysis {
    name: "files",
    title: "Files",
    method: &[
        "A file has the largest size that a reply told. size_with_parents is what the tool of the paper reports: directories take the size of \
         the child that was looked up in them.",
        "A file is read whole if its start and its end were read, and as many bytes as it has.",
    ],
};

/// What `trackiops analyze files` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// Read requests or messages [default: requests, where there are some]
    #[arg(long, value_name = "KIND", help_heading = ROWS)]
    of: Option<Kind>,
    #[command(flatten)]
    distributions: DistributionFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::new(args.tables, &TABLES, &args.distributions)?;
    let source = args.source.source()?;
    let parts = args.distributions.quantiles;
    match args.of.map_or_else(|| Kind::of(&source), Ok)? {
        Kind::Requests => {
            let mut files = OfRequests::default();
            let mut requests = Requests::default();
            let none = requests.read(&source, ANALYSIS.name, |request, _| files.add(request))?;
            let mut remarks = vec![
                "ages are not known: requests have no column mtime_ns, which attributes in a capture supply".to_owned(),
            ];
            if !requests.has.file_size {
                remarks.push(
                    "sizes are known where a READ reached the end; the source has no others"
                        .to_owned(),
                );
            }
            outcome::write(
                &form,
                ANALYSIS,
                &requests.seen,
                none,
                remarks,
                files.sheets(parts),
            )
        }
        Kind::Messages => {
            let mut files = OfCapture::default();
            let mut attributes = AttributesReader::open(&source, ANALYSIS.name)?;
            while let Some(row) = attributes.read_next()? {
                files.add(&row);
            }
            let mut messages = Messages::default();
            let mut remarks = Vec::new();
            if source.has(MESSAGES)? {
                join::read(&source, ANALYSIS.name, &mut messages, |row, _| {
                    files.add_age(row)
                })?;
            } else {
                remarks.push("ages are not known: there are no messages (records.parquet), which have the times".to_owned());
            }
            outcome::write(
                &form,
                ANALYSIS,
                &messages.seen,
                None,
                remarks,
                files.sheets(parts),
            )
        }
        Kind::Packets => {
            bail!("--of packets: packets do not tell files; write requests or messages")
        }
    }
}
