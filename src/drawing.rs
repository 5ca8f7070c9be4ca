//! What `query --plot` draws, and where.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use trackiops_process::output::{Output, say};
use trackiops_query::times::Zone;
use trackiops_query::{Answer, Columns, Event, Explain, Outcome, Question, Range, Step};
use trackiops_render::suffix::{PLOTS, format_of};
use trackiops_render::terminal_style::Style;
use trackiops_render::{Format, PictureFormat, TerminalPlot};
use trackiops_reports::events::ask_events;

use crate::outcome;
use crate::umask_flag::UmaskFlag;

/// The destination of a picture.
pub enum Target {
    /// A file, in addition to the answer.
    File(Output, PictureFormat),
    /// Stdout, instead of the answer.
    Stdout,
}

impl Target {
    /// Parses `--plot`.
    pub fn parse(path: PathBuf, access: UmaskFlag) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stdout);
        }
        let output = Output::new(Some(path.clone()), access).context("--plot")?;
        let format = format_of(Some(&path), PLOTS, None, PictureFormat::Svg).context("--plot")?;
        Ok(Self::File(output, format))
    }
}

/// A picture of an answer.
pub enum Drawing<R> {
    /// A picture in a file.
    File {
        columns: Columns<R>,
        /// Vertical lines of a picture over time.
        events: Vec<Event>,
        format: PictureFormat,
        output: Output,
    },
    /// Columns, or the default picture, in characters.
    Text(Option<Columns<R>>),
}

impl<R: TerminalPlot> Drawing<R> {
    /// Draws `chosen`, or the default columns, without excluded ones.
    pub fn new(
        target: Option<Target>,
        chosen: Option<&Columns<R>>,
        is_left_out: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Option<Self>> {
        Ok(match target {
            None => None,
            Some(Target::File(output, format)) => {
                let columns = R::drawn(chosen).context("--plot")?;
                Some(Self::File {
                    columns: columns.without(is_left_out),
                    events: Vec::new(),
                    format,
                    output,
                })
            }
            Some(Target::Stdout) => {
                let columns = chosen.map(|columns| R::drawn(Some(columns)));
                Some(Self::Text(columns.transpose().context("--plot")?))
            }
        })
    }

    /// The columns that it draws, unless it is the default picture.
    pub fn columns(&self) -> Option<&Columns<R>> {
        match self {
            Self::File { columns, .. } => Some(columns),
            Self::Text(columns) => columns.as_ref(),
        }
    }

    /// Writes the file of an answer, if it has one.
    fn write(&self, answer: &Answer<R>, zone: Zone) -> anyhow::Result<()> {
        let Self::File {
            columns,
            events,
            format,
            output,
        } = self
        else {
            return Ok(());
        };
        output.write(|out| trackiops_render::plot(answer, columns, events, *format, zone, out))
    }

    /// Asks for the events in the time of an answer, if it is drawn over time.
    pub fn add_events(&mut self, question: &Question, outcome: &Outcome<R>) -> anyhow::Result<()> {
        let Outcome::Found(Answer {
            step: Step::Windows(_),
            range,
            ..
        }) = outcome
        else {
            return Ok(());
        };
        if let Self::File { events, .. } = self {
            let question = Question {
                range: Range {
                    since: Some(range.start),
                    until: Some(range.end),
                },
                // It explains the answer alone.
                explain: Explain::default(),
                ..question.clone()
            };
            if let Outcome::Found(answer) = ask_events(&question)? {
                *events = answer.rows;
            }
        }
        Ok(())
    }
}

/// Writes the picture, and the answer unless the picture replaces it.
pub fn write_answer<R: TerminalPlot>(
    outcome: Outcome<R>,
    drawing: Option<&Drawing<R>>,
    columns: Option<&Columns<R>>,
    format: Format,
    output: &Output,
    style: Style,
) -> anyhow::Result<ExitCode> {
    match (drawing, &outcome) {
        (Some(Drawing::Text(drawn)), _) => {
            let style = Style {
                look: output.look(),
                ..style
            };
            return outcome::write_found(outcome, output, style.zone, |answer, out| {
                trackiops_render::plot_in_terminal(answer, drawn.as_ref(), &style, out)
            });
        }
        (Some(Drawing::File { output, .. }), Outcome::Nothing { .. }) => {
            output.unwritten_note().iter().for_each(say);
        }
        (Some(drawing), Outcome::Found(answer)) => drawing.write(answer, style.zone)?,
        (None, _) => {}
    }
    outcome::write_outcome(outcome, columns, format, output, style)
}
