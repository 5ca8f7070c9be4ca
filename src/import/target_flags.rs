//! Flags for the destination of all imports.

use std::fmt::Debug;

use trackiops_import::{Source, Target, id};
use trackiops_store::{GranularitySet, Options, RetentionPolicy};

use crate::help_headings::TARGET;
use crate::record::args::{DEFAULT_GRANULARITIES, parse_requests_size, rotation};
use crate::store_flag::StoreFlag;

/// An import rotates rarely, because each rotation waits for the disk some sixty times. No query needs the last minutes of an import.
const ROTATE_MINUTES: i64 = 60;

/// The flags.
#[derive(clap::Args)]
pub struct TargetFlags {
    #[command(flatten, next_help_heading = TARGET)]
    store: StoreFlag,
    /// Window lengths, each a multiple of the last
    #[arg(long, value_name = "LENGTHS", default_value = DEFAULT_GRANULARITIES, help_heading = TARGET)]
    granularity: GranularitySet,
    /// Room on disk for single requests
    ///
    /// At least 64MiB. When it is used up, the oldest requests are deleted.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = parse_requests_size, help_heading = TARGET)]
    requests_size: u64,
    /// Keep sums alone, no single requests
    #[arg(long, conflicts_with = "requests_size", help_heading = TARGET)]
    no_requests: bool,
}

impl TargetFlags {
    /// The destination. `kind` is the kind of the imported files. `settings` are the flags that change the result.
    pub fn target(self, kind: &str, sources: &[Source], settings: &dyn Debug) -> Target {
        let Self {
            store: _,
            granularity,
            requests_size: _,
            no_requests,
        } = &self;
        let settings = format!("{kind} {granularity} {no_requests} {settings:?}");
        Target {
            import: id(sources, &settings),
            store: self.store.dir(),
            options: Options {
                host: String::new(),
                rotate: rotation(ROTATE_MINUTES, self.granularity.finest()),
                granularities: self.granularity,
                filter: None,
                source: Some(kind.to_owned()),
                allow_nfs_store: false,
                most_files: Options::MOST_FILES,
                keep: RetentionPolicy::default(),
            },
            requests_bytes: (!self.no_requests).then_some(self.requests_size),
        }
    }
}
