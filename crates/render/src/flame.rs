//! Flame graphs: the tree of directories. The width of each shows the requests, bytes or time below it.
//!
//! A stack has the mount, its mount point, the directories below that, and the file, with its name at the time.
//! The common directory of all names replaces an unknown mount point. The sum of the stacks is the sum of the rows of the same
//! query.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::str::FromStr;

use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use trackiops_schemas::row::{AppCalls, Direction, Row};
use trackiops_store::{MountRoots, Snapshot, is_below};

use crate::visible::visible;
use trackiops_query::Projection;
use trackiops_query::answer::{Answer, AnswerRow, EmptyReason, Outcome};
use trackiops_query::error::QueryError;
use trackiops_query::file_rows::ask_whole;
use trackiops_query::group::{Entity, GroupBy};
use trackiops_query::question::Question;
use trackiops_query::times::{Zone, show_offset, show_range};

/// Frame of an unknown mount.
const NO_MOUNT: &str = "(no mount)";
/// Replaces the spaces at the end of a name that looks like a value.
const NO_BREAK_SPACE: &str = "\u{a0}";

/// The quantity that the width shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Sum of the latencies of timed requests, us.
    #[default]
    Time,
    /// Bytes.
    Bytes,
    /// Requests.
    Requests,
    /// Sum of the times of timed calls of applications, us.
    AppTime,
    /// Bytes of calls of applications.
    AppBytes,
    /// Calls of applications.
    AppCalls,
}

/// The requests that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directions {
    /// READs.
    Read,
    /// WRITEs.
    Write,
    /// READs and WRITEs, added up.
    #[default]
    Both,
    /// READs and WRITEs, each in a separate tree.
    Apart,
}

/// The text of an option is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not one of {choices}")]
pub struct ChoiceError {
    given: String,
    choices: &'static str,
}

impl FromStr for Measure {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "bytes" => Ok(Self::Bytes),
            "requests" => Ok(Self::Requests),
            "time" => Ok(Self::Time),
            "app-time" => Ok(Self::AppTime),
            "app-bytes" => Ok(Self::AppBytes),
            "app-calls" => Ok(Self::AppCalls),
            _ => Err(ChoiceError {
                given: text.into(),
                choices: "time, bytes, requests, app-time, app-bytes and app-calls",
            }),
        }
    }
}

impl FromStr for Directions {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "both" => Ok(Self::Both),
            "apart" => Ok(Self::Apart),
            _ => Err(ChoiceError {
                given: text.into(),
                choices: "read, write, both and apart",
            }),
        }
    }
}

impl Measure {
    /// The same measure of calls of applications.
    pub fn of_calls(self) -> Self {
        match self {
            Self::Time | Self::AppTime => Self::AppTime,
            Self::Bytes | Self::AppBytes => Self::AppBytes,
            Self::Requests | Self::AppCalls => Self::AppCalls,
        }
    }

    /// The value of a direction, which has these requests and calls; latencies in ns.
    fn of(self, direction: &Direction, calls: &AppCalls) -> u64 {
        match self {
            Self::Bytes => direction.bytes,
            Self::Requests => direction.requests,
            Self::Time => direction.latency_ns_sum,
            Self::AppTime => calls.latency_ns_sum,
            Self::AppBytes => calls.all_bytes(),
            Self::AppCalls => calls.calls,
        }
    }

    /// Unit of the values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bytes | Self::AppBytes => "bytes",
            Self::Requests => "requests",
            Self::Time | Self::AppTime => "us",
            Self::AppCalls => "calls",
        }
    }
}

/// The content of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The quantity that the width shows.
    pub measure: Measure,
    /// The requests that count.
    pub directions: Directions,
}

impl Graph {
    /// Title of the graph.
    fn title(self) -> String {
        let what = match self.measure {
            Measure::Bytes => "bytes",
            Measure::Requests => "requests",
            Measure::Time => "latencies",
            Measure::AppTime => return format!("times of {} of applications", self.calls()),
            Measure::AppBytes => return format!("bytes of {} of applications", self.calls()),
            Measure::AppCalls => return format!("{} of applications", self.calls()),
        };
        let which = match self.directions {
            Directions::Read => "READ ",
            Directions::Write => "WRITE ",
            Directions::Both | Directions::Apart => "READ and WRITE ",
        };
        format!("{which}{what}")
    }

    fn calls(self) -> &'static str {
        match self.directions {
            Directions::Read => "reading calls",
            Directions::Write => "writing calls",
            Directions::Both | Directions::Apart => "calls",
        }
    }

    /// The values of a row, each with a root above the mount if directions are apart.
    fn values(self, row: &Row) -> Vec<(Option<&'static str>, u64)> {
        let directions = [(&row.read, &row.app_read), (&row.write, &row.app_write)];
        let [read, write] = directions.map(|(of, calls)| self.measure.of(of, calls));
        match self.directions {
            Directions::Read => vec![(None, read)],
            Directions::Write => vec![(None, write)],
            Directions::Both => vec![(None, read.saturating_add(write))],
            Directions::Apart => vec![(Some("read"), read), (Some("write"), write)],
        }
    }
}

/// A path through the tree, and the value of its last frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Frames, root first. None contains a semicolon or a control character.
    pub frames: Vec<String>,
    /// Value in [`Measure::unit`]; more than 0.
    pub value: u64,
}

/// Answers a question with stacks, in order.
pub fn stacks(question: &Question, graph: Graph) -> Result<Outcome<Stack>, QueryError> {
    let projection = match graph.measure {
        Measure::AppTime => Projection::calls()
            .with(Projection::call_time_sums())
            .named(),
        Measure::AppBytes | Measure::AppCalls => Projection::calls().named(),
        Measure::Bytes | Measure::Requests | Measure::Time => Projection::default(),
    };
    let question = Question {
        projection,
        ..question.clone()
    };
    ask_whole(&question, GroupBy::NAME, |snapshot, answer| {
        from_answer(snapshot, answer, graph)
    })
}

