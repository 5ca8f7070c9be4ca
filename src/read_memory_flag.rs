//! Limits the memory for reading files from others.

use trackiops_query::parse_size;
use trackiops_store::limit_read_memory;

/// No file can be read with less.
const LEAST_BYTES: u64 = 64 << 20;

/// The flag.
#[derive(clap::Args, Clone, Copy)]
pub struct ReadMemoryFlag {
    /// Memory for reading an export or a file of others
    ///
    /// Such a file can claim to hold any amount of data. One that would take more is refused; raise the limit for a file that you trust.
    /// At least 64MiB.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse, hide_short_help = true)]
    max_read_memory: u64,
}

impl ReadMemoryFlag {
    /// From now on, the limit applies to this process.
    pub fn apply(self) {
        limit_read_memory(self.max_read_memory);
    }
}

fn parse(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    match bytes >= LEAST_BYTES {
        true => Ok(bytes),
        false => Err("write a size of at least 64MiB, such as 2GiB".to_owned()),
    }
}
