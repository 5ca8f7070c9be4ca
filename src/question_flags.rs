//! Flags of commands that query a store: files, time, rows and format.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use trackiops_process::output::Output;
use trackiops_query::times::{self, Zone};
use trackiops_query::{
    Columns, Condition, Explain, FileSelector, GroupBy, Projection, Question, Range, Record, Sort,
    Step, add_absolute,
};
use trackiops_render::Format;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::UtcMs;

use crate::counts::from_one;
use crate::help_headings::{OUTPUT, ROWS, WHAT, WHEN};
use crate::notes::say_moment;
use crate::output_flags::OutputFlags;
use crate::store_flag::StoreFlags;
use crate::tenant_rules;

/// Which files.
#[derive(clap::Args, Clone, Default)]
pub struct FileFlags {
    /// Only this file: a path, a pattern or MAJOR:MINOR:FILEID; repeatable
    ///
    /// A path or a pattern means the files that had such a name at the time. In patterns * and ? stand for anything but a slash,
    /// [a-z] for one character and ** for any directories; quote them.
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    file: Vec<PathBuf>,
    /// Only files below this directory; adds to --file; repeatable
    ///
    /// Includes operations about the directory itself. The directory is looked for in the names that files had at the time.
    #[arg(long, value_name = "DIR", help_heading = WHAT)]
    dir: Vec<PathBuf>,
    /// Only files of this mount: server:/export or a mount point; repeatable
    ///
    /// Takes patterns of either, such as 'nas:*'. `trackiops mounts` lists the mounts.
    #[arg(long, value_name = "MOUNT", help_heading = WHAT, value_parser = NonEmptyStringValueParser::new())]
    mount: Vec<String>,
    /// Only files of this volume, by its name or its claim; repeatable
    ///
    /// Of Kubernetes or Docker. A claim is NAMESPACE/NAME where both are known. Takes patterns, such as 'shop/*'. `--by volume` lists
    /// the volumes.
    #[arg(long, value_name = "VOLUME", help_heading = WHAT, value_parser = NonEmptyStringValueParser::new())]
    volume: Vec<String>,
    /// Only rows of this tenant: its name, or else user or cgroup; repeatable
    ///
    /// A tenant has the name that rules gave it. Where they gave none it is meant by its user's name or number, its cgroup or its
    /// container, or by USER:CGROUP. Takes patterns, such as 'team-*' or '*/db.service'.
    #[arg(long, value_name = "TENANT", help_heading = WHAT, value_parser = NonEmptyStringValueParser::new())]
    tenant: Vec<String>,
    /// Only rows of this level: wire, block, app [default: wire or block]
    ///
    /// The wire has requests of the NFS client, the block level those to the devices of the host. Rows of different levels are not added up:
    /// to see several, name them with commas and group by level. `app` has the calls of applications for local files, in rows of the block level.
    /// Single calls are of levels of their own: app, and user for functions of programs. Default: the first level that has rows.
    #[arg(long, value_name = "LEVEL,...", value_delimiter = ',', help_heading = WHAT)]
    level: Vec<IoLevel>,
    /// Name tenants by these rules, in place of the recorded names
    ///
    /// The file is one of `trackiops record --tenants`. Rules decide by what was recorded; the groups of users are those of this host.
    #[arg(long, value_name = "RULES", help_heading = WHAT)]
    tenants: Option<PathBuf>,
    /// Look names up in the store alone, not among the files of this host: for `serve`
    #[arg(long, hide = true)]
    stored_names: bool,
}

impl FileFlags {
    /// Whether --file names any files.
    pub fn names_files(&self) -> bool {
        !self.file.is_empty()
    }

