//! The content of a tab: rows with the same figures, whatever their subject.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use trackiops_live::{Moment, Source};
use trackiops_query::columns::{Column, Value};
use trackiops_query::coverage::note::Note;
use trackiops_query::{
    AnswerRow, Columns, Connections, Entity, FileSelector, GroupBy, Level, OperationAnswer,
    Outcome, QueryError, Question, Record, Sort, Step, UsualLatencies, ask, ask_operations,
};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::view::View;

/// The subject of a tab's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Files,
    Tree,
    Mounts,
    Volumes,
    Tenants,
    Operations,
    Stalls,
}

impl Tab {
    pub const ALL: [Self; 7] = [
        Self::Files,
        Self::Tree,
        Self::Mounts,
        Self::Tenants,
        Self::Operations,
        Self::Stalls,
        Self::Volumes,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Tree => "tree",
            Self::Mounts => "mounts",
            Self::Volumes => "volumes",
            Self::Tenants => "tenants",
            Self::Operations => "operations",
            Self::Stalls => "stalls",
        }
    }

    /// The value for `query --by`.
    pub fn by(self) -> &'static str {
        match self {
            Self::Files => "file",
            Self::Tree => "dir",
            Self::Mounts | Self::Stalls => "mount",
            Self::Volumes => "volume",
            Self::Tenants => "tenant",
            Self::Operations => "op",
        }
    }
}

/// A row of a tab.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// Identifies the row, also in the next window.
    pub id: String,
    pub name: String,
    /// The figures of the view.
    pub figures: Vec<Option<f64>>,
    /// The first figure over time.
    pub course: Vec<f64>,
    pub target: Target,
}

/// The page that a row opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, in the form of `--file`.
    File(String),
    Dir(String),
    Nothing,
}

/// The rows of a tab at a moment.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<TableRow>,
    pub range: Option<(UtcMs, UtcMs)>,
    pub notes: Vec<Note>,
    /// Why there are no rows.
    pub empty: Option<String>,
    /// All rows together over time.
    pub whole: Whole,
}

/// The activity of all rows together over time; NaN in unrecorded time.
#[derive(Debug, Default)]
pub struct Whole {
    pub iops: Vec<f64>,
    pub p99_us: Vec<f64>,
}

/// The request for a table.
pub struct Wanted<'a> {
    pub tab: Tab,
    pub view: &'static View,
    /// Only files below this directory.
    pub dir: Option<&'a str>,
    pub moment: Moment,
    pub length: Granularity,
    pub sort: usize,
    /// Rows with courses.
    pub courses: usize,
    /// What lost time is compared with.
    pub usual: Option<Arc<UsualLatencies>>,
}

impl Table {
    /// Fetches the rows of a tab, in no particular order.
    pub fn ask(source: &Source, wanted: &Wanted<'_>) -> anyhow::Result<Self> {
        let mut question = source.question(wanted.moment, wanted.length.ms())?;
        question.usual.clone_from(&wanted.usual);
        if let Some(dir) = wanted.dir {
            question.files.push(FileSelector::below(Path::new(dir))?);
        }
        let range = question.range.since.zip(question.range.until);
        let courses = |question: &Question| -> anyhow::Result<Question> {
            let course = source.course(question, wanted.length.ms())?;
            Ok(Question {
                top: NonZeroUsize::new(wanted.courses),
                sort: Some(Sort {
                    column: wanted.view.figures[wanted.sort].column.to_owned(),
                    ascending: false,
                }),
                ..course
            })
        };
        let whole = Whole::ask(source, wanted, &question)?;
        let table = match wanted.tab {
            Tab::Operations if wanted.view.is_of_connections => {
                // The first rows may all be operations of one connection.
                let courses = Question {
                    top: None,
                    ..courses(&question)?
                };
                let mut table = Self::of(
                    wanted.view,
                    ask_connections(&question)?,
                    &ask_connections(&courses)?,
                    connection,
                    |row| row.time,
                )?;
                if table.rows.is_empty() && table.empty.is_none() {
                    table.empty = Some("nothing is known of TCP connections".to_owned());
                }
                table
            }
            Tab::Operations => {
                let ask = |question: &Question| ask_operations(question, Connections::Together);
                let name = |row: &OperationAnswer| Named {
                    id: format!("{}\0{:?}\0{}", row.op, row.mount, row.host),
                    host: Arc::clone(&row.host),
                    name: match &row.mount {
                        // The operation at the end, which a narrow screen keeps.
                        Some(mount) => format!("{mount} {}", row.op),
                        None => row.op.to_string(),
                    },
                    target: Target::Nothing,
                };
                let time = |row: &OperationAnswer| row.time;
                Self::of(
                    wanted.view,
                    ask(&question)?,
                    &ask(&courses(&question)?)?,
                    name,
                    time,
                )?
            }
            tab => {
                question.by = match tab {
                    Tab::Tree => GroupBy {
                        level: Level::Dir { depth: 1 },
                        ..GroupBy::FILE
                    },
                    // Stalls come in the notes of this question.
                    Tab::Mounts | Tab::Stalls => GroupBy::MOUNT,
                    Tab::Volumes => "volume".parse()?,
                    Tab::Tenants => "tenant".parse()?,
                    _ => GroupBy::FILE,
                };
                let columns = Columns::<AnswerRow>::parse(&wanted.view.names())?;
                question.projection = columns.needs().only_transfers(true);
                let time = |row: &AnswerRow| row.time;
                Self::of(
                    wanted.view,
                    ask(&question)?,
                    &ask(&courses(&question)?)?,
                    named,
                    time,
                )?
            }
        };
        Ok(Self {
            range,
            whole,
            ..table
        })
    }

