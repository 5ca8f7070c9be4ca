//! Where the rows of an analysis come from: a store, or Parquet files.

use std::path::PathBuf;

use anyhow::bail;
use trackiops_analyses::source::{Files, Source};
use trackiops_query::times::Zone;
use trackiops_schemas::time::UtcMs;

use crate::help_headings::WHAT;
use crate::question_flags::{FileFlags, WhenFlags};
use crate::store_flag::StoreFlags;

/// Where the rows of an analysis come from.
#[derive(clap::Args)]
pub struct SourceFlags {
    /// Parquet files, or directories of some, in place of a store
    ///
    /// A file needs the columns of what an analysis reads; `trackiops export --requests` writes those of requests. In a directory,
    /// requests.parquet, records.parquet, attrs.parquet, io.parquet and packets.parquet are found by their names.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    when: WhenFlags,
}

impl SourceFlags {
    /// The source.
    pub fn source(self) -> anyhow::Result<Source> {
        let time = (Zone::Local, UtcMs::now());
        let range = self.when.range(time)?;
        if self.paths.is_empty() {
            let stores = self.stores.existing()?;
            let question = self.files.question(stores, range, time)?;
            return Ok(Source::Stores(Box::new(question)));
        }
        if !self.stores.named().is_empty() {
            bail!("--store and Parquet files are two sources; name one of them");
        }
        let given = self.files.given();
        if let Some(first) = given.first() {
            bail!(
                "{} cannot select in Parquet files, only in a store; select with `trackiops export --requests {first} ...` and analyze \
                 what it wrote",
                given.join(" and ")
            );
        }
        Ok(Source::Files(Files::new(self.paths, range)))
    }
}