    /// The flags that are given.
    pub fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("--file", !self.file.is_empty()),
            ("--dir", !self.dir.is_empty()),
            ("--mount", !self.mount.is_empty()),
            ("--volume", !self.volume.is_empty()),
            ("--tenant", !self.tenant.is_empty()),
            ("--level", !self.level.is_empty()),
            ("--tenants", self.tenants.is_some()),
        ];
        let given = flags.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name).collect()
    }

    /// A question about these files. It has one row per file for the whole range, unless the caller changes that.
    pub fn question(
        mut self,
        stores: Vec<PathBuf>,
        range: Range,
        (zone, now): (Zone, UtcMs),
    ) -> anyhow::Result<Question> {
        if self.stored_names {
            let mut names = self.file.iter().chain(&self.dir);
            names.try_for_each(|name| FileSelector::check_stored(name))?;
        } else {
            add_absolute(&mut self.mount);
        }
        let files = self.file.iter().map(|path| FileSelector::parse(path));
        let dirs = self.dir.iter().map(|path| FileSelector::below(path));
        let files = files.chain(dirs).map(|file| match self.stored_names {
            true => Ok(file?.stored()),
            false => file,
        });
        Ok(Question {
            stores,
            view: None,
            files: files.collect::<Result<_, _>>()?,
            range,
            step: Some(Step::All),
            mounts: self.mount,
            volumes: self.volume,
            tenants: self.tenant,
            levels: self.level,
            tenant_rules: self
                .tenants
                .as_deref()
                .map(tenant_rules::read)
                .transpose()?
                .map(Arc::new),
            ops: Vec::new(),
            conditions: Vec::new(),
            sort: None,
            top: None,
            by: GroupBy::FILE,
            projection: Projection::totals(),
            now,
            zone,
            explain: Explain::default(),
            row_limit: None,
            usual: None,
        })
    }
}

/// When.
#[derive(clap::Args)]
pub struct WhenFlags {
    /// From this time on: 24h (ago), yesterday, 03:10 ... [default: all]
    ///
    /// Takes how long ago (90s, 24h, 1w, 2d12h, 1 hour ago), now, today and yesterday (their midnight), 03:10 (the last one that
    /// was), yesterday 03:10, 2026-11-21, 2026-11-21 03:10, RFC 3339 (2026-11-21T03:10:00Z) and seconds since 1970 (@1795233120).
    /// Times without an offset are local.
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    since: Option<String>,
    /// Until this time: as --since, or +10m after --since [default: now]
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    until: Option<String>,
}

impl WhenFlags {
    /// The range of these flags.
    pub fn range(&self, (zone, now): (Zone, UtcMs)) -> anyhow::Result<Range> {
        let since = self.since.as_deref();
        let since = since.map(|text| since_of(text, now, zone)).transpose()?;
        let until = match &self.until {
            None => None,
            Some(text) => {
                let moment = times::parse_end(text, since, now, zone).context("--until")?;
                say_moment("--until", moment, zone);
                Some(moment.at)
            }
        };
        Ok(Range { since, until })
    }
}

/// Stores and range.
#[derive(clap::Args)]
pub struct RangeFlags {
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    #[command(flatten)]
    when: WhenFlags,
}

impl RangeFlags {
    /// A question about these files. It has one row per file for the whole range, unless the caller changes that.
    pub fn question(self, files: FileFlags) -> anyhow::Result<Question> {
        let time = (Zone::Local, UtcMs::now());
        let range = self.when.range(time)?;
        files.question(self.stores.existing()?, range, time)
    }
}

/// Stores, range and files.
#[derive(clap::Args)]
pub struct SelectionFlags {
    #[command(flatten)]
    range: RangeFlags,
    #[command(flatten)]
    files: FileFlags,
}

impl SelectionFlags {
    /// Adds files, like --file.
    pub fn add_files(&mut self, files: Vec<PathBuf>) {
        self.files.file.extend(files);
    }

    /// Adds directories, like --dir.
    pub fn add_dirs(&mut self, dirs: Vec<PathBuf>) {
        self.files.dir.extend(dirs);
    }

    /// Whether --file names any files.
    pub fn names_files(&self) -> bool {
        self.files.names_files()
    }

