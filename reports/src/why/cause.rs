//! From facts to a cause: rules, from the clearest evidence to the vaguest. Each rule says how sure it is.

use super::load::{Load, Measure};
use crate::slow::comparison::Figures;

/// Why something was slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A server or device did not answer at all.
    Stall,
    /// Requests failed.
    Errors,
    /// Requests were sent again.
    Retransmissions,
    /// The page cache had what was read before, and does not have it now.
    ColdCache,
    /// Many operations beside reads and writes.
    MetadataStorm,
    /// Many syncs.
    SyncStorm,
    /// Somebody else's load.
    Neighbour,
    /// The load of those who waited.
    OwnLoad,
    /// Requests became larger, or less sequential.
    Pattern,
    /// One file alone, at an unchanged load.
    OneFile,
    /// The server or the network, of all files alike.
    Server,
    /// The network, or this host: several servers were slow at once.
    Network,
    /// The device, of all files alike.
    Device,
    /// The client was slow to send requests.
    ClientQueue,
    /// The client was slow to complete requests.
    ClientCpu,
    /// The data does not show it.
    Unknown,
}

impl Cause {
    /// For programs.
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
            Self::Server => "server-or-network",
            Self::Network => "network",
            Self::Device => "device",
            Self::ClientQueue => "client-queue",
            Self::ClientCpu => "client-cpu",
            Self::Unknown => "unknown",
        }
    }

    /// For people.
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
            Self::Server => "the server or the network",
            Self::Network => "the network, or this host",
            Self::Device => "the device",
            Self::ClientQueue => "the client's queue",
            Self::ClientCpu => "the client's CPUs",
            Self::Unknown => "not known",
        }
    }
}

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Something else may well be the cause.
    Low,
    /// Likely.
    Medium,
    /// The evidence leaves little else.
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

/// Where most of the added time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In the client, before requests were sent.
    Queue,
    /// From sending to the reply: network and server, or the device.
    Service,
    /// In the client, after the reply.
    Completion,
}

/// What a stall showed.
#[derive(Clone, Debug, PartialEq)]
pub struct StalledFor {
    /// How long the oldest request waited, ms.
    pub waited_ms: u64,
}

/// A file whose part of what was lost is largest.
#[derive(Clone, Debug, PartialEq)]
pub struct TopVictim {
    /// Its part, 0 to 1.
    pub part: f64,
    /// Its mean now, relative to before.
    pub ratio: f64,
    /// Its load now, relative to before.
    pub load: f64,
    /// Part of the time of all others that they lost; `None` if there are hardly any.
    pub others: Option<f64>,
}

/// The figures that decide between causes.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Whether it is a device. Otherwise it is a server.
    pub is_device: bool,
    /// The time that was slow, s.
    pub seconds: f64,
    /// All requests of what was slow, before and now.
    pub before: Figures,
    /// Now.
    pub now: Figures,
    /// Requests now, and those of them that failed or were sent again, before and now.
    pub requests: u64,
    /// Errors now.
    pub errors: u64,
    /// Repeated transmissions now.
    pub retrans: u64,
    /// Where most of the added time went, if that is known.
    pub part: Option<Part>,
    /// A stall in this time.
    pub stall: Option<StalledFor>,
    /// Whether errors are all that was found.
    pub only_errors: bool,
    /// Part of the bytes of calls that read that the cache answered: before and now.
    pub hit_share: Option<[f64; 2]>,
    /// Bytes/s that calls read now, relative to before.
    pub called: f64,
    /// Loads that rose, the clearest first.
    pub loads: Vec<Load>,
    /// Whether the first of them was as high just before or after.
    pub load_is_elsewhere: bool,
    /// Part of what was lost that the owner of the first load lost itself, 0 to 1.
    pub own_part: f64,
    /// Part of the requests that were slowed, 0 to 1.
    pub slowed: f64,
    /// Part of requests of files that were not there before, 0 to 1.
    pub new: f64,
    /// Part of requests that continue where one before them ended: before and now.
    pub sequential: [f64; 2],
    /// Of the file that lost most: the size of its requests, and their time for each byte; now, relative to before.
    pub larger: Option<[f64; 2]>,
    /// Who lost most.
    pub top: Option<TopVictim>,
    /// Other servers that the same host waited for at the same time.
    pub other_servers: usize,
    /// Hosts that waited, and all hosts that use it.
    pub hosts: [usize; 2],
}

/// A cause, and how sure it is.
pub type Judged = (Cause, Confidence);

/// The cause of a slow time.
pub fn judge(facts: &Facts) -> Judged {
    let rules: [fn(&Facts) -> Option<Judged>; 10] = [
        stall,
        errors,
        retransmissions,
        cold_cache,
        larger,
        load,
        less_sequential,
        one_file,
        part,
        everything,
    ];
    let found = rules.iter().find_map(|rule| rule(facts));
    let (cause, confidence) = found.unwrap_or((Cause::Unknown, Confidence::Low));
    // Little is known of files that are new.
    match facts.new > 0.5 && !matches!(cause, Cause::Stall | Cause::Errors) {
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
    // Who asks for more, asks for something else.
    let is_as_before = (0.33..=2.0).contains(&facts.called);
    let confidence = match before - now >= 0.4 && (0.5..=1.5).contains(&facts.called) {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    (is_colder && is_as_before).then_some((Cause::ColdCache, confidence))
}

/// Whose load rose decides between one's own load and a neighbour; what it is of, between bytes and storms.
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
        _ if facts.own_part < 0.6 => Cause::Neighbour,
        _ => Cause::OwnLoad,
    };
    Some((cause, confidence))
}

/// Requests that became larger take longer, and as long for each byte. If others lost time as well, something else is to blame.
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
    let is_alone = top.part >= 0.8 && others <= 0.15 && top.ratio >= 2.0;
    let confidence = match top.part >= 0.9 && others <= 0.05 && top.load <= 1.5 {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    is_alone.then_some((Cause::OneFile, confidence))
}

/// Where the added time went, at a load that has not risen.
fn part(facts: &Facts) -> Option<Judged> {
    let is_wide = facts.slowed >= 0.6;
    match facts.part? {
        Part::Queue => Some((Cause::ClientQueue, Confidence::Medium)),
        Part::Completion => Some((Cause::ClientCpu, Confidence::Medium)),
        Part::Service if !is_wide => None,
        Part::Service if facts.is_device => Some((Cause::Device, Confidence::High)),
        Part::Service if facts.other_servers > 0 => Some((Cause::Network, Confidence::Medium)),
        Part::Service => Some((Cause::Server, Confidence::High)),
    }
}

/// All files are slower, and the parts are not known.
fn everything(facts: &Facts) -> Option<Judged> {
    let cause = match facts.is_device {
        true => Cause::Device,
        false => Cause::Server,
    };
    (facts.slowed >= 0.6).then_some((cause, Confidence::Medium))
}
