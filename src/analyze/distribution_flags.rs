//! How distributions are computed and written.

use std::path::PathBuf;

use anyhow::bail;
use trackiops_process::output::Output;
use trackiops_render::PictureFormat;

use crate::drawing::Target;
use crate::help_headings::OUTPUT;
use crate::umask_flag::UmaskFlag;

/// How distributions are computed and written.
#[derive(clap::Args)]
pub struct DistributionFlags {
    /// Quantiles in JSON and Parquet are those of 1/N to (N-1)/N
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = OUTPUT,
          value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub quantiles: u64,
    /// Values of a distribution before it becomes a histogram
    ///
    /// Quantiles of a histogram are at most 1/128 nearer to zero than the value at their rank. Mean and extremes stay exact.
    #[arg(long, value_name = "N", default_value_t = trackiops_analyses::distribution::EXACT_VALUES, help_heading = OUTPUT)]
    pub exact_values: usize,
    /// Draw the distributions of the first table into FILE.svg or FILE.png
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    plot: Option<PathBuf>,
}

impl DistributionFlags {
    /// Where pictures go, if any are requested.
    pub fn plot(&self, access: UmaskFlag) -> anyhow::Result<Option<(Output, PictureFormat)>> {
        match self
            .plot
            .clone()
            .map(|path| Target::parse(path, access))
            .transpose()?
        {
            None => Ok(None),
            Some(Target::File(output, format)) => Ok(Some((output, format))),
            Some(Target::Stdout) => {
                bail!(
                    "--plot -: distributions are drawn into a file; name one that ends in .svg or .png"
                )
            }
        }
    }
}
