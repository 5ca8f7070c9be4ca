//! `trackiops import csv`: tables with one row for each request, CSV or Parquet.

use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_import::account::print_time_range;
use trackiops_import::tables::{self, Mapping};
use trackiops_process::output::say;
use trackiops_render::units::plural;

use super::outcome::{Backwards, tell};
use super::process::{OwnProcess, sources};
use super::target_flags::TargetFlags;
use crate::read_memory_flag::ReadMemoryFlag;

/// What `trackiops import csv` takes.
#[derive(clap::Args)]
pub struct Args {
    /// CSV or Parquet, with names of columns; - is CSV from standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: TargetFlags,
    /// Which column is what [default: the columns of trackiops export --requests]
    ///
    /// Needed are time (completion) or start, op (READ or WRITE, or other operations), and bytes. Others are latency, host, mount, path,
    /// fileid, file_key, offset, asked, uid, errno, xid and those that an export has beside them. UNIT of times is s, ms, us, ns or rfc3339; without
    /// it the column's name ends with it, or it has dates.
    #[arg(long, value_name = "FIELD=COLUMN[:UNIT],...", value_delimiter = ',')]
    map: Vec<Mapping>,
    #[command(flatten)]
    memory: ReadMemoryFlag,
}

/// Imports tables.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.memory.apply();
    let sources = sources(&args.files)?;
    let target = args.target.target("csv", &sources, &args.map);
    let mut imported = tables::import(&sources, args.map, target, &OwnProcess)?;
    if imported.calls > 0 {
        let calls = plural(imported.calls, "row");
        say(format_args!(
            "{calls} of the levels app and user left out: calls are no requests"
        ));
    }
    let backwards = Backwards {
        number: imported.backwards,
        what: "row",
        advice: "sort them by time, and name the files in order of time",
    };
    tell(&mut imported.hosts, "host", &backwards, |out| {
        print_time_range(&plural(imported.rows, "row"), imported.time_range_ns, out)
    })
}
