//! `trackiops export`: writes a range of a store as a file that is useful without the store.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use arrow::array::RecordBatch;
use trackiops_process::output::{FilePermissions, Output, PartialFile, print, say};
use trackiops_process::progress::begin_reading;
use trackiops_query::marks::marks_in;
use trackiops_query::times::file_name;
use trackiops_query::{QueryError, Question, Range};
use trackiops_render::formats::{Kind, Reader, Texts, Writer};
use trackiops_render::pseudonym::{self, Check, Key, Pseudonyms, Way};
use trackiops_render::suffix::{EXPORTS, format_of, list_with_or};
use trackiops_render::units::plural;
use trackiops_render::{Export, ExportDataset, Exported};
use trackiops_schemas::time::Granularity;
use trackiops_store::Mark;

use crate::anonymize::read_key;
use crate::help_headings::{OUTPUT, ROWS, WHEN};
use crate::question_flags::SelectionFlags;
use crate::umask_flag::UmaskFlag;
use crate::{notes, outcome};

const EXAMPLES: &str = "\
Examples:
  trackiops export --since yesterday --until today --output /tmp     a day
  trackiops export --since 1h --granularity 1m --output hour.csv     an hour by the minute
  trackiops export --since 24h --anonymize key --output day.parquet  a day to pass on";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Write a range of a store as a file that needs no store: Parquet, Arrow, CSV or trace events

Rows are sorted by window, then by file key; requests by time of completion. The export reads the range in pieces, so its memory does \
not grow with the range: it holds some 65,000 rows for each processor, or the rows of one window if there are more. Dense ranges of short \
windows take long, because each piece reads all segments that it overlaps: use a longer --granularity, or name some files.

--anonymize encrypts names with AES-256-SIV (RFC 5297). Encryption is reversible, and the same name is the same token everywhere:
* path, mount, cgroup: each component, and the server before the colon
* host, user: the whole name
* filter, pending_clients and captured (of health): the whole filter; whole servers and clients, and mounts as in rows of files
It encrypts numbers with FF1 (NIST SP 800-38G), so that they keep their size and still join:
* file_key, a hash of mount and fileid from which a mount could be guessed
* fileid, which identifies the file to anyone who can ask the server
* uid

These columns are not encrypted: times, counts, dev (MAJOR:MINOR, a number of the client), op, transport (tcp-3), pid, xid, numbers of \
cgroups (?12345) and of RPC clients, and `(other)`. No export has mount options. An anonymized export still shows how long a component \
is, how often it occurs, the shape of the tree, what happened when, which of two hosts or cgroups comes first in the alphabet, and which of \
two uids is smaller. Sizes and times may identify a well-known file.

Tokens consist of letters, digits, - and _. The token of a component of n bytes has ceil(4 * (n + 16) / 3) characters. Tokens of components of more than \
175 bytes are longer than the 255 that a file name may have; as text in a column they are not cut.

Before the export puts the file in place it reads it again: every token must decrypt to its name, and the file must contain no component \
longer than two characters.";

/// What `trackiops export` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: SelectionFlags,
    /// Window length, a multiple of a recorded one
    ///
    /// Without it, the shortest that all of the range has.
    #[arg(long, visible_alias = "step", value_name = "LENGTH", help_heading = WHEN)]
    granularity: Option<Granularity>,
    /// Which rows: rollup, ops, health or requests
    ///
    /// `rollup` is what each tenant did with each file in each window, with all columns of queries, histograms among them; `ops`
    /// operations of mounts; `health` the recorder's own account; `requests` what `record --requests` kept.
    #[arg(long, value_name = "DATASET", default_value = "rollup", help_heading = ROWS)]
    dataset: ExportDataset,
    /// The same as --dataset requests
    #[arg(long, conflicts_with = "dataset", help_heading = ROWS)]
    requests: bool,
    /// Write into this file, or into a directory under a name of its own
    ///
    /// A file is replaced atomically; its ending chooses the format: .parquet, .csv, .arrow (.feather, .ipc), .jsonl (.ndjson) for json, .json for chrome,
    /// or .pftrace for perfetto. In a directory, the name says what the file has. `-` is standard output, for CSV, JSON and Arrow.
    #[arg(short, long, value_name = "FILE|DIR|-", help_heading = OUTPUT)]
    output: PathBuf,
    #[command(flatten)]
    access: UmaskFlag,
    /// parquet, csv, json, arrow, chrome, perfetto [default: by --output]
    ///
    /// It is parquet where --output does not say. Parquet, CSV, JSON and Arrow have all columns; in CSV, lists are JSON. JSON has an object per line. Arrow is
    /// an IPC file, also known as Feather 2; on standard output it is an IPC stream. chrome and perfetto have
    /// single requests, which https://ui.perfetto.dev draws on a timeline: the first as JSON, the second in its own format, which is smaller.
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT)]
    format: Option<FileFormat>,
    /// The same as --format csv
    #[arg(long, conflicts_with = "format", help_heading = OUTPUT)]
    csv: bool,
    /// CSV for a spreadsheet: no name in it is run as a formula
    ///
    /// As `trackiops query --csv-safe`: a `'` goes before text where a spreadsheet could begin a formula; numbers stay numbers.
    #[arg(long, conflicts_with = "anonymize", help_heading = OUTPUT)]
    csv_safe: bool,
    /// Replace all names by tokens that only this key leads back from
    ///
    /// `trackiops anonymize-key` makes a key.
    #[arg(long, value_name = "KEYFILE", help_heading = OUTPUT)]
    anonymize: Option<PathBuf>,
}

