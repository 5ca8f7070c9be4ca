//! Writes windows and events to stdout, in the form that the flags ask for.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use trackiops_live::{Commands, Event, Events, Frames};
use trackiops_process::output::{Output, say};
use trackiops_query::coverage::note::Note;
use trackiops_query::times::{Zone, rfc3339, show};
use trackiops_query::{
    Answer, AnswerRow, Columns, Figures, GroupBy, OperationAnswer, Outcome, Projection, Question,
    Range, Step, Subject, ask, ask_operations, ask_operations_by,
};
use trackiops_render::formats::Texts;
use trackiops_render::paper;
use trackiops_render::terminal_style::Style;
use trackiops_render::visible::visible;
use trackiops_render::{Format, Render};
use trackiops_reports::why::Moment;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::Snapshot;
use trackiops_store::live::{Hello, RecorderInfo, Status};

use crate::notes::say_notes;
use crate::query::{columns_of_files, style, with_parts};
use crate::question_flags::{ColumnsFlag, RowFlags};
use crate::watch::args::Args;

/// Most rows of a table without --top.
const MOST_ROWS: NonZeroUsize = NonZeroUsize::new(20).unwrap();
/// Most rows of a window that alerts consider.
const MOST_ALERTS: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// The output format.
#[derive(Clone, Copy)]
enum Form {
    Answer(Format),
    Paper,
    /// One object per window.
    Windows,
    /// Events, as JSON or as lines for people.
    Events {
        json: bool,
    },
}

impl Form {
    fn of(args: &Args) -> Self {
        match (args.json, args.csv, args.paper, args.windows) {
            (json, ..) if args.events || !args.on.is_empty() => Self::Events { json },
            (true, ..) => Self::Answer(Format::Json),
            (_, true, ..) => Self::Answer(Format::Csv(Texts::AsTheyAre)),
            (_, _, true, _) => Self::Paper,
            (.., true) => Self::Windows,
            _ => Self::Answer(with_parts(Format::Table(Figures::Rates), args.parts)),
        }
    }

    /// How rows are written.
    fn format(self) -> Format {
        match self {
            Self::Answer(format) => format,
            Self::Paper | Self::Windows | Self::Events { .. } => Format::Json,
        }
    }
}

/// Writes windows and events of recorders.
pub struct Writer {
    question: Question,
    subject: Subject,
    rows: RowFlags,
    form: Form,
    columns: Option<Columns<AnswerRow>>,
    /// Whether the header was written.
    has_header: bool,
    events: Events,
    frames: Frames,
    commands: Commands,
    recorder: Option<RecorderInfo>,
}

impl Writer {
    /// `None` if the columns were to be listed, which is then done.
    pub fn new(args: Args) -> anyhow::Result<Option<Self>> {
        let (subject, form) = match (args.about.subject(), Form::of(&args)) {
            (Subject::Files(by), form) => (Subject::Files(by), form),
            (_, Form::Paper) => bail!("--paper has a line per file; leave out --by op and --op"),
            (_, Form::Events { .. }) => {
                bail!("alerts are about files, mounts and tenants; leave out --by op and --op")
            }
            other => other,
        };
        let by = match subject {
            Subject::Files(by) | Subject::OperationsBy(by) => by,
            Subject::Operations(_) => GroupBy::MOUNT,
        };
        if matches!(form, Form::Paper) && by != GroupBy::FILE {
            bail!("--paper has a line per file; leave out --by");
        }
        let question =
            args.files
                .question(Vec::new(), Range::default(), (Zone::Local, UtcMs::now()))?;
        let question = args.about.add_to(by, question)?;
        let mut question = args.rows.clone().add_to(question);
        if matches!(form, Form::Events { .. }) {
            question.top.get_or_insert(MOST_ALERTS);
        }
        if let Form::Answer(Format::Table(_)) = form {
            question.top.get_or_insert(MOST_ROWS);
        }
        let columns = match (subject, form) {
            (Subject::Files(_), Form::Answer(_) | Form::Windows) => match args.rows.columns()? {
                ColumnsFlag::List => return Ok(None),
                ColumnsFlag::Rows(columns) => {
                    columns_of_files(columns, &mut question, form.format())?
                }
            },
            (Subject::Files(_), Form::Paper | Form::Events { .. }) => {
                question.projection = Projection::all();
                None
            }
            _ => match args.rows.columns::<OperationAnswer>()? {
                ColumnsFlag::List => return Ok(None),
                ColumnsFlag::Rows(_) => None,
            },
        };
        Ok(Some(Self {
            question,
            subject,
            rows: args.rows,
            form,
            columns,
            has_header: false,
            events: Events::new(args.matching),
            frames: Frames::default(),
            commands: Commands::new(args.on, args.on_every, |text| say(text))
                .context("cannot give up the right to gain privileges")?,
            recorder: None,
        }))
    }