    fn of<R: Record>(
        view: &View,
        outcome: Outcome<R>,
        courses: &Outcome<R>,
        name: impl Fn(&R) -> Named,
        time: impl Fn(&R) -> UtcMs,
    ) -> anyhow::Result<Self> {
        let columns = columns::<R>(view)?;
        let courses = courses_of(courses, &columns[0], |row| name(row).id, time);
        let answer = match outcome {
            Outcome::Found(answer) => answer,
            Outcome::Nothing { why, notes } => {
                return Ok(Self {
                    empty: Some(why.show(trackiops_query::times::Zone::Local)),
                    notes,
                    ..Self::default()
                });
            }
        };
        let names: Vec<_> = answer.rows.iter().map(name).collect();
        let is_one_host = names.windows(2).all(|rows| rows[0].host == rows[1].host);
        let row = |(row, named): (&R, Named)| {
            let Named {
                id,
                name,
                host,
                target,
            } = named;
            TableRow {
                course: courses.get(&id).cloned().unwrap_or_default(),
                id,
                name: match is_one_host {
                    true => name,
                    false => format!("{name} on {host}"),
                },
                figures: columns
                    .iter()
                    .map(|column| number(&column.value(row)))
                    .collect(),
                target,
            }
        };
        Ok(Self {
            rows: answer.rows.iter().zip(names).map(row).collect(),
            notes: answer.notes,
            ..Self::default()
        })
    }
}

impl Whole {
    fn ask(source: &Source, wanted: &Wanted<'_>, question: &Question) -> anyhow::Result<Self> {
        let names = match wanted.view.is_of_calls {
            false => "iops,p99",
            true => "app_iops,app_p99",
        };
        let columns = Columns::<AnswerRow>::parse(names)?;
        let question = Question {
            by: GroupBy::HOST,
            projection: columns.needs().only_transfers(true),
            ..question.clone()
        };
        let columns: Vec<_> = columns.iter().collect();
        let question = source.course(&question, wanted.length.ms())?;
        let outcome = ask(&question)?;
        let iops = courses_of(&outcome, columns[0], |_| (), |row| row.time);
        // Percentiles of several hosts cannot be added: show the largest.
        let of_hosts = courses_of(&outcome, columns[1], |row| row.host.clone(), |row| row.time);
        let largest = of_hosts
            .into_values()
            .reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect());
        Ok(Self {
            iops: iops.into_values().next().unwrap_or_default(),
            p99_us: largest.unwrap_or_default(),
        })
    }
}