    /// The question. It has one row per file for the whole range, unless the caller changes that.
    pub fn question(self) -> anyhow::Result<Question> {
        self.range.question(self.files)
    }
}

/// Stores, range and format: for lists that choose no files.
#[derive(clap::Args)]
pub struct ListFlags {
    #[command(flatten)]
    range: RangeFlags,
    #[command(flatten)]
    form: OutputFlags,
}

impl ListFlags {
    /// The question, and the format and destination of its answer.
    pub fn question(self) -> anyhow::Result<(Question, Format, Output)> {
        let (format, output) = self.form.choose()?;
        let question = self.range.question(FileFlags::default())?;
        Ok((question, format, output))
    }
}

/// The time in --since.
pub fn since_of(text: &str, now: UtcMs, zone: Zone) -> anyhow::Result<UtcMs> {
    let moment = times::parse(text, now, zone).context("--since")?;
    say_moment("--since", moment, zone);
    Ok(moment.at)
}

/// Which rows, in which order, with which columns.
#[derive(clap::Args, Clone)]
pub struct RowFlags {
    /// Only rows that match: 'bytes > 1GiB and requests >= 100'; repeatable
    ///
    /// Compares columns by > >= < <= = != with numbers, which may have a unit (20ms, 10MiB/s, 1.5G, 5%); `and`, `or` and brackets
    /// combine comparisons. All of several --where must match. Unknown values never match.
    #[arg(long = "where", value_name = "CONDITION", help_heading = ROWS)]
    pub conditions: Vec<Condition>,
    /// Sort by a column, largest first; COLUMN:asc for smallest first
    ///
    /// Takes any column that is a number (--columns help). Unknown values come last. Without it, files and groups over the whole range are
    /// sorted by `took`, the sum of latencies: who kept a server or device busy comes first.
    #[arg(long, value_name = "COLUMN", help_heading = ROWS)]
    pub sort: Option<Sort>,
    /// Only the first N by --sort, or else by the time that their requests took
    ///
    /// Ranks files, or what else a row stands for, over the whole range. With windows, those of the first come first.
    #[arg(long, value_name = "N", value_parser = from_one, help_heading = ROWS)]
    pub top: Option<NonZeroUsize>,
    /// Show these columns, in this order; `help` lists all
    ///
    /// Takes long names and, where there are some, short ones (`read_p99`). Percentiles are within 1.1 % of the true ones; for
    /// calls of applications, within 7.5 %. Without it CSV has all columns but lists; JSON, Parquet and Arrow have lists as well.
    #[arg(long, value_name = "NAME,...", help_heading = OUTPUT)]
    columns: Option<String>,
}

/// What `--columns` asks for.
pub enum ColumnsFlag<R> {
    /// The list of all columns. It was written, so the command is done.
    List,
    /// Rows with these columns, or with the usual ones.
    Rows(Option<Columns<R>>),
}

impl<R> ColumnsFlag<R> {
    /// The columns of rows, unless they are the usual ones.
    pub fn of_rows(self) -> Option<Columns<R>> {
        match self {
            Self::List => None,
            Self::Rows(columns) => columns,
        }
    }
}

impl RowFlags {
    /// Reads `--columns`, and lists all columns if that is what it asks for.
    pub fn columns<R: Record>(&self) -> anyhow::Result<ColumnsFlag<R>> {
        match self.columns.as_deref() {
            None => Ok(ColumnsFlag::Rows(None)),
            Some("help") => {
                let output = Output::Stdout;
                output.write(|out| trackiops_render::list_columns::<R>(output.look(), out))?;
                Ok(ColumnsFlag::List)
            }
            Some(list) => Ok(ColumnsFlag::Rows(Some(
                Columns::parse(list).context("--columns")?,
            ))),
        }
    }

    /// The question with these flags.
    pub fn add_to(self, question: Question) -> Question {
        Question {
            conditions: self.conditions,
            sort: self.sort,
            top: self.top,
            ..question
        }
    }
}
