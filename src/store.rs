//! `trackiops store`: maintains a store.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use trackiops_query::times::{Zone, rfc3339, show_range};
use trackiops_render::units::{self, plural};
use trackiops_store::{Covers, Finding, Repaired, Report, StoreIds};

use crate::exit_status::ExitStatus;
use crate::lifeline;
use crate::output::{Output, print, print_json};
use crate::progress::begin_reading;
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
            let mut lines: Vec<_> = repaired.iter().map(repair_object).collect();
            lines.extend(report.findings.iter().map(finding_object));
            lines.push(totals_object(&report));
            return lines
                .into_iter()
                .try_for_each(|line| print_json(&line, out));
        }
        if let Some(repaired) = &repaired {
            print(repair_line(repaired), 4, out)?;
        }
        for finding in &report.findings {
            for line in finding_lines(finding, Zone::Local) {
                print(line, 4, out)?;
            }
        }
        if report.waiting > 0 {
            print(waiting_line(&report), 4, out)?;
        }
        if let Some(ids) = &report.ids {
            print(ids_line(ids), 4, out)?;
        }
        print(summary(&report), 4, out)
    })?;
    Ok(match report.findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitStatus::Negative.into(),
    })
}

/// A finding as JSON.
fn finding_object(finding: &Finding) -> Value {
    let Finding {
        path,
        why,
        covers,
        next,
    } = finding;
    let covers = covers.as_ref();
    json!({
        "kind": "finding",
        "path": path.to_string_lossy(),
        "why": why,
        "start": covers.map(|covers| rfc3339(covers.start)),
        "end": covers.map(|covers| rfc3339(covers.end)),
        "files": covers.map(|covers| covers.files),
        "names": covers.map(|covers| &covers.names),
        "next": next,
    })
}

/// A repair as JSON.
fn repair_object(repaired: &Repaired) -> Value {
    let Repaired {
        hidden,
        shown,
        deleted,
        left,
    } = repaired;
    let left: Vec<_> = left.iter().map(ToString::to_string).collect();
    json!({"kind": "repair", "hidden": hidden, "shown": shown, "deleted": deleted, "left": left})
}

/// The totals of a check as JSON.
fn totals_object(report: &Report) -> Value {
    let Report {
        ids,
        findings,
        journals,
        segments,
        rows,
        bytes,
        waiting,
        waiting_bytes,
    } = report;
    let ids = ids.as_ref();
    json!({
        "kind": "summary",
        "store_id": ids.map(|ids| ids.id),
        "former_ids": ids.map(|ids| &ids.former),
        "is_copy": ids.map(|ids| ids.is_copy),
        "findings": findings.len(),
        "journals": journals,
        "segments": segments,
        "rows": rows,
        "bytes": bytes,
        "waiting": waiting,
        "waiting_bytes": waiting_bytes,
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

/// A finding as lines of text.
fn finding_lines(finding: &Finding, zone: Zone) -> Vec<String> {
    let Finding {
        path,
        why,
        covers,
        next,
    } = finding;
    let mut lines = vec![format!("{}: {why}", path.display())];
    lines.extend(covers.as_ref().map(|covers| {
        let range = show_range(covers.start, covers.end, zone);
        format!("    covers {range}{}", covered_files(covers))
    }));
    lines.push(format!("    {next}"));
    lines
}

fn covered_files(covers: &Covers) -> String {
    let Covers { files, names, .. } = covers;
    let unnamed = files.saturating_sub(names.len() as u64);
    let names = names.join(", ");
    match (files, unnamed, names.is_empty()) {
        (0, ..) => String::new(),
        (1, _, true) => "; 1 file".to_owned(),
        (_, _, true) => format!("; {files} files"),
        (_, 0, _) => format!("; {names}"),
        _ => format!("; {names} and {unnamed} more files"),
    }
}

fn repair_line(repaired: &Repaired) -> String {
    let Repaired {
        hidden,
        shown,
        deleted,
        ref left,
    } = *repaired;
    if *repaired == Repaired::default() {
        return "nothing to repair".to_owned();
    }
    let mut text = format!(
        "repaired: {} hidden, {} shown, {} deleted",
        plural(hidden, "superseded segment"),
        plural(shown, "segment"),
        plural(deleted, "file")
    );
    for notice in left {
        text.push_str(&format!("\nnot repaired: {notice}"));
    }
    text
}

fn waiting_line(report: &Report) -> String {
    format!(
        "{} of merged or expired segments ({}), hidden from `*.parquet`, will be deleted: by the recorder within minutes, or by \
         `trackiops store check --repair` while nobody records",
        plural(report.waiting, "file"),
        units::bytes(report.waiting_bytes)
    )
}

/// The id of a store, and the last of its former ones.
fn ids_line(ids: &StoreIds) -> String {
    let StoreIds {
        id,
        former,
        is_copy,
    } = ids;
    let mut line = format!("store id {id}");
    if let Some(former) = former.last() {
        line += &format!(", formerly {former}");
    }
    if *is_copy {
        line += "; this is a copy, and takes a new id when it is recorded into";
    }
    line
}

fn summary(report: &Report) -> String {
    let Report {
        findings,
        journals,
        segments,
        rows,
        bytes,
        ..
    } = report;
    let found = match findings.len() as u64 {
        0 => "nothing is damaged".to_owned(),
        n => plural(n, "problem"),
    };
    format!(
        "checked the catalog, {}, {}, {}, {}: {found}",
        plural(*journals, "journal"),
        plural(*segments, "segment"),
        plural(*rows, "row"),
        units::bytes(*bytes)
    )
}
