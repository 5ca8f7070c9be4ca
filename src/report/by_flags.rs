//! Subject and period of a report's rows.

use anyhow::Context;
use trackiops_reports::by::ReportBy;
use trackiops_reports::period::Period;

use crate::counts::from_zero;
use crate::help_headings::{ROWS, WHEN};

/// What a row stands for.
#[derive(clap::Args)]
pub struct ByFlags {
    /// A row is a tenant, user, file, dir, mount or host
    ///
    /// As --by of `query`, but hosts are added up unless `host` is named: `tenant,host` has a row for each tenant of each host.
    #[arg(long, value_name = "WHAT,...", default_value = "tenant", help_heading = ROWS)]
    by: ReportBy,
    /// With --by dir: how many directories deep [default: 1]
    #[arg(long, value_name = "N", value_parser = from_zero, help_heading = ROWS)]
    depth: Option<usize>,
}

impl ByFlags {
    /// The subject of a row.
    pub fn get(&self) -> anyhow::Result<ReportBy> {
        with_depth(self.by, self.depth)
    }
}

/// The subject of a row, with directories of this depth.
pub fn with_depth(by: ReportBy, depth: Option<usize>) -> anyhow::Result<ReportBy> {
    match depth {
        None => Ok(by),
        Some(depth) => by.with_depth(depth).context("--depth needs --by dir"),
    }
}

/// Which time a row sums up.
#[derive(clap::Args)]
pub struct PeriodFlags {
    /// A row sums up this long: 1h, 1d, 7d, 30d or all
    ///
    /// Periods begin at UTC midnight, and those of less than a day also at each of their lengths after it.
    #[arg(long, value_name = "LENGTH", default_value = "all", help_heading = WHEN)]
    pub period: Period,
}