/// A file format, one of [`EXPORTS`].
#[derive(Clone, Copy)]
struct FileFormat(Kind);

impl FromStr for FileFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut kinds = EXPORTS.iter().map(|(kind, _)| *kind);
        let named = kinds.find(|kind| kind.name() == text);
        named.map(Self).ok_or_else(|| {
            let names = EXPORTS.iter().map(|(kind, _)| kind.name().to_owned());
            format!(
                "`{text}` is not a format of exports: write {}",
                list_with_or(names)
            )
        })
    }
}

/// Runs the command. Status 0: there are rows; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let key = args.anonymize.as_deref().map(read_key).transpose()?;
    let place = Destination::new(&args.output, args.access.into())?;
    let csv = Kind::Csv(Texts::AsTheyAre);
    let asked = match args.format {
        _ if args.csv => Some((csv, "--csv".to_owned())),
        None if args.csv_safe => Some((csv, "--csv-safe".to_owned())),
        Some(FileFormat(kind)) => Some((kind, format!("--format {}", kind.name()))),
        None => None,
    };
    let asked = asked.as_ref().map(|(kind, option)| (*kind, &**option));
    let mut kind = format_of(Some(&args.output), EXPORTS, asked, Kind::Parquet)?;
    if args.csv_safe {
        let Kind::Csv(texts) = &mut kind else {
            bail!("--csv-safe is for CSV; leave out --format {}", kind.name());
        };
        *texts = Texts::ForSpreadsheets;
    }
    let export = Export {
        table: match args.requests {
            true => ExportDataset::Requests,
            false => args.dataset,
        },
        granularity: args.granularity,
        question: args.selection.question()?,
    };
    let names_files = !(export.question.files.is_empty() && export.question.mounts.is_empty());
    if let Destination::Stdout = place {
        kind = kind_of_stdout(kind, key.is_some())?;
    }
    if kind.is_timeline() {
        refuse_contradictions_of_timelines(kind, &export, key.is_some())?;
    }
    refuse_contradictions(&export)?;
    let zone = export.question.zone;
    if !matches!(place, Destination::Stdout) {
        begin_reading("exporting", None);
    }
    let mut target = ExportFile::create(&place, args.access.into(), &export, kind, key)?;
    let exported = export.run(&mut |batch| target.write(&batch));
    let mut exported = match exported {
        // A reader such as `head` has read enough.
        Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
        exported => exported.map_err(in_words_of_exports)?,
    };
    if let Some(why) = &exported.nothing {
        let status = outcome::say_nothing_found(why, &exported.notes, zone);
        if let Destination::File(path) = &place {
            say(format_args!("{} is not written", path.display()));
        }
        return Ok(status);
    }
    if let (true, Some(range)) = (kind.is_timeline(), exported.range) {
        let range = Range {
            since: Some(range.start),
            until: Some(range.end),
        };
        let (marks, notes) = marks_in(&export.question.stores, range)?;
        target.mark(&marks)?;
        exported.notes.extend(notes);
        if names_files {
            say(
                "functions, and calls whose file is unknown, are not drawn: --file, --dir and --mount select requests of files",
            );
        }
    }
    let path = target.finish(&place, &export, &exported, kind)?;
    notes::say_notes(&exported.notes, zone);
    let rows = plural(exported.rows, "row");
    match path {
        None => say(rows),
        Some(path) => {
            let told = format!("{}: {rows}", path.display());
            Output::Stdout.write(|out| print(&told, 4, out))?;
        }
    }
    Ok(outcome::exit_status(&exported.notes))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Rewords errors about `--step`, which exports call `--granularity`.
