//! What an analysis of events counts, and over which axes.

use trackiops_analyses::AnalysisError;
use trackiops_analyses::cube::{Axis, Kind};
use trackiops_analyses::source::Source;

use crate::help_headings::ROWS;

/// What is counted.
#[derive(clap::Args)]
pub struct KindFlag {
    /// Count requests, messages or packets [default: the first it has]
    #[arg(long, value_name = "KIND", help_heading = ROWS)]
    of: Option<Kind>,
}

impl KindFlag {
    /// The kind of event to count: the requested one, or the first kind that the source has.
    pub fn kind(&self, source: &Source) -> Result<Kind, AnalysisError> {
        self.of.map_or_else(|| Kind::of(source), Ok)
    }
}

/// What is counted over which axes.
#[derive(clap::Args)]
pub struct AxesFlags {
    #[command(flatten)]
    kind: KindFlag,
    /// A row is a host, mount, op, time ... [default: what is counted]
    ///
    /// Of requests: host, time, op, mount, server, tenant, file. Of messages: host, time, direction, op, message. Of packets: src_ip, src_port,
    /// dst_ip, dst_port, transport, time.
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', help_heading = ROWS)]
    by: Vec<Axis>,
    /// Leave out rows with these and a part of the others; time may stay
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', help_heading = ROWS)]
    pub alone: Vec<Axis>,
}

impl AxesFlags {
    /// The kind of event to count, and the axes: the requested ones, or the defaults of the kind.
    pub fn axes(&self, source: &Source) -> Result<(Kind, Vec<Axis>), AnalysisError> {
        let kind = self.kind.kind(source)?;
        let axes = match self.by.is_empty() {
            true => kind.usual_axes().to_vec(),
            false => self.by.clone(),
        };
        Ok((kind, axes))
    }
}
