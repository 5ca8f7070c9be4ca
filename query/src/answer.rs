//! From a question to its answer.

use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::identity::Tenant;
use trackiops_schemas::time::UtcMs;

use crate::coverage::Interval;
use crate::coverage::note::Note;
use crate::file::FileSelector;
use crate::group::{Entity, GroupBy};
use crate::origin::File;
use crate::sparse_row::SparseRow;
use crate::step::Step;
use crate::times::{Zone, show_range};

/// One file in one window, or what else a row stands for.
#[derive(Clone, Debug)]
pub struct AnswerRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: Arc<str>,
    /// What it is of.
    pub of: Entity,
    /// The file, if it is of one.
    pub file: Option<Arc<File>>,
    /// Who used it; a part that is unknown or differs between several tenants is `None`.
    pub tenant: Arc<Tenant>,
    /// Its counters.
    pub sum: SparseRow,
    /// How much of the window that host recorded, ms: what rates divide by.
    pub covered_ms: u64,
}

impl AnswerRow {
    /// `server:/export`, where it is known and the row is of one.
    pub fn mount(&self) -> Option<&str> {
        match &self.of {
            Entity::File(_) => self.file.as_ref()?.mount.as_deref(),
            Entity::Name(mount, _) | Entity::Dir(mount, _) | Entity::Mount(mount) => {
                mount.as_deref()
            }
            Entity::Host(_) => None,
        }
    }

    /// The name of the file or directory, where it is known and the row is of one.
    pub fn path(&self) -> Option<&str> {
        match &self.of {
            Entity::File(_) => self.file.as_ref()?.path.as_deref(),
            Entity::Name(_, name) => Some(name),
            Entity::Dir(_, dir) => dir.as_deref(),
            Entity::Mount(_) | Entity::Host(_) => None,
        }
    }

    /// What people call what it is of. A file without a name has what `--file` takes in its place.
    pub fn name(&self) -> String {
        let unknown = || "-".to_owned();
        match &self.of {
            Entity::File(_) => self.file.as_ref().map_or_else(unknown, |file| file.name()),
            Entity::Name(_, name) => name.to_string(),
            Entity::Dir(_, dir) => dir.as_deref().unwrap_or("(no name)").to_owned(),
            Entity::Mount(mount) => mount.as_deref().map_or_else(unknown, str::to_owned),
            Entity::Host(_) => self.host.to_string(),
        }
    }
}

/// The rows, in order, and what they cover.
#[derive(Clone, Debug)]
pub struct Answer<R = AnswerRow> {
    /// The rows; at least one.
    pub rows: Vec<R>,
    /// Their windows.
    pub step: Step,
    /// What each stands for.
    pub by: GroupBy,
    /// The range that they cover.
    pub range: Interval,
    /// What else to know.
    pub notes: Vec<Note>,
}

impl<R> Answer<R> {
    /// Keeps the first rows, and notes how many there were more.
    pub fn keep_first(&mut self, most: usize) {
        let count = self.rows.len().saturating_sub(most);
        if count > 0 {
            self.rows.truncate(most);
            self.notes.push(Note::MoreRows { count });
        }
    }
}

/// Why there is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmptyReason {
    /// Nothing was recorded yet.
    EmptyStore(Vec<PathBuf>),
    /// No such file was ever recorded; the text says which.
    UnknownFile(String),
    /// The range lies outside of what was recorded.
    NotRecorded {
        /// The range.
        asked: Interval,
        /// What was recorded.
        span: Interval,
    },
    /// It was recorded without operations, which were asked for.
    LeftOut {
        /// The range.
        asked: Interval,
    },
    /// Exports do not have what is asked for; the text says what to ask in its place.
    NotExported(&'static str),
    /// It was recorded, and there was no operation.
    NoOperation {
        /// The range.
        asked: Interval,
    },
    /// There were rows, and none meets the conditions.
    NoRow {
        /// These, in words.
        conditions: String,
        /// The range.
        asked: Interval,
    },
    /// Nothing was recorded on the mounts that are asked for; the text says more.
    NoMount(String),
    /// There were requests, and none of that which is asked for.
    NoneOf {
        /// That, in words.
        what: String,
        /// The range.
        asked: Interval,
    },
    /// It was recorded, and nothing happened.
    Idle {
        /// The range.
        asked: Interval,
        /// Of what that is said.
        files: Which,
    },
}

/// Which files are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// One.
    One,
    /// Some of them.
    Some,
    /// All.
    All,
}

impl Which {
    pub(crate) fn of(files: &[FileSelector]) -> Self {
        match files {
            [] => Self::All,
            [file] if !file.is_of_several() => Self::One,
            _ => Self::Some,
        }
    }
}

impl EmptyReason {
    /// The reason as people read it.
    pub fn show(&self, zone: Zone) -> String {
        let from_to = |range: &Interval| show_range(range.start, range.end, zone);
        match self {
            Self::EmptyStore(stores) => format!(
                "nothing is recorded in {} yet; `trackiops record` fills it, a window shows once it is closed",
                stores
                    .iter()
                    .map(|store| store.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::UnknownFile(what) | Self::NoMount(what) => what.clone(),
            Self::NoRow { conditions, asked } => {
                format!("there is no row with {conditions} from {}", from_to(asked))
            }
            Self::NotRecorded { asked, span } => format!(
                "nothing was recorded from {}; the recording is from {}",
                from_to(asked),
                from_to(span)
            ),
            Self::LeftOut { asked } => format!(
                "no operations were recorded from {}: `trackiops record` without --no-ops and without filters, and with the \
                 direct engine, records them",
                from_to(asked)
            ),
            Self::NotExported(what) => format!("an export has no {what}"),
            Self::NoOperation { asked } => {
                format!("no operation completed from {}", from_to(asked))
            }
            Self::NoneOf { what, asked } => format!("there were no {what} from {}", from_to(asked)),
            Self::Idle { asked, files } => {
                let files = match files {
                    Which::One => "the file was neither read nor written",
                    Which::Some => "the files were neither read nor written",
                    Which::All => "no file was read or written",
                };
                format!("{files} from {}", from_to(asked))
            }
        }
    }
}

impl EmptyReason {
    /// As [`Self::show`], where a part cannot be read: there may have been something in it.
    pub fn show_damaged(&self, zone: Zone) -> String {
        match self {
            Self::NotRecorded { asked, .. }
            | Self::LeftOut { asked }
            | Self::NoOperation { asked }
            | Self::NoRow { asked, .. }
            | Self::NoneOf { asked, .. }
            | Self::Idle { asked, .. } => format!(
                "no rows can be read from {}; the damaged files may have some",
                show_range(asked.start, asked.end, zone)
            ),
            Self::EmptyStore(_)
            | Self::UnknownFile(_)
            | Self::NoMount(_)
            | Self::NotExported(_) => format!("as far as it can be read, {}", self.show(zone)),
        }
    }
}

/// What a question leads to.
#[derive(Clone, Debug)]
pub enum Outcome<R = AnswerRow> {
    /// At least one row.
    Found(Answer<R>),
    /// No row.
    Nothing {
        /// Why.
        why: EmptyReason,
        /// What else to know.
        notes: Vec<Note>,
    },
}

impl<R> Outcome<R> {
    /// The outcome with more notes.
    pub(crate) fn with(mut self, more: Vec<Note>) -> Self {
        let (Self::Found(Answer { notes, .. }) | Self::Nothing { notes, .. }) = &mut self;
        notes.extend(more);
        self
    }
}