/// A figure over time, for each row by its id; NaN in unrecorded time.
fn courses_of<R: Record, K: Eq + Hash>(
    outcome: &Outcome<R>,
    column: &Column<R>,
    id: impl Fn(&R) -> K,
    time: impl Fn(&R) -> UtcMs,
) -> HashMap<K, Vec<f64>> {
    let mut courses = HashMap::new();
    let Outcome::Found(answer) = outcome else {
        return courses;
    };
    let whole = answer.range.ms();
    let step = match answer.step {
        Step::Windows(length) => length.ms().cast_unsigned(),
        Step::All => whole,
    };
    let points = usize::try_from(whole.div_ceil(step.max(1))).unwrap_or(0);
    let place = |time: UtcMs| {
        let after = (time.0 - answer.range.start.0).max(0).cast_unsigned();
        (after / step.max(1)) as usize
    };
    let mut idle = vec![f64::NAN; points];
    if let Step::Windows(length) = answer.step {
        for (_, window, recorded_ms) in answer.recorded.pieces(length) {
            let last = place(UtcMs(window.end.0 - 1)).min(points.saturating_sub(1));
            if recorded_ms > 0 {
                idle.iter_mut()
                    .take(last + 1)
                    .skip(place(window.start))
                    .for_each(|point| *point = 0.0);
            }
        }
    }
    for row in &answer.rows {
        let course = courses.entry(id(row)).or_insert_with(|| idle.clone());
        let Some(point) = course.get_mut(place(time(row))) else {
            continue;
        };
        *point = match number(&column.value(row)) {
            Some(value) if point.is_nan() => value,
            Some(value) => *point + value,
            // Too little of the window was recorded for a rate.
            None if *point == 0.0 => f64::NAN,
            None => *point,
        };
    }
    courses
}

/// One row for each connection in a window, because each of its operations repeats what TCP knows of it.
fn ask_connections(question: &Question) -> Result<Outcome<OperationAnswer>, QueryError> {
    let mut outcome = ask_operations(question, Connections::Apart)?;
    if let Outcome::Found(answer) = &mut outcome {
        // Operations that several mounts share have none, and do not name the server.
        answer.rows.sort_by_key(|row| row.mount.is_none());
        let mut seen = HashSet::new();
        answer.rows.retain(|row| {
            let of = (row.time, Arc::clone(&row.host), row.transport.clone());
            row.sums.tcp.readings > 0 && seen.insert(of)
        });
    }
    Ok(outcome)
}

/// A connection, named by its server and number: mounts of a server share it.
fn connection(row: &OperationAnswer) -> Named {
    let transport = row.transport.as_deref().unwrap_or("(unknown)");
    let server = row
        .mount
        .as_deref()
        .and_then(|mount| mount.split_once(":/"));
    Named {
        id: format!("{}\0{transport}", row.host),
        host: Arc::clone(&row.host),
        name: match server {
            Some((server, _)) => format!("{server} {transport}"),
            None => transport.to_owned(),
        },
        target: Target::Nothing,
    }
}

struct Named {
    id: String,
    name: String,
    host: Arc<str>,
    target: Target,
}

fn named(row: &AnswerRow) -> Named {
    let tenant = row.tenant.named();
    let name = match (&row.of, tenant) {
        (Entity::Host(_), Some(tenant)) => tenant,
        (Entity::Host(_), None) => "(unknown)".to_owned(),
        // A row without a file belongs to a device or a mount.
        _ => match (row.name(), row.mount()) {
            (rest, Some(mount)) if rest.starts_with('(') => format!("{rest} {mount}"),
            (name, _) => name,
        },
    };
    let target = match (&row.of, &row.file) {
        (Entity::File(_), Some(file)) => Target::File(format!("{}:{}", file.dev, file.fileid)),
        (Entity::Dir(_, Some(dir)), _) => Target::Dir(dir.to_string()),
        _ => Target::Nothing,
    };
    // Rows of files only have tenants before they are sealed.
    let tenant = matches!(row.of, Entity::Host(_)).then(|| row.tenant.id());
    Named {
        id: format!("{:?}\0{tenant:?}\0{}", row.of, row.host),
        name,
        host: Arc::clone(&row.host),
        target,
    }
}

fn columns<R: Record>(view: &View) -> anyhow::Result<Vec<Column<R>>> {
    let columns = view
        .figures
        .iter()
        .map(|figure| Columns::<R>::number(figure.column));
    Ok(columns.collect::<Result<_, _>>()?)
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Count(count) => Some(*count as f64),
        Value::Int(int) => Some(*int as f64),
        Value::Figure(figure) => Some(*figure),
        _ => None,
    }
}
