//! `trackiops analyze sizes`: sizes and offsets of READs and WRITEs.

use std::process::ExitCode;

use trackiops_analyses::sizes::Sizes;
use trackiops_analyses::source::files::IOS;
use trackiops_analyses::source::{Requests, ios};

use super::distribution_flags::DistributionFlags;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze sizes --since 1h                              of an hour of the store
  trackiops analyze sizes --mount nas:/home --quantiles 20        of a mount
  trackiops analyze sizes day.parquet -o sizes.parquet            of a file, for a program";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell the sizes and offsets of READs and WRITEs, and the sizes of files where they are known

A directory with io.parquet is read from there: it also has requests of which one side was not captured. The size of a file is known where \
a reply had it, or where a READ reached the end of the file.";

const ANALYSIS: Analysis = Analysis {
    name: "sizes",
    title: "Sizes and offsets",
    method: &["Bytes transferred and offsets of READs and WRITEs. A file has its largest size."],
};

/// What `trackiops analyze sizes` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    distributions: DistributionFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::new(args.tables, &Sizes::TABLES, &args.distributions)?;
    let source = args.source.source()?;
    let mut sizes = Sizes::new(args.distributions.exact_values);
    let mut requests = Requests::default();
    let mut remarks = Vec::new();
    let mut none = None;
    if source.has(IOS)? {
        let rows = ios::read(&source, ANALYSIS.name, |io| {
            sizes.add(io.is_read, io.offset, io.bytes);
        })?;
        requests.seen.rows = rows;
        remarks.push(format!(
            "read {rows} rows of io.parquet; sizes of files are not in it: name requests.parquet to have them"
        ));
    } else {
        none = requests.read(&source, ANALYSIS.name, |request, _| {
            sizes.add_request(request)
        })?;
        if !requests.has.file_size {
            remarks.push(
                "sizes of files are known where a READ reached the end; the source has no others"
                    .to_owned(),
            );
        }
    }
    let sheets = sizes.sheets(args.distributions.quantiles);
    outcome::write(&form, ANALYSIS, &requests.seen, none, remarks, sheets)
}
