//! Answers: rows with notes, or the reason why there are no rows.

use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::identity::Tenant;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::UtcMs;

use crate::coverage::note::Note;
use crate::coverage::recorded_time::HostTimes;
use crate::file_selector::FileSelector;
use crate::group::{Entity, GroupBy};
use crate::interval::Interval;
use crate::lost::Lost;
use crate::origin::File;
use crate::sparse_row::SparseRow;
use crate::step::Step;
use crate::times::{Zone, show, show_range};
use crate::volume_names::VolumeName;

/// One row of an answer: one file, or another [`Entity`], in one window.
#[derive(Clone, Debug)]
pub struct AnswerRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The host that recorded the row.
    pub host: Arc<str>,
    /// The file, name, directory, mount, volume or host that the row describes.
    pub of: Entity,
    /// The volume that holds this, if known.
    pub volume: Option<Arc<VolumeName>>,
    /// The file, if the row describes one.
    pub file: Option<Arc<File>>,
    /// The tenant. A part that is unknown, or that differs between tenants, is `None`.
    pub tenant: Arc<Tenant>,
    /// The level at which the I/O was observed.
    pub level: IoLevel,
    /// Counters of the requests.
    pub sum: SparseRow,
    /// Whether its requests and calls are of the same tenants and the same time, so that they can be compared.
    pub has_both_sides: bool,
    /// Its lost time, if the question needs it. Unknown in windows.
    pub lost: Lost,
    /// Recorded time within the window on that host, ms, for rates; 0 if it is too short for a rate.
    pub covered_ms: u64,
}

impl AnswerRow {
    /// The name of the mount. `None` if it is unknown, or if the row describes a volume or a host.
    pub fn mount(&self) -> Option<&str> {
        match &self.of {
            Entity::File(_) => self.file.as_ref()?.mount.as_deref(),
            Entity::Name(mount, _) | Entity::Dir(mount, _) | Entity::Mount(mount) => {
                mount.as_deref()
            }
            Entity::Volume(_) | Entity::Host(_) => None,
        }
    }

    /// Path of the file or directory. `None` if it is unknown, or if the row describes neither.
    pub fn path(&self) -> Option<&str> {
        match &self.of {
            Entity::File(_) => self.file.as_ref()?.path.as_deref(),
            Entity::Name(_, name) => Some(name),
            Entity::Dir(_, dir) => dir.as_deref(),
            Entity::Mount(_) | Entity::Volume(_) | Entity::Host(_) => None,
        }
    }

    /// Name for people. A file without a name gets the number that `--file` accepts.
    pub fn name(&self) -> String {
        let unknown = || "-".to_owned();
        match &self.of {
            Entity::File(_) => self.file.as_ref().map_or_else(unknown, |file| file.name()),
            Entity::Name(_, name) => name.to_string(),
            Entity::Dir(_, dir) => dir.as_deref().unwrap_or("(no name)").to_owned(),
            Entity::Mount(mount) => mount.as_deref().map_or_else(unknown, str::to_owned),
            Entity::Volume(volume) => volume.as_deref().unwrap_or("(no volume)").to_owned(),
            Entity::Host(_) => self.host.to_string(),
        }
    }
}

/// The rows, in order, and their range.
#[derive(Clone, Debug)]
pub struct Answer<R = AnswerRow> {
    /// The rows; at least one.
    pub rows: Vec<R>,
    /// Length of the rows' windows.
    pub step: Step,
    /// The kind of entity that each row describes.
    pub by: GroupBy,
    /// The range that the rows cover.
    pub range: Interval,
    /// Notes about the answer.
    pub notes: Vec<Note>,
    /// The recorded time of the range, if the answer is about requests.
    pub recorded: Arc<HostTimes>,
}

impl<R> Answer<R> {
    /// Rows that each describe the whole range and have no recorded time.
    pub fn of_range(rows: Vec<R>, by: GroupBy, range: Interval, notes: Vec<Note>) -> Self {
        Self {
            rows,
            step: Step::All,
            by,
            range,
            notes,
            recorded: Arc::default(),
        }
    }

