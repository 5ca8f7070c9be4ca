//! From facts to a cause: rules, from the clearest evidence to the vaguest. Each rule states its confidence.

use super::load::{Load, Measure};
use crate::network_or_server::{Evidence, Split};
use crate::slow::comparison::{Figures, Part};

/// Why something was slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A server or device did not answer at all.
    Stall,
    /// Requests failed.
    Errors,
    /// Requests were sent again.
    Retransmissions,
    /// The page cache had the data before, and does not have it now.
    ColdCache,
    /// Many metadata operations.
    MetadataStorm,
    /// Many syncs.
    SyncStorm,
    /// The load of another tenant or file.
    Neighbour,
    /// The load of the victims themselves.
    OwnLoad,
    /// Requests became larger, or less sequential.
    Pattern,
    /// Only one file, at an unchanged load.
    OneFile,
    /// The server or the network: all files are slow alike, and TCP does not tell which.
    ServerOrNetwork,
    /// The network, as the connections show.
    Network,
    /// The server: its connections were as quick as before.
    Server,
    /// What several servers share, such as the network or this host: they were slow at once.
    SeveralServers,
    /// The device: all files are slow alike.
    Device,
    /// The client was slow to send requests.
    ClientQueue,
    /// The client was slow to complete requests.
    ClientCpu,
    /// The data does not show it.
    Unknown,
}

impl Cause {
    /// The name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Errors => "errors",
            Self::Retransmissions => "retransmissions",
            Self::ColdCache => "cold-cache",
            Self::MetadataStorm => "metadata-storm",
            Self::SyncStorm => "sync-storm",
            Self::Neighbour => "noisy-neighbour",
            Self::OwnLoad => "own-load",
            Self::Pattern => "pattern",
            Self::OneFile => "one-file",
            Self::ServerOrNetwork => "server-or-network",
            Self::Network => "network",
            Self::Server => "server",
            Self::SeveralServers => "several-servers",
            Self::Device => "device",
            Self::ClientQueue => "client-queue",
            Self::ClientCpu => "client-cpu",
            Self::Unknown => "unknown",
        }
    }

    /// Whether it is the load of a file, directory or tenant.
    pub fn is_load(self) -> bool {
        matches!(
            self,
            Self::Neighbour | Self::OwnLoad | Self::MetadataStorm | Self::SyncStorm
        )
    }

    /// The name for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Stall => "a stall",
            Self::Errors => "errors",
            Self::Retransmissions => "retransmissions",
            Self::ColdCache => "a cold cache",
            Self::MetadataStorm => "a storm of metadata operations",
            Self::SyncStorm => "a storm of syncs",
            Self::Neighbour => "a noisy neighbour",
            Self::OwnLoad => "its own load",
            Self::Pattern => "a change of size or pattern",
            Self::OneFile => "something about this file alone",
            Self::ServerOrNetwork => "the server or the network",
            Self::Network => "the network",
            Self::Server => "the server",
            Self::SeveralServers => "what several servers share, such as the network or this host",
            Self::Device => "the device",
            Self::ClientQueue => "the client's queue",
            Self::ClientCpu => "the client's CPUs",
            Self::Unknown => "not known",
        }
    }
}

/// The confidence in a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Another cause may well be true.
    Low,
    /// Likely.
    Medium,
    /// The evidence excludes nearly all other causes.
    High,
}

impl Confidence {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    fn lowered(self) -> Self {
        match self {
            Self::High => Self::Medium,
            _ => Self::Low,
        }
    }
}

/// A stall.
#[derive(Clone, Debug, PartialEq)]
pub struct StalledFor {
    /// How long the oldest request waited, ms.
    pub waited_ms: u64,
}

/// The file with the largest part of the lost time.
#[derive(Clone, Debug, PartialEq)]
pub struct TopVictim {
    /// Its part, 0 to 1.
    pub part: f64,
    /// Its mean now, relative to before.
    pub ratio: f64,
    /// Its load now, relative to before.
    pub load: f64,
    /// The part of their time that all other files lost; `None` if there are hardly any.
    pub others: Option<f64>,
}

