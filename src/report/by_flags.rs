//! What the rows of a report stand for, and files that say what a user wants.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use trackiops_reports::by::ReportBy;

use crate::help_headings::ROWS;

/// Most bytes of a file of prices, coefficients or intensities.
const MOST_BYTES: u64 = 64 << 20;

/// What a row stands for.
#[derive(clap::Args)]
pub struct ByFlags {
    /// A row stands for: tenant, file, dir, mount, host
    ///
    /// As --by of `query`, but hosts are added up unless `host` is named: `tenant,host` has a row for each tenant of each host.
    #[arg(long, value_name = "WHAT,...", default_value = "tenant", help_heading = ROWS)]
    by: ReportBy,
    /// With --by dir: how many directories deep [default: 1]
    #[arg(long, value_name = "N", help_heading = ROWS)]
    depth: Option<usize>,
}

impl ByFlags {
    /// What a row stands for.
    pub fn get(&self) -> anyhow::Result<ReportBy> {
        with_depth(self.by, self.depth)
    }
}

/// What a row stands for, with directories of this depth.
pub fn with_depth(by: ReportBy, depth: Option<usize>) -> anyhow::Result<ReportBy> {
    match depth {
        None => Ok(by),
        Some(depth) => by.with_depth(depth).context("--depth needs --by dir"),
    }
}

/// Reads a file that an option names.
pub fn read_file(option: &str, path: &Path) -> anyhow::Result<String> {
    let named = || format!("{option}: cannot read {}", path.display());
    let bytes = fs::metadata(path).with_context(named)?.len();
    if bytes > MOST_BYTES {
        bail!(
            "{option}: {} has {bytes} bytes; at most {MOST_BYTES} are read",
            path.display()
        );
    }
    fs::read_to_string(path).with_context(named)
}