    /// The question for each window, without its range.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Whether events are written, not windows.
    pub fn is_of_events(&self) -> bool {
        matches!(self.form, Form::Events { .. })
    }

    /// Says whether the next windows come from the store, not from the recorder.
    pub fn set_from_store(&mut self, from_store: bool) {
        self.frames.from_store = from_store;
    }

    /// Whether there is one object per window.
    pub fn is_of_windows(&self) -> bool {
        matches!(self.form, Form::Windows)
    }

    /// Begins to write what a recorder sends.
    pub fn begin(&mut self, hello: &Hello) -> anyhow::Result<()> {
        self.recorder = Some(hello.recorder.clone());
        let begun = self.events.began(hello);
        self.tell(begun)?;
        Ok(())
    }

    /// Reports that the recorder has ended.
    pub fn tell_ended(&mut self) -> anyhow::Result<()> {
        match self.form {
            Form::Events { .. } => {
                let ended = self.events.ended(true);
                self.tell([ended])?;
            }
            _ => say("the recorder has ended; waiting for another one"),
        }
        Ok(())
    }

    /// Reports that the recorder has ended without a word. The store may have windows after `end` that were not received.
    pub fn tell_broken(&mut self, end: Option<UtcMs>) -> anyhow::Result<()> {
        if let Form::Events { .. } = self.form {
            let ended = self.events.ended(false);
            self.tell([ended])?;
            return Ok(());
        }
        let since = end.map_or(String::new(), |end| {
            format!(
                "; windows since {} may be in the store alone: trackiops query --since '{}'",
                show(end, self.question.zone),
                rfc3339(end)
            )
        });
        say(format_args!(
            "the recorder has ended without a word{since}; waiting for another one"
        ));
        Ok(())
    }

    /// Derives events from a status. Returns whether stdout still has a reader.
    pub fn see_status(&mut self, status: &Status) -> anyhow::Result<bool> {
        let Form::Events { .. } = self.form else {
            return Ok(true);
        };
        self.commands.reap();
        let room = self
            .recorder
            .as_ref()
            .and_then(|recorder| recorder.store_size);
        let events = self.events.status(status, room);
        self.tell(events)
    }

    /// Writes events about mounts that became slow, or are no longer slow. Returns whether stdout still has a reader.
    pub fn tell_slow(&mut self, moments: &[Moment]) -> anyhow::Result<bool> {
        let events = self.events.slow(moments, self.question.zone);
        self.tell(events)
    }

    /// Writes events, and runs their programs. Returns whether stdout still has a reader.
    fn tell(&mut self, events: impl IntoIterator<Item = Event>) -> anyhow::Result<bool> {
        let Form::Events { json: as_json } = self.form else {
            return Ok(true);
        };
        let mut goes_on = true;
        for event in events {
            let at = UtcMs::now();
            let host = self.recorder.as_ref().map(|recorder| &recorder.host);
            let json = |left_out: u64| {
                let mut object = json!({
                    "time": rfc3339(at),
                    "event": event.kind,
                    "host": host,
                    "text": event.text,
                });
                if let Some(object) = object.as_object_mut() {
                    object.extend(event.fields.clone());
                    if left_out > 0 {
                        object.insert("left_out".to_owned(), left_out.into());
                    }
                }
                format!("{object}\n")
            };
            let line = match as_json {
                true => json(0),
                false => format!(
                    "{}  {:<16} {}\n",
                    show(at, self.question.zone),
                    event.kind,
                    visible(&event.text)
                ),
            };
            goes_on &= emit(line.as_bytes())?;
            self.commands.run(&event, json);
        }
        Ok(goes_on)
    }

    /// Adds a note about the rows.
    pub fn note(&mut self, note: String) {
        match self.is_of_windows() {
            true => self.frames.say(note),
            false => say(note),
        }
    }