/// The figures that decide on a cause.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Whether the site is a device. Otherwise it is a server.
    pub is_device: bool,
    /// Length of the slow time, s.
    pub seconds: f64,
    /// All requests of the slow kinds, before.
    pub before: Figures,
    /// The same, now.
    pub now: Figures,
    /// Number of requests now.
    pub requests: u64,
    /// Errors now.
    pub errors: u64,
    /// Repeated transmissions now.
    pub retrans: u64,
    /// Where most of the added time went, if that is known.
    pub part: Option<Part>,
    /// Whether that was the network or the server, if it was one of the two.
    pub network_or_server: Option<Evidence>,
    /// A stall in this time.
    pub stall: Option<StalledFor>,
    /// Whether the slow work began with the slow time. It is compared with the time after it, then, and its load did not rise.
    pub is_start: bool,
    /// Whether it is compared with a few seconds only.
    pub is_usual_short: bool,
    /// Whether errors are the only sign.
    pub only_errors: bool,
    /// Whether calls were slow, and the requests that they wait for were not.
    pub calls_alone: bool,
    /// Share of the bytes of read calls that the cache answered: before and now.
    pub hit_share: Option<[f64; 2]>,
    /// Bytes/s of read calls now, relative to before.
    pub called: f64,
    /// Loads that rose, the clearest first.
    pub loads: Vec<Load>,
    /// Whether the first load was as high just before or after the slow time.
    pub load_is_elsewhere: bool,
    /// The part of the lost time that the owner of the first load lost itself, 0 to 1.
    pub own_part: f64,
    /// Part of the requests that were slowed, 0 to 1.
    pub slowed: f64,
    /// Share of requests for files that did not exist in the time before, 0 to 1.
    pub new: f64,
    /// Share of requests that continue where an earlier one ended: before and now.
    pub sequential: [f64; 2],
    /// For the file that lost most: request size and time per byte, each now relative to before.
    pub larger: Option<[f64; 2]>,
    /// The file that lost most.
    pub top: Option<TopVictim>,
    /// Number of other servers that the same hosts waited for at the same time.
    pub other_servers: usize,
    /// Number of hosts that waited, and of all hosts that use the site.
    pub hosts: [usize; 2],
    /// Whether the question selects some of the files. Then others may have been as fast as before.
    pub of_some: bool,
}

/// From this part of the lost time on, a load is its owner's own problem.
const OWN_PART: f64 = 0.6;
/// A file became slower by far if it has this part of the lost time. Its latency must have grown by this factor more than that of others.
const UNEVEN_PART: f64 = 0.5;
const UNEVEN: f64 = 4.0;

impl Facts {
    /// Whether the owner of the first load lost most of the time itself.
    pub fn is_own_load(&self) -> bool {
        self.own_part >= OWN_PART
    }

    /// Whether one file became slower by far than all others.
    fn is_uneven(&self) -> bool {
        let Some(top) = &self.top else { return false };
        let others_now = |lost: f64| 1.0 / (1.0 - lost.clamp(0.0, 0.99));
        let is_more = |lost: f64| top.ratio >= UNEVEN * others_now(lost);
        top.part >= UNEVEN_PART && top.others.is_some_and(is_more)
    }

    /// Network or server, if the added time was spent in one of the two.
    pub fn split(&self) -> Option<Split> {
        self.network_or_server.map(|of| of.split)
    }
}

/// A cause, and the confidence in it.
pub type Judged = (Cause, Confidence);

/// The cause of a slow time.
pub fn judge(facts: &Facts) -> Judged {
    let rules: [fn(&Facts) -> Option<Judged>; 11] = [
        stall,
        errors,
        retransmissions,
        cold_cache,
        larger,
        load,
        less_sequential,
        one_file,
        calls_alone,
        part,
        everything,
    ];
    let found = rules.iter().find_map(|rule| rule(facts));
    let (cause, confidence) = found.unwrap_or((Cause::Unknown, Confidence::Low));
    // New files and new work have nothing to compare with, and others little in a few seconds. So the confidence is lower.
    let is_vague = facts.new > 0.5 || facts.is_start || facts.is_usual_short;
    match is_vague && !matches!(cause, Cause::Stall | Cause::Errors) {
        true => (cause, confidence.lowered()),
        false => (cause, confidence),
    }
}

