//! A slow moment, with all that is said of it.

use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_schemas::level::IoLevel;

use super::cause::{Cause, Confidence, Facts, Part};
use super::find::Sign;
use super::load::Load;
use super::track::Kind;
use super::victims::Victim;

/// A time in which something was slow, failed or stood still.
#[derive(Clone, Debug)]
pub struct Moment {
    /// When.
    pub time: Interval,
    /// Whether it was still so at the end of the range.
    pub lasts: bool,
    /// Where it was recorded.
    pub level: IoLevel,
    /// The mounts or devices.
    pub mounts: Vec<Arc<str>>,
    /// The hosts that waited.
    pub hosts: Vec<Arc<str>>,
    /// Whether other hosts were recorded as well, so that names of hosts matter.
    pub has_other_hosts: bool,
    /// What took longer.
    pub kinds: Vec<Kind>,
    /// What showed it.
    pub sign: Sign,
    /// The mean latency, relative to before.
    pub ratio: Option<f64>,
    /// Time lost, s: that requests took more than before.
    pub lost_s: f64,
    /// Who lost it, those who lost most first.
    pub victims: Vec<Victim>,
    /// All files that lost time.
    pub all_victims: usize,
    /// The load that explains it, or would.
    pub culprit: Option<Load>,
    /// The cause.
    pub cause: Cause,
    /// How sure it is.
    pub confidence: Confidence,
    /// What it was told from.
    pub facts: Facts,
}

impl Moment {
    /// Where most of the added time went, if that is known.
    pub fn part(&self) -> Option<Part> {
        self.facts.part
    }
}
