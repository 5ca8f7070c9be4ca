//! Who lost time: for each file, the additional time that its requests took.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use trackiops_query::lost::{self, beyond_ns};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::Direction;

use super::track::Kind;
use super::who::{Use, UseKey, Uses};
use crate::slow::comparison::Figures;

/// A file without an earlier mean is compared with others if its request sizes match theirs within this factor.
const AS_LARGE: f64 = 2.0;
/// A file counts as slowed from this ratio upwards.
const SLOWED: f64 = 1.4;

/// A file or tenant that lost time.
#[derive(Clone, Debug, PartialEq)]
pub struct Victim {
    /// The file's path, or its number; or the tenant.
    pub name: Arc<str>,
    /// The tenant of a file, if there is one.
    pub tenant: Option<Arc<str>>,
    /// The host.
    pub host: Arc<str>,
    /// Additional time that its requests took, s.
    pub lost_s: f64,
    /// Mean latency before, us.
    pub before_us: Option<f64>,
    /// Mean latency now, us.
    pub now_us: Option<f64>,
    /// Its reads and writes now; only of the first victims of a moment.
    pub figures: Figures,
}

/// Victims, and the total lost time.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Files, those that lost most first.
    pub victims: Vec<Victim>,
    /// Lost time of all, minus the time that some gained, s.
    pub net_s: f64,
    /// Time of all requests that have comparable requests before, s.
    pub all_s: f64,
    /// Share of the requests that were slowed, among files that existed before. 0 to 1.
    pub slowed: f64,
}

/// Lost time of one use of a file, for causes that ask whose time it was.
pub struct LostBy<'u> {
    key: &'u UseKey,
    /// The use.
    pub of: &'u Use,
    /// Whether it was there before. If not, it was compared with others.
    pub had_before: bool,
    /// Additional time that its requests took, s.
    pub lost_s: f64,
    /// Its requests.
    pub requests: u64,
    /// Its requests without comparable ones before.
    pub new: u64,
}

/// A host, and the name of a file there.
type FileOfHost<'u> = (&'u Arc<str>, &'u Arc<str>);

/// Lost time of all uses.
pub type Lost<'u> = Vec<LostBy<'u>>;

/// The time that some hosts lost in these kinds of work.
pub fn losses<'u>(
    before: &Uses,
    now: &'u Uses,
    kinds: &[Kind],
    hosts: &[Arc<str>],
) -> (Losses, Lost<'u>) {
    let usual: BTreeMap<Kind, Direction> = kinds
        .iter()
        .map(|kind| (*kind, before.sum(*kind, hosts)))
        .collect();
    let mut losses = Losses::default();
    let (mut known, mut slowed) = (0, 0);
    let mut lost: Lost<'u> = Vec::new();
    let uses = now.of.iter().filter(|(_, of)| hosts.contains(&of.host));
    for (key, of) in uses {
        let was = before.of.get(key);
        let mut by = LostBy {
            key,
            of,
            had_before: was.is_some(),
            lost_s: 0.0,
            requests: 0,
            new: 0,
        };
        for kind in kinds {
            let did = kind.of(&of.row);
            let timed = did.timed();
            let own = was.map(|was| kind.of(&was.row));
            let usual_ns = usual_ns(own.as_ref(), &usual[kind], &did);
            by.requests += timed;
            let Some(ns) = beyond_ns(&did, usual_ns) else {
                by.new += timed;
                continue;
            };
            losses.all_s += did.latency_ns_sum as f64 / 1e9;
            by.lost_s += ns / 1e9;
            known += timed;
            let is_slowed = did.latency_ns_mean() >= usual_ns.map(|ns| SLOWED * ns);
            slowed += if is_slowed { timed } else { 0 };
        }
        losses.net_s += by.lost_s;
        lost.push(by);
    }
    losses.slowed = slowed as f64 / known.max(1) as f64;
    losses.victims = victims(before, &lost, kinds);
    (losses, lost)
}

/// The usual latency of requests: that of the same file, or else that of other files if their requests are as large.
fn usual_ns(own: Option<&Direction>, others: &Direction, did: &Direction) -> Option<f64> {
    let of_others = || others.latency_ns_mean().filter(|_| is_alike(did, others));
    own.and_then(lost::usual_ns).or_else(of_others)
}

/// Whether requests are about as large as other requests.
fn is_alike(did: &Direction, others: &Direction) -> bool {
    let size = |of: &Direction| of.bytes as f64 / of.requests.max(1) as f64;
    let (own, others) = (size(did).max(1.0), size(others).max(1.0));
    own <= AS_LARGE * others && others <= AS_LARGE * own
}

/// Files that lost time. Each includes all of its users.
fn victims(before: &Uses, lost: &Lost<'_>, kinds: &[Kind]) -> Vec<Victim> {
    let mut files: HashMap<FileOfHost<'_>, (Victim, Direction, Direction)> = HashMap::new();
    for LostBy {
        key, of, lost_s, ..
    } in lost
    {
        let new = || {
            let victim = Victim {
                name: Arc::clone(&of.name),
                tenant: of.tenant.clone(),
                host: Arc::clone(&of.host),
                lost_s: 0.0,
                before_us: None,
                now_us: None,
                figures: Figures::default(),
            };
            (victim, Direction::default(), Direction::default())
        };
        let (victim, was, did) = files.entry((&of.host, &of.name)).or_insert_with(new);
        victim.lost_s += lost_s;
        if victim.tenant != of.tenant {
            victim.tenant = None;
        }
        for kind in kinds {
            did.merge(&kind.of(&of.row));
            if let Some(before) = before.of.get(key) {
                was.merge(&kind.of(&before.row));
            }
        }
    }
    let us = |of: &Direction| of.latency_ns_mean().map(|ns| ns / 1000.0);
    let files = files.into_values().map(|(victim, was, did)| Victim {
        before_us: us(&was),
        now_us: us(&did),
        ..victim
    });
    let mut victims: Vec<_> = files.filter(|of| of.lost_s > 0.0).collect();
    victims.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s).then(a.name.cmp(&b.name)));
    victims
}

/// The kinds of work of a site that are calls, or that are requests.
pub fn kinds(level: IoLevel, are_calls: bool) -> Vec<Kind> {
    let all = Kind::ALL.into_iter();
    all.filter(|kind| kind.is_call(level) == are_calls)
        .collect()
}
