//! `trackiops store`: maintains a store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use trackiops_process::lifeline;
use trackiops_process::output::{Output, print, print_json};
use trackiops_process::progress::begin_reading;
use trackiops_query::times::Zone;
use trackiops_render::check;
use trackiops_render::units::{self, plural};

use crate::exit_status::ExitStatus;
use crate::report_flags::ReportFlags;
use crate::store_flag::StoreFlag;

/// Advice for a segment whose rows exist nowhere else.
const LOST: &str =
    "    restore it from a copy and run this again; until then, answers that need it say so";

/// What `trackiops store` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read a whole store, and report what is damaged, which time that covers and what to do
    ///
    /// Verifies the checksums of journals and segments, the order of rows, the catalog in itself and against the files, and
    /// that coarse windows are the sums of fine ones, and that a glob over `*.parquet` sees each segment once. A recorder may be
    /// at work meanwhile, unless with --repair. Exit status 0: all is well; 1: something is damaged; 2: it could not be checked.
    Check(CheckArgs),
    /// Rebuild the catalog from the segments, while no recorder runs
    ///
    /// For a catalog that is lost or damaged, and after segments were restored or moved in. Segments that counted and are
    /// damaged or missing stay listed, so that answers go on saying what is missing. Exit status 0: it knows all there is;
    /// 1: some files were left out; 2: it could not be made.
    RebuildCatalog(RebuildArgs),
    /// Copy a store, also while a recorder runs
    ///
    /// The copy has every window and request that was durable when the command began. Segments are hard links where the file
    /// system allows it, so a copy beside the store takes little room. The copy gets its name when it is complete.
    #[command(visible_alias = "snapshot")]
    Copy(CopyArgs),
}

#[derive(clap::Args)]
#[command(allow_missing_positional = true)]
struct CopyArgs {
    /// The store, as with --store
    #[arg(value_name = "STORE", conflicts_with = "store")]
    dir: Option<PathBuf>,
    /// The directory of the copy: new or empty, and not in the store
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    store: StoreFlag,
}

#[derive(clap::Args)]
struct RebuildArgs {
    /// The store, as with --store
    #[arg(value_name = "DIR", conflicts_with = "store")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlag,
}

#[derive(clap::Args)]
struct CheckArgs {
    /// The store, as with --store
    #[arg(value_name = "DIR", conflicts_with = "store")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlag,
    /// First complete what an interrupted recorder left, while no recorder runs
    ///
    /// Hides segments that were merged or have expired from `*.parquet`, shows those that replace them, and deletes the hidden
    /// ones. The next `trackiops record` does the same.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    form: ReportFlags,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Check(CheckArgs {
            dir,
            store,
            repair,
            form,
        }) => check(&store.or_named(dir).existing()?, repair, &form),
        Command::RebuildCatalog(RebuildArgs { dir, store }) => {
            rebuild_catalog(&store.or_named(dir).existing()?)
        }
        Command::Copy(CopyArgs { dir, to, store }) => copy(&store.or_named(dir).existing()?, &to),
    }
}

fn check(store: &Path, repair: bool, form: &ReportFlags) -> anyhow::Result<ExitCode> {
    let repaired = match repair {
        true => Some(trackiops_store::repair(store)?),
        false => None,
    };
    // The repair is over, and nothing is written after this.
    lifeline::end_with_reader();
    begin_reading("checking", None);
    let report = trackiops_store::check(store)?;
    Output::Stdout.write(|out| {
        if form.is_json() {
            let objects = check::objects(repaired.as_ref(), &report);
            return objects.iter().try_for_each(|line| print_json(line, out));
        }
        let lines = check::lines(repaired.as_ref(), &report, Zone::Local);
        lines.iter().try_for_each(|line| print(line, 4, out))
    })?;
    Ok(match report.findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitStatus::Negative.into(),
    })
}

fn rebuild_catalog(store: &Path) -> anyhow::Result<ExitCode> {
    begin_reading("rebuilding", None);
    let rebuilt = trackiops_store::rebuild_catalog(store)?;
    Output::Stdout.write(|out| {
        for (path, why) in &rebuilt.left_out {
            print(
                format_args!("{} is left out: {why}", path.display()),
                4,
                out,
            )?;
            let next = match rebuilt.lost.contains(path) {
                true => LOST,
                false if path.ends_with("imports") => {
                    "    nothing to do if you removed them to import again; else restore them from a copy"
                }
                false => "    restore it from a copy and run this again, or move it out of the store",
            };
            print(next, 4, out)?;
        }
        let segments = plural(rebuilt.segments, "segment");
        let journals = plural(rebuilt.journals, "journal");
        print(
            format_args!("the catalog knows {segments} of {journals}"),
            4,
            out,
        )
    })?;
    Ok(match rebuilt.left_out.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitStatus::Negative.into(),
    })
}

fn copy(store: &Path, to: &Path) -> anyhow::Result<ExitCode> {
    let copied = trackiops_store::copy(store, to)?;
    let segments = plural(copied.segments, "segment");
    let journals = plural(copied.journals, "journal");
    let line = format!(
        "copied {segments} ({} linked) and {journals} to {}; {} written",
        copied.linked,
        to.display(),
        units::bytes(copied.bytes)
    );
    Output::Stdout.write(|out| print(&line, 4, out))?;
    Ok(ExitCode::SUCCESS)
}