fn stall(facts: &Facts) -> Option<Judged> {
    let stall = facts.stall.as_ref()?;
    let part = stall.waited_ms as f64 / 1000.0 / facts.seconds.max(1e-3);
    let confidence = match part >= 0.4 {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    Some((Cause::Stall, confidence))
}

fn errors(facts: &Facts) -> Option<Judged> {
    let [before, now] = [&facts.before, &facts.now].map(|of| of.error_share.unwrap_or(0.0));
    let are_many = facts.errors >= 5 && now >= 0.01 && now >= 5.0 * before;
    let confidence = match (facts.only_errors, now >= 0.1) {
        (true, _) | (_, true) => Confidence::High,
        _ => Confidence::Medium,
    };
    are_many.then_some((Cause::Errors, confidence))
}

fn retransmissions(facts: &Facts) -> Option<Judged> {
    let [before, now] = [&facts.before, &facts.now].map(|of| of.retrans.unwrap_or(0.0));
    let are_many = facts.retrans >= 5 && now >= 0.002 && now >= 5.0 * before;
    let confidence = match now >= 0.01 && facts.retrans >= 20 {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    are_many.then_some((Cause::Retransmissions, confidence))
}

fn cold_cache(facts: &Facts) -> Option<Judged> {
    let [before, now] = facts.hit_share?;
    let is_colder = before - now >= 0.2 && 1.0 - now >= 2.0 * (1.0 - before);
    // If calls read far more or less than before, they read other data.
    let is_as_before = (0.33..=2.0).contains(&facts.called);
    let confidence = match before - now >= 0.4 && (0.5..=1.5).contains(&facts.called) {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    (is_colder && is_as_before).then_some((Cause::ColdCache, confidence))
}

/// Whose load rose decides between own load and neighbour. Its measure decides between bytes and storms.
fn load(facts: &Facts) -> Option<Judged> {
    let load = facts.loads.first()?;
    let weight = load.weight();
    if weight < 0.25 || load.now < 1.5 * load.before {
        return None;
    }
    let is_clear =
        weight >= 0.5 && load.now >= 3.0 * load.before && load.all[1] >= 1.3 * load.all[0];
    let sure = match is_clear {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let confidence = match facts.load_is_elsewhere {
        true => Confidence::Low,
        false => sure,
    };
    let cause = match load.measure {
        Measure::Metadata => Cause::MetadataStorm,
        Measure::Syncs => Cause::SyncStorm,
        _ if !facts.is_own_load() => Cause::Neighbour,
        _ => Cause::OwnLoad,
    };
    Some((cause, confidence))
}

/// Larger requests take longer, but not for each byte. If other files lost time too, the cause is a different one.
fn larger(facts: &Facts) -> Option<Judged> {
    let [larger, per_byte] = facts.larger?;
    let is_own = facts
        .top
        .as_ref()
        .is_some_and(|top| top.others.unwrap_or(0.0) <= 0.1);
    let confidence = match per_byte <= 1.3 {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    (is_own && larger >= 2.0 && per_byte <= 1.6).then_some((Cause::Pattern, confidence))
}

fn less_sequential(facts: &Facts) -> Option<Judged> {
    let [before, now] = facts.sequential;
    (before - now >= 0.3).then_some((Cause::Pattern, Confidence::Medium))
}

fn one_file(facts: &Facts) -> Option<Judged> {
    let top = facts.top.as_ref()?;
    let others = top.others?;
    // The means of a few requests vary.
    let most = if facts.is_uneven() { 0.3 } else { 0.15 };
    let is_alone = top.part >= 0.8 && others <= most && top.ratio >= 2.0;
    let confidence = match top.part >= 0.9 && others <= 0.05 && top.load <= 1.5 {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    is_alone.then_some((Cause::OneFile, confidence))
}

/// Time between the requests and the end of their calls is the host's.
fn calls_alone(facts: &Facts) -> Option<Judged> {
    (facts.calls_alone && facts.slowed >= 0.6).then_some((Cause::ClientCpu, Confidence::Medium))
}

/// Which part of the latency grew, at a load that has not risen.
fn part(facts: &Facts) -> Option<Judged> {
    let is_wide = facts.slowed >= 0.6;
    let sure = match facts.of_some || facts.is_uneven() {
        true => Confidence::Medium,
        false => Confidence::High,
    };
    match facts.part? {
        Part::Queue => Some((Cause::ClientQueue, Confidence::Medium)),
        Part::Completion => Some((Cause::ClientCpu, Confidence::Medium)),
        Part::Service if !is_wide => None,
        Part::Service if facts.is_device => Some((Cause::Device, sure)),
        Part::Service => Some(match (facts.split(), facts.other_servers) {
            (Some(Split::Network), _) => (Cause::Network, Confidence::Medium),
            // That the network was quick does not excuse this host.
            (_, 1..) => (Cause::SeveralServers, Confidence::Medium),
            (Some(Split::Server), 0) => (Cause::Server, Confidence::Medium),
            (_, 0) => (Cause::ServerOrNetwork, sure),
        }),
    }
}

/// All files are slower, and the parts of the latency are unknown.
fn everything(facts: &Facts) -> Option<Judged> {
    let cause = match facts.is_device {
        true => Cause::Device,
        false => Cause::ServerOrNetwork,
    };
    (facts.slowed >= 0.6).then_some((cause, Confidence::Medium))
}
