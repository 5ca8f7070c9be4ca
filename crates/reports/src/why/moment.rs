//! A slow moment and all findings about it.

use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_schemas::level::IoLevel;

use super::cause::{Cause, Confidence, Facts};
use super::find::Sign;
use super::load::Load;
use super::process::Process;
use super::track::Kind;
use super::victims::Victim;
use crate::connections::ComparedConnection;
use crate::slow::comparison::Part;

/// A time in which something was slow, failed or stood still.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The time.
    pub time: Interval,
    /// Whether it lasted at the end of the range.
    pub lasts: bool,
    /// The level of its requests.
    pub level: IoLevel,
    /// The mounts or devices.
    pub mounts: Vec<Arc<str>>,
    /// The hosts that waited.
    pub hosts: Vec<Arc<str>>,
    /// Whether there are other hosts, so that names of hosts matter.
    pub has_other_hosts: bool,
    /// The kinds of work that were slow.
    pub kinds: Vec<Kind>,
    /// Its clearest sign.
    pub sign: Sign,
    /// The mean latency relative to before.
    pub ratio: Option<f64>,
    /// Additional time that requests took, s.
    pub lost_s: f64,
    /// Files or tenants that lost time, those that lost most first.
    pub victims: Vec<Victim>,
    /// Number of files that lost time.
    pub all_victims: usize,
    /// The load that explains it, or might.
    pub culprit: Option<Load>,
    /// The process behind it, if it is the cause and single requests were kept.
    pub process: Option<Process>,
    /// The cause.
    pub cause: Cause,
    /// The confidence in the cause.
    pub confidence: Confidence,
    /// The figures behind the cause.
    pub facts: Facts,
    /// The connections of its mounts, as far as TCP knew them.
    pub connections: Vec<ComparedConnection>,
}

impl Moment {
    /// The part of the latency that has most of the added time, if known.
    pub fn part(&self) -> Option<Part> {
        self.facts.part
    }
}
