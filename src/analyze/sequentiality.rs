//! `trackiops analyze sequentiality`: how sequentially files are read and written.

use std::process::ExitCode;
use std::time::Duration;

use trackiops_analyses::sequentiality::{By, Found, Order, Sequentiality, Settings};
use trackiops_analyses::source::{Names, Request, Requests};

use super::distribution_flags::DistributionFlags;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze sequentiality --since 1h                              of an hour of the store
  trackiops analyze sequentiality --by mount --order request --gap 30s    of each mount
  trackiops analyze sequentiality day.parquet -o day.json                 of a file, for a program";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell how sequentially files are read and written: runs, reordering, runs within random access

Requests of a client to a file are a group until the file rests for --gap. A group is one run, or several where the end of the file is \
reached. A request is sequential if it begins where the one before it ended. docs/guide/analyses.md has the definitions.";

const ANALYSIS: Analysis = Analysis {
    name: "sequentiality",
    title: "Sequentiality",
    method: &[
        "Requests of a client to a file are a group until the file rests for the gap. A group is one run, or several where the end of the \
         file is reached and at least half of it was moved.",
        "A request is sequential if it begins where the one before it in its run ended. A run's first request is sequential if the second \
         one is. A sequential run within a random run begins with a request that is not sequential.",
        "Source: Anderson, Capture, conversion, and analysis of an intense NFS workload, FAST 2009, sections 5.3 and 6.4.",
    ],
};

/// What `trackiops analyze sequentiality` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// Order within a group: request, reply or overlap
    ///
    /// overlap looks at requests that were under way at the same time, and takes the one that goes on where the last ended.
    #[arg(long, value_name = "ORDER", default_value = "overlap", help_heading = ROWS)]
    order: Order,
    /// With overlap: so much later a request counts as concurrent
    #[arg(long, value_name = "LENGTH", default_value = "0", value_parser = super::duration::parse, help_heading = ROWS)]
    slop: Duration,
    /// A file that rests for this long begins another group
    #[arg(long, value_name = "LENGTH", default_value = "2s", value_parser = super::duration::parse, help_heading = ROWS)]
    gap: Duration,
    /// A row stands for: all, file, mount, tenant or host
    #[arg(long, value_name = "WHAT", default_value = "all", help_heading = ROWS)]
    by: By,
    /// Do not use sizes of files, even where they are known
    #[arg(long, help_heading = ROWS)]
    ignore_sizes: bool,
    #[command(flatten)]
    distributions: DistributionFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: there are requests; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::new(args.tables, &Found::TABLES, &args.distributions)?;
    let source = args.source.source()?;
    let mut analysis = Sequentiality::new(Settings {
        order: args.order,
        slop: args.slop,
        gap: args.gap,
        with_sizes: !args.ignore_sizes,
        by: args.by,
        exact_values: args.distributions.exact_values,
    });
    let mut requests = Requests::default();
    let mut owners = Owners::new(args.by, &mut requests);
    let none = requests.read(&source, ANALYSIS.name, |request, names| {
        analysis.add(request, owners.of(request, names));
    })?;
    let found = analysis.finish();
    let mut remarks = Vec::new();
    if !args.ignore_sizes && !requests.has.file_size {
        remarks.push(
            "the source does not tell sizes of files: runs do not end at the end of their file, and there are no shares of files"
                .to_owned(),
        );
    }
    let sheets = found.sheets(owners.names(&requests), args.distributions.quantiles);
    outcome::write(&form, ANALYSIS, &requests.seen, none, remarks, sheets)
}

/// The owners of distributions, by number.
struct Owners {
    by: By,
    files: Names,
}

impl Owners {
    fn new(by: By, requests: &mut Requests) -> Self {
        if by == By::File {
            requests.paths = Some(Default::default());
        }
        Self {
            by,
            files: Names::default(),
        }
    }

    fn of(&mut self, request: &Request, names: &Requests) -> u32 {
        match self.by {
            By::All => 0,
            By::Mount => request.mount,
            By::Tenant => request.tenant,
            By::Host => request.client,
            By::File => self.files.of(&names.file_name(request)),
        }
    }

    fn names<'n>(&'n self, requests: &'n Requests) -> &'n Names {
        match self.by {
            By::All | By::File => &self.files,
            By::Mount => &requests.mounts,
            By::Tenant => &requests.tenants,
            By::Host => &requests.clients,
        }
    }
}