fn in_words_of_exports(error: anyhow::Error) -> anyhow::Error {
    let list = |stored: &[Granularity]| {
        let names: Vec<_> = stored.iter().map(Granularity::to_string).collect();
        names.join(", ")
    };
    match error.downcast_ref() {
        Some(QueryError::StepNotStored { step, stored }) => anyhow!(
            "--granularity {step} is not a multiple of what is stored ({}); name a multiple of one of these",
            list(stored)
        ),
        Some(QueryError::StepNotRecorded {
            step,
            host,
            range,
            stored,
        }) => anyhow!(
            "--granularity {step} does not fit what {host} recorded {range}, where only {} is stored; name a multiple of \
             one of these, or a range without that part",
            list(stored)
        ),
        _ => error,
    }
}

/// Rejects flags that contradict a timeline.
fn refuse_contradictions_of_timelines(
    kind: Kind,
    export: &Export,
    is_anonymous: bool,
) -> anyhow::Result<()> {
    let name = kind.name();
    if export.table != ExportDataset::Requests {
        match kind {
            Kind::Chrome => bail!(
                "--format chrome, the format of names that end in .json, draws single requests: add --requests, or for rows as JSON \
                 end the name in .jsonl"
            ),
            _ => bail!("--format {name} draws single requests; add --requests"),
        }
    }
    if is_anonymous {
        bail!(
            "--anonymize reads again what it has written, and {name} is not read; write .parquet"
        );
    }
    Ok(())
}

/// Rejects flags that contradict each other.
fn refuse_contradictions(export: &Export) -> anyhow::Result<()> {
    let Question {
        files,
        mounts,
        tenants,
        tenant_rules,
        levels,
        ..
    } = &export.question;
    let are_tenants_asked = !tenants.is_empty() || tenant_rules.is_some();
    match export.table {
        ExportDataset::Ops if !files.is_empty() || are_tenants_asked => bail!(
            "--dataset ops has operations of mounts, not of files; leave out --file, --dir and --tenant, or take rollup, whose \
             column `ops` has those of files"
        ),
        ExportDataset::Health
            if !files.is_empty()
                || !mounts.is_empty()
                || !levels.is_empty()
                || are_tenants_asked =>
        {
            bail!(
                "--dataset health is the recorder's account of all files and mounts; leave out --file, --dir, --mount, --tenant and --level"
            )
        }
        ExportDataset::Requests if export.granularity.is_some() => {
            bail!("--dataset requests has no windows; leave out --granularity")
        }
        _ => Ok(()),
    }
}

/// The format on standard output, which must be written sequentially.
fn kind_of_stdout(kind: Kind, is_anonymous: bool) -> anyhow::Result<Kind> {
    if is_anonymous {
        bail!("--anonymize reads again what it has written; name a file");
    }
    match kind {
        Kind::Csv(_) | Kind::Json => Ok(kind),
        Kind::Arrow if Output::Stdout.is_terminal() => {
            bail!("refusing to write Arrow to a terminal; redirect it, or name a file")
        }
        Kind::Arrow => Ok(Kind::ArrowStream),
        other => bail!(
            "--output -: {} cannot go to standard output; name a file, or write --format csv, json or arrow",
            other.name()
        ),
    }
}

/// The destination of an export.
enum Destination {
    File(PathBuf),
    Dir(PathBuf),
    Stdout,
}

impl Destination {
    fn new(path: &Path, access: FilePermissions) -> anyhow::Result<Self> {
        if path.is_dir() {
            return Ok(Self::Dir(path.to_owned()));
        }
        match Output::new(Some(path.to_owned()), access)? {
            Output::File(path, _) => Ok(Self::File(path)),
            Output::Stream(path) => bail!(
                "cannot write {}: it is neither a file nor a directory; name one",
                path.display()
            ),
            Output::Stdout => Ok(Self::Stdout),
        }
    }

    /// The path while writing. In a directory, the final name is known only at the end.
    fn draft(&self, export: &Export) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Dir(dir) => dir.join(export.table.name()),
            Self::Stdout => PathBuf::from("-"),
        }
    }
}

