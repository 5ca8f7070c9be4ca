//! Where what was imported goes: flags that all imports have.

use trackiops_store::{GranularitySet, Options, RetentionPolicy};

use super::hosts::Target;
use crate::record::args::{DEFAULT_GRANULARITIES, default_rotation, parse_requests_size};
use crate::store_flag::StoreFlag;

/// The flags.
#[derive(clap::Args)]
pub struct TargetFlags {
    #[command(flatten)]
    store: StoreFlag,
    /// Window lengths, each a multiple of the one before
    #[arg(long, value_name = "LENGTHS", default_value = DEFAULT_GRANULARITIES)]
    granularity: GranularitySet,
    /// Room on disk for single requests
    ///
    /// At least 64MiB. When it is used up, the oldest requests are deleted.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = parse_requests_size)]
    requests_size: u64,
    /// Keep sums alone, no single requests
    #[arg(long, conflicts_with = "requests_size")]
    no_requests: bool,
}

impl TargetFlags {
    /// What is written where.
    pub fn target(self) -> Target {
        Target {
            store: self.store.dir(),
            options: Options {
                host: String::new(),
                rotate: default_rotation(self.granularity.finest()),
                granularities: self.granularity,
                filter: None,
                allow_nfs_store: false,
                keep: RetentionPolicy::default(),
            },
            requests_bytes: (!self.no_requests).then_some(self.requests_size),
        }
    }
}