    /// Writes why there are no more windows.
    pub fn end_windows(&mut self, why: &str) -> anyhow::Result<ExitCode> {
        emit(self.frames.end(why).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the rows of a view in a range. Returns whether stdout still has a reader.
    pub fn write(
        &mut self,
        view: Snapshot,
        range: Range,
        step: Option<Granularity>,
    ) -> anyhow::Result<bool> {
        let question = Question {
            view: Some(Rc::new(view)),
            range,
            step: step.map(Step::Windows),
            // A window may end after the present wall-clock time, if the clock was set.
            now: UtcMs::now().max(range.since.unwrap_or(UtcMs(0))),
            ..self.question.clone()
        };
        match (self.subject, self.form) {
            (Subject::Files(_), Form::Paper) => {
                let answer = self.answer(ask(&question)?);
                let lines = answer.map(|answer| paper::lines(&answer));
                let header = match mem::replace(&mut self.has_header, true) {
                    true => "",
                    false => paper::HEADER,
                };
                emit([header, &lines.unwrap_or_default()].concat().as_bytes())
            }
            (_, Form::Events { .. }) => self.alerts(&question),
            (_, Form::Paper) => Ok(true),
            (Subject::Files(_), _) => {
                let columns = self.columns.clone();
                self.put(ask(&question)?, columns, &question)
            }
            (Subject::Operations(connections), _) => {
                let outcome = ask_operations(&question, connections)?;
                self.put(outcome, self.rows.columns()?.of_rows(), &question)
            }
            (Subject::OperationsBy(by), _) => {
                let outcome = ask_operations_by(&question, by)?;
                self.put(outcome, self.rows.columns()?.of_rows(), &question)
            }
        }
    }

    /// Writes the alerts of a window: rows that match, or no longer match.
    fn alerts(&mut self, question: &Question) -> anyhow::Result<bool> {
        // A view without windows only checks the question.
        let is_window = question.step.is_some();
        let mut rows = BTreeMap::new();
        if let Some(answer) = self.answer(ask(question)?) {
            let mut text = Vec::new();
            trackiops_render::write(&answer, Format::Json, style(question), &mut text)?;
            let objects = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
            for (row, object) in answer.rows.iter().zip(objects) {
                rows.insert(row.name(), object?);
            }
        }
        if question.conditions.is_empty() || !is_window {
            return Ok(true);
        }
        let events = self.events.rows(&rows);
        self.tell(events)
    }

    fn put<R: Render>(
        &mut self,
        outcome: Outcome<R>,
        columns: Option<Columns<R>>,
        question: &Question,
    ) -> anyhow::Result<bool> {
        let format = self.form.format();
        let Some(answer) = self.answer(outcome) else {
            return match self.is_of_windows() && question.step.is_some() {
                true => emit(
                    self.frames
                        .windows::<R>(None, "", question.range)
                        .as_bytes(),
                ),
                false => Ok(true),
            };
        };
        let style = Style {
            look: Output::Stdout.look(),
            ..style(question)
        };
        let mut text = Vec::new();
        match columns {
            None => trackiops_render::write(&answer, format, style, &mut text)?,
            Some(columns) => {
                trackiops_render::write_columns(&answer, &columns, format, style, &mut text)?;
            }
        }
        if self.is_of_windows() {
            let text = String::from_utf8_lossy(&text);
            let windows = self.frames.windows(Some(&answer), &text, question.range);
            return emit(windows.as_bytes());
        }
        if matches!(format, Format::Csv(_)) && mem::replace(&mut self.has_header, true) {
            let header = text.iter().position(|byte| *byte == b'\n');
            text.drain(..=header.unwrap_or(0));
        }
        emit(&text)
    }

    /// The answer, if there is one. Reports its gaps.
    fn answer<R>(&mut self, outcome: Outcome<R>) -> Option<Answer<R>> {
        let (answer, mut notes) = match outcome {
            Outcome::Found(mut answer) => {
                let notes = mem::take(&mut answer.notes);
                (Some(answer), notes)
            }
            Outcome::Nothing { notes, .. } => (None, notes),
        };
        notes.retain(Note::is_of_the_recording);
        match self.is_of_windows() {
            true => notes
                .iter()
                .for_each(|note| self.frames.say(note.show(Zone::utc()))),
            false => say_notes(&notes, self.question.zone),
        }
        answer
    }
}

/// Writes to stdout. Returns whether stdout still has a reader.
fn emit(text: &[u8]) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => {
            written.context("cannot write to stdout")?;
            Ok(true)
        }
    }
}