/// Receives the bytes of an export.
enum Sink {
    File(File),
    Stdout(io::Stdout),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

/// A file that is being written.
struct ExportFile {
    /// `None` on standard output.
    partial: Option<PartialFile>,
    writer: Writer<BufWriter<Sink>>,
    anonymizer: Option<Anonymizer>,
}

/// Replaces names, and checks that none remains.
struct Anonymizer {
    pseudonyms: Pseudonyms,
    check: Check,
}

impl ExportFile {
    fn create(
        place: &Destination,
        access: FilePermissions,
        export: &Export,
        kind: Kind,
        key: Option<Key>,
    ) -> anyhow::Result<Self> {
        // Reading the rows may take long: by then the store may be gone, or be another one.
        let stores = key.is_none().then(|| export.describe_stores());
        let stores = stores.transpose()?;
        let path = place.draft(export);
        let create = || -> io::Result<_> {
            let (partial, sink) = match place {
                Destination::Stdout => (None, Sink::Stdout(io::stdout())),
                Destination::File(_) | Destination::Dir(_) => {
                    let partial = PartialFile::create(&path, access)?;
                    let file = partial.file()?;
                    (Some(partial), Sink::File(file))
                }
            };
            let out = BufWriter::new(sink);
            let writer = Writer::new(kind, &export.table.schema(), out)?;
            Ok((partial, writer))
        };
        let (partial, mut writer) = create().with_context(|| cannot_write(&path))?;
        writer.describe(stores);
        let anonymizer = key.map(|key| Anonymizer {
            pseudonyms: Pseudonyms::new(&key, Way::Hide),
            check: Check::new(&key),
        });
        Ok(Self {
            partial,
            writer,
            anonymizer,
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        let hidden = match &mut self.anonymizer {
            None => None,
            Some(anonymizer) => {
                let hidden = pseudonym::apply(batch, &mut anonymizer.pseudonyms)?;
                anonymizer.check.leads_back(batch, &hidden)?;
                Some(hidden)
            }
        };
        let written = self.writer.write(hidden.as_ref().unwrap_or(batch));
        written.with_context(|| self.cannot_write())
    }

    fn cannot_write(&self) -> String {
        let draft = self.partial.as_ref().map(PartialFile::draft);
        cannot_write(draft.unwrap_or(Path::new("standard output")))
    }

    fn mark(&mut self, marks: &[Mark]) -> anyhow::Result<()> {
        let written = self.writer.mark(marks);
        written.with_context(|| self.cannot_write())
    }

    /// Completes the file, checks that it contains no name, and puts it in place.
    fn finish(
        self,
        place: &Destination,
        export: &Export,
        exported: &Exported,
        kind: Kind,
    ) -> anyhow::Result<Option<PathBuf>> {
        let Self {
            partial,
            mut writer,
            anonymizer,
        } = self;
        writer.describe(exported.describe(export.table));
        let Some(mut partial) = partial else {
            let finished = writer
                .finish()
                .and_then(|mut finished| finished.out.flush());
            finished.context("cannot write to standard output")?;
            return Ok(None);
        };
        let cannot = || cannot_write(partial.draft());
        let finished = writer.finish().with_context(cannot)?;
        let out = finished.out.into_inner();
        let out = out
            .map_err(|error| error.into_error())
            .with_context(cannot)?;
        let Sink::File(mut out) = out else {
            return Ok(None);
        };
        out.sync_all().with_context(cannot)?;
        if let Some(mut anonymizer) = anonymizer {
            out.rewind().with_context(cannot)?;
            for batch in Reader::of(out, partial.draft(), &pseudonym::known_schemas())? {
                anonymizer.check.tells_nothing(&batch?)?;
            }
        }
        let path = match place {
            Destination::Stdout => return Ok(None),
            Destination::File(path) => path.clone(),
            Destination::Dir(dir) => {
                let name = export_file_name(export, exported, kind);
                partial.rename(&name);
                dir.join(name)
            }
        };
        let placed = partial.put_in_place();
        placed.with_context(|| cannot_write(&path))?;
        if finished.partial > 0 {
            say(format_args!(
                "{} may lack arrows from calls: too many calls to remember or to look at; a shorter range or fewer files have all",
                plural(finished.partial, "request")
            ));
        }
        Ok(Some(path))
    }
}

fn cannot_write(path: &Path) -> String {
    format!(
        "cannot write {}; check the room there and who may write",
        path.display()
    )
}

/// `rollup-1s-20261121T030000Z-20261121T040000Z.parquet`
fn export_file_name(export: &Export, exported: &Exported, kind: Kind) -> String {
    let mut name = export.table.name().to_owned();
    if let Some(granularity) = exported.granularity {
        name += &format!("-{granularity}");
    }
    if let Some(range) = exported.range {
        name += &format!("-{}-{}", file_name(range.start), file_name(range.end));
    }
    format!("{name}.{}", kind.extension())
}
