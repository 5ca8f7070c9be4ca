//! The events that cubes and rates count, and their axes.

use std::str::FromStr;

use super::Axis;
use crate::error::AnalysisError;
use crate::source::Source;
use crate::source::files::{MESSAGES, PACKETS, REQUESTS};

/// Kind of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READs and WRITEs that completed.
    Requests,
    /// Calls and replies.
    Messages,
    /// Packets.
    Packets,
}

impl Kind {
    /// The kind of events in a source: requests, or else messages, or else packets.
    pub fn of(source: &Source) -> Result<Self, AnalysisError> {
        for (kind, rows) in [
            (Self::Requests, REQUESTS),
            (Self::Messages, MESSAGES),
            (Self::Packets, PACKETS),
        ] {
            if source.has(rows)? {
                return Ok(kind);
            }
        }
        Ok(Self::Requests)
    }

    /// The plural, for people.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Messages => "messages",
            Self::Packets => "packets",
        }
    }

    /// Its axes.
    pub fn axes(self) -> &'static [Axis] {
        match self {
            Self::Requests => &[
                Axis::Host,
                Axis::Time,
                Axis::Op,
                Axis::Mount,
                Axis::Server,
                Axis::Tenant,
                Axis::File,
            ],
            Self::Messages => &[
                Axis::Host,
                Axis::Time,
                Axis::Direction,
                Axis::Op,
                Axis::Message,
            ],
            Self::Packets => &[
                Axis::From,
                Axis::FromPort,
                Axis::To,
                Axis::ToPort,
                Axis::Transport,
                Axis::Time,
            ],
        }
    }

    /// The default axes of a cube.
    pub fn usual_axes(self) -> &'static [Axis] {
        match self {
            Self::Requests => &[Axis::Host, Axis::Mount, Axis::Op],
            Self::Messages => &[Axis::Host, Axis::Direction, Axis::Op, Axis::Message],
            Self::Packets => &[
                Axis::From,
                Axis::FromPort,
                Axis::To,
                Axis::ToPort,
                Axis::Transport,
            ],
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "requests" => Ok(Self::Requests),
            "messages" => Ok(Self::Messages),
            "packets" => Ok(Self::Packets),
            _ => Err(format!("`{text}` is none of requests, messages, packets")),
        }
    }
}