fn from_answer(
    snapshot: &Snapshot,
    answer: Answer<AnswerRow>,
    graph: Graph,
) -> Result<Outcome<Stack>, QueryError> {
    let mount_roots = snapshot.mount_roots()?;
    let mut sums: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for row in &answer.rows {
        for (root, value) in graph.values(&row.sum.row()) {
            let root = root.map(str::to_owned).into_iter();
            let sum = sums.entry(root.chain(frames(row, &mount_roots)).collect());
            let sum = sum.or_default();
            *sum = sum.saturating_add(value);
        }
    }
    let rows = match graph.measure {
        Measure::Bytes | Measure::Requests | Measure::AppBytes | Measure::AppCalls => {
            sums.into_iter().collect()
        }
        Measure::Time | Measure::AppTime => in_us(sums),
    };
    let there = rows.into_iter().filter(|(_, value)| *value > 0);
    let rows: Vec<_> = there
        .map(|(frames, value)| Stack { frames, value })
        .collect();
    let (what, asked) = (graph.title(), answer.range);
    let answer = answer.with_rows(rows);
    Ok(answer.or_nothing(|| EmptyReason::NoneOf { what, asked }))
}

/// Rounds to us, and carries the rounding error on to the next stack, so the sum is rounded only once.
fn in_us(sums: BTreeMap<Vec<String>, u64>) -> Vec<(Vec<String>, u64)> {
    let us = |ns: u128| ns.saturating_add(500) / 1000;
    let mut before = 0_u128;
    let convert = |(frames, ns): (Vec<String>, u64)| {
        let after = before + u128::from(ns);
        let value = us(after) - us(before);
        before = after;
        (frames, u64::try_from(value).unwrap_or(u64::MAX))
    };
    sums.into_iter().map(convert).collect()
}

/// Frames from the mount to the file.
fn frames(row: &AnswerRow, mount_roots: &MountRoots) -> Vec<String> {
    let mut frames = vec![frame(row.mount().unwrap_or(NO_MOUNT))];
    let Entity::Name(_, name) = &row.of else {
        return frames;
    };
    let trunk = mount_roots.of(row.mount(), name);
    match name.strip_prefix(trunk) {
        Some(rest) if is_below(name, trunk) => {
            frames.extend(Some(trunk).filter(|trunk| !trunk.is_empty()).map(frame));
            frames.extend(rest.split('/').skip(1).map(frame));
        }
        // Text that is not a path, such as `(other)`.
        _ => frames.push(frame(name)),
    }
    frames
}

/// A name as a frame. A semicolon would end the frame, so it is escaped.
fn frame(name: &str) -> String {
    visible(name).replace(';', "\\u{3b}")
}

/// Writes folded stacks: frames with semicolons between them, a space, the value. In a name that ends in a number, a no-break
/// space precedes that number. Readers of this format take a second number for a second value.
pub fn folded(answer: &Answer<Stack>, out: &mut dyn Write) -> io::Result<()> {
    for stack in &answer.rows {
        writeln!(out, "{}", line(stack))?;
    }
    Ok(())
}

fn line(stack: &Stack) -> String {
    let mut line = stack.frames.join(";");
    let number = |c: char| c.is_ascii_digit() || c == '.' || c == ' ';
    let name = line.trim_end_matches(number).len();
    let end = line.split_off(name).replace(' ', NO_BREAK_SPACE);
    // Writing to a string cannot fail.
    let _ = write!(line, "{end} {}", stack.value);
    line
}

/// Draws the graph as an SVG. A click zooms, Ctrl-F searches.
pub fn svg(
    answer: &Answer<Stack>,
    graph: Graph,
    zone: Zone,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (start, end) = (answer.range.start, answer.range.end);
    let range = show_range(start, end, zone);
    let mut options = Options::default();
    options.title = format!("File I/O: {}", graph.title());
    options.subtitle = Some(format!("{range} ({})", show_offset(start, zone)));
    options.count_name = graph.measure.unit().into();
    options.name_type = "Name:".into();
    options.colors = Palette::Basic(BasicPalette::Io);
    // A name has the same colour in every graph.
    options.deterministic = true;
    options.direction = flamegraph::Direction::Inverted;
    options.text_truncate_direction = TextTruncateDirection::Right;
    let lines: Vec<_> = answer.rows.iter().map(line).collect();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_once() {
        let sums = [("a", 400), ("b", 400), ("c", 0), ("d", 1800)];
        let sums = sums.map(|(name, ns)| (vec![name.to_owned()], ns));
        let us: Vec<_> = in_us(sums.into()).into_iter().map(|(_, us)| us).collect();
        assert_eq!(us, [0, 1, 0, 2]);
        assert_eq!(us.iter().sum::<u64>(), 3);
    }

    #[test]
    fn names_do_not_end_frames_nor_look_like_values() {
        let shown = |name: &str| {
            line(&Stack {
                frames: vec!["srv:/e".into(), frame(name)],
                value: 7,
            })
        };
        assert_eq!(shown("a;b\n"), "srv:/e;a\\u{3b}b\\u{a} 7");
        assert_eq!(shown("part 3"), "srv:/e;part\u{a0}3 7");
        assert_eq!(shown("part 3 1.5 "), "srv:/e;part 3 1.5\\u{20} 7");
        assert_eq!(shown("a b3"), "srv:/e;a b3 7");
    }
}
