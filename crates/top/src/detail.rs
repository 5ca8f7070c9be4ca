//! One file in full, as text.

use std::io::{self, Write};
use std::path::Path;

use trackiops_live::{Moment, Source};
use trackiops_query::{
    Answer, Figures, FileSelector, GroupBy, Outcome, Projection, Question, ask, ask_files,
    ask_operations_by,
};
use trackiops_render::terminal_style::{Look, Style};
use trackiops_render::{DistributionFormat, Format, Render, plot_in_terminal, write_distribution};
use trackiops_schemas::columns::DIRECTIONS;
use trackiops_schemas::time::{Granularity, UtcMs};

/// Width of a line if nothing else is known.
const WIDTH: usize = 80;

/// Everything about a file at a moment.
#[derive(Debug, Default)]
pub struct Detail {
    /// In the form of `--file`.
    pub file: String,
    pub name: String,
    pub lines: Vec<String>,
    /// The first line on the screen.
    pub offset: usize,
    pub range: Option<(UtcMs, UtcMs)>,
    pub look: Look,
}

impl Detail {
    pub fn new(file: String, name: String) -> Self {
        Self {
            file,
            name,
            ..Self::default()
        }
    }

    /// Fetches everything.
    pub fn ask(
        &mut self,
        source: &Source,
        moment: Moment,
        length: Granularity,
    ) -> anyhow::Result<()> {
        let mut question = source.question(moment, length.ms())?;
        question.files = vec![FileSelector::parse(Path::new(&self.file))?];
        question.projection = Projection::all().only_transfers(true);
        self.range = question.range.since.zip(question.range.until);
        let mut lines = Vec::new();
        self.section("Requests", &ask(&question)?, &question, &mut lines)?;
        let course = source.course(&question, length.ms())?;
        self.draw(
            "Latency over time",
            &ask(&course)?,
            &question,
            &mut lines,
            |answer, style, out| plot_in_terminal(answer, None, &style, out),
        )?;
        self.draw(
            "Distribution",
            &ask(&question)?,
            &question,
            &mut lines,
            |answer, style, out| {
                write_distribution(answer, &DIRECTIONS, DistributionFormat::Table, &style, out)
            },
        )?;
        let by_tenant = Question {
            by: GroupBy {
                tenants: true,
                ..GroupBy::FILE
            },
            ..question.clone()
        };
        self.section("Who", &ask(&by_tenant)?, &question, &mut lines)?;
        let operations = ask_operations_by(&question, GroupBy::FILE)?;
        self.section("Operations", &operations, &question, &mut lines)?;
        self.section("Names", &ask_files(&question)?, &question, &mut lines)?;
        self.lines = lines;
        Ok(())
    }

    fn section<R: Render>(
        &self,
        title: &str,
        outcome: &Outcome<R>,
        question: &Question,
        lines: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        self.draw(title, outcome, question, lines, |answer, style, out| {
            trackiops_render::write(answer, Format::Table(Figures::Parts), style, out)
        })
    }

    fn draw<R>(
        &self,
        title: &str,
        outcome: &Outcome<R>,
        question: &Question,
        lines: &mut Vec<String>,
        write: impl FnOnce(&Answer<R>, Style, &mut (dyn Write + Send)) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(title.to_owned());
        match outcome {
            Outcome::Nothing { why, .. } => lines.push(why.show(question.zone)),
            Outcome::Found(answer) => {
                let style = Style {
                    look: Look {
                        width: self.look.width.or(Some(WIDTH)),
                        ..self.look
                    },
                    ..question.zone.into()
                };
                let mut text = Vec::new();
                write(answer, style, &mut text)?;
                let text = String::from_utf8_lossy(&text);
                lines.extend(text.lines().map(str::to_owned));
            }
        }
        Ok(())
    }
}