    /// The same answer with other rows.
    pub fn with_rows<S>(self, rows: Vec<S>) -> Answer<S> {
        Answer {
            rows,
            step: self.step,
            by: self.by,
            range: self.range,
            notes: self.notes,
            recorded: self.recorded,
        }
    }

    /// The outcome. `why` says why there is no row.
    pub fn or_nothing(self, why: impl FnOnce() -> EmptyReason) -> Outcome<R> {
        match self.rows.is_empty() {
            true => Outcome::Nothing {
                why: why(),
                notes: self.notes,
            },
            false => Outcome::Found(self),
        }
    }

    /// Keeps the first `most` rows, and adds a note with the number of dropped rows.
    pub fn keep_first(&mut self, most: usize) {
        let count = self.rows.len().saturating_sub(most);
        if count > 0 {
            self.rows.truncate(most);
            self.notes.push(Note::MoreRows { count });
        }
    }
}

/// What an answer needs, or why the answer has no rows without it.
pub type OrEmpty<T> = Result<T, EmptyReason>;

/// Why an answer has no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmptyReason {
    /// The stores have no data yet; their directories.
    EmptyStore(Vec<PathBuf>),
    /// No selector matches a file that was ever recorded; the text names the selectors.
    UnknownFile(String),
    /// The range lies outside of the recorded time.
    NotRecorded {
        /// The range of the question.
        asked: Interval,
        /// The recorded time.
        span: Interval,
    },
    /// The question is about operations, and the recorder ran without them.
    LeftOut {
        /// The range of the question.
        asked: Interval,
    },
    /// An export lacks these data; the text says which.
    NotExported(&'static str),
    /// The recorder ran, but no operation of a mount completed.
    NoOperation {
        /// The range of the question.
        asked: Interval,
    },
    /// Rows exist, but none meets the conditions.
    NoRow {
        /// The conditions, as text.
        conditions: String,
        /// The range of the question.
        asked: Interval,
    },
    /// The selected mounts have no data; the text names them and suggests others. Or no mounts are known; the text says
    /// why.
    NoMount(String),
    /// There were requests, but none of the selected kind.
    NoneOf {
        /// The selected kind, as text.
        what: String,
        /// The range of the question.
        asked: Interval,
    },
    /// The recorder ran, but there were no requests.
    Idle {
        /// The range of the question.
        asked: Interval,
        /// How many files the question selects.
        files: Which,
    },
}

/// How many files a question selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// One file.
    One,
    /// Several files.
    Some,
    /// All files.
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
    /// Text for people, with times in `zone`.
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
            Self::NotRecorded { asked, span } if asked.is_empty() => format!(
                "nothing was recorded before {}; the recording is from {}",
                show(asked.end, zone),
                from_to(span)
            ),
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
                format!(
                    "no operation of an NFS mount completed from {}; `trackiops query --by file,op` has those of local files",
                    from_to(asked)
                )
            }
            Self::NoneOf { what, asked } => format!("there were no {what} from {}", from_to(asked)),
            Self::Idle { asked, files } => {
                let files = match files {
                    Which::One => "no request read or wrote the file",
                    Which::Some => "no request read or wrote the files",
                    Which::All => "no request read or wrote a file",
                };
                format!("{files} from {}", from_to(asked))
            }
        }
    }
}

impl EmptyReason {
    /// As [`Self::show`], if damaged files were skipped: they may hold rows.
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

/// Result of a question.
#[derive(Clone, Debug)]
pub enum Outcome<R = AnswerRow> {
    /// At least one row.
    Found(Answer<R>),
    /// No rows.
    Nothing {
        /// The reason.
        why: EmptyReason,
        /// Notes about the answer.
        notes: Vec<Note>,
    },
}

impl<R> Outcome<R> {
    pub(crate) fn with(mut self, more: Vec<Note>) -> Self {
        let (Self::Found(Answer { notes, .. }) | Self::Nothing { notes, .. }) = &mut self;
        notes.extend(more);
        self
    }
}
