//! Slow moments in words, and as objects for programs.

use std::sync::Arc;

use serde_json::{Value, json};
use trackiops_query::times::{Zone, rfc3339, show, show_length, show_range};
use trackiops_reports::network_or_server::{Bounds, Evidence, Split};
use trackiops_reports::slow::comparison::Part;
use trackiops_reports::why::cause::Facts;
use trackiops_reports::why::load::{Load, Measure, Owner};
use trackiops_reports::why::process::Process;
use trackiops_reports::why::victims::Victim;
use trackiops_reports::why::{Cause, Confidence, Moment};
use trackiops_schemas::level::IoLevel;

use crate::pseudonym::{Key, Pseudonyms, Unknown, Way};
use crate::{connections, units};

/// Most files that are named as victims.
const NAMED: usize = 3;
/// A longer path is shortened in a headline, characters.
const LONG_NAME: usize = 32;

/// Time, place, culprit, victims and cause of a moment.
pub fn sentences(of: &Moment, zone: Zone) -> String {
    format!(
        "{}{}: {}",
        show_range(of.time.start, of.time.end, zone),
        if of.lasts { " (still so)" } else { "" },
        untimed_sentences(of)
    )
}

/// The same without the time.
fn untimed_sentences(of: &Moment) -> String {
    let mut all = vec![format!("{}.", what(of))];
    all.extend(evidence(of));
    all.extend(lost(of));
    all.push(cause(of));
    all.join(" ")
}

/// The same in a few words, for a line of a screen.
pub fn headline(of: &Moment, zone: Zone) -> String {
    let time = |at| {
        let time = show(at, zone);
        time.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    let until = match of.lasts {
        true => "now".to_owned(),
        false => time(of.time.end),
    };
    // Cause and culprit come first: a narrow screen cuts the rest off.
    let whose = match whose(of) {
        Some(load) => {
            let process = of.process.as_ref().map(short_process);
            let who: Vec<_> = [short(load.owner.name())]
                .into_iter()
                .chain(process)
                .collect();
            format!(" ({})", who.join(", "))
        }
        None => String::new(),
    };
    // The sentences say why.
    let which = match (of.cause, of.facts.split()) {
        (Cause::ServerOrNetwork, Some(_)) => ", cannot tell which",
        _ => "",
    };
    format!(
        "{} to {until}: {}{which}{whose}: {}",
        time(of.time.start),
        cause_in_words(of.cause, of.level),
        what(of),
    )
}

/// A path, or its last part if it is long.
fn short(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((_, last)) if name.chars().count() > LONG_NAME => format!("…/{last}"),
        _ => name.to_owned(),
    }
}

/// The moment as an object for programs.
pub fn object(of: &Moment) -> Value {
    let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
    let some = |number: Option<f64>| number.map(rounded);
    let victim = |of: &Victim| {
        json!({
            "path": &*of.name, "tenant": of.tenant.as_deref(), "host": &*of.host, "lost_s": rounded(of.lost_s),
            "mean_us_before": some(of.before_us), "mean_us": some(of.now_us),
            "bytes_per_second": rounded(of.figures.throughput), "iops": rounded(of.figures.iops),
            "p99_us": some(of.figures.p99_us),
        })
    };
    let process = of.process.as_ref();
    let load = |of: &Load| {
        json!({
            "kind": of.owner.kind(), "name": &**of.owner.name(), "tenant": of.tenant.as_deref(),
            "host": &**of.owner.host(), "measure": measure(of.measure),
            "per_second_before": rounded(of.before), "per_second": rounded(of.now),
            "share": rounded(of.share), "lost_s": some(of.lost_s),
            "process": process.map(|of| &*of.name), "pid": process.map(|of| of.pid),
            "cgroup": process.and_then(|of| of.cgroup.as_deref()),
            "bytes_per_second": rounded(of.figures.throughput), "iops": rounded(of.figures.iops),
            "p99_us": some(of.figures.p99_us),
        })
    };
    let facts = &of.facts;
    let tcp = facts.network_or_server.and_then(|of| of.tcp);
    json!({
        "since": rfc3339(of.time.start), "until": rfc3339(of.time.end), "lasts": of.lasts,
        "level": of.level.as_str(), "mounts": texts(&of.mounts), "hosts": texts(&of.hosts),
        "slow": of.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        "cause": of.cause.name(), "confidence": of.confidence.name(),
        "lost_s": rounded(of.lost_s), "ratio": some(of.ratio),
        "mean_us_before": some(facts.before.mean_us), "mean_us": some(facts.now.mean_us),
        "p99_us_before": some(facts.before.p99_us), "p99_us": some(facts.now.p99_us),
        "part": facts.part.map(part),
        "network_or_server": facts.split().map(Split::name),
        "network_or_server_us": some(facts.network_or_server.and_then(|of| of.bounds).map(|of| of.surely_us)),
        "tcp_rtt_us_before": some(tcp.map(|of| of.rtt_us[0])),
        "tcp_rtt_us": some(tcp.map(|of| of.rtt_us[1])),
        "tcp_retrans_share_before": some(tcp.map(|of| of.retrans_share[0])),
        "tcp_retrans_share": some(tcp.map(|of| of.retrans_share[1])),
        "requests": facts.requests, "errors": facts.errors, "retransmissions": facts.retrans,
        "load": whose(of).map(load),
        "victims": of.victims.iter().map(victim).collect::<Vec<_>>(),
        "victims_all": of.all_victims,
        "connections": of.connections.iter().map(connections::object).collect::<Vec<_>>(),
        "text": untimed_sentences(of),
    })
}

/// Replaces all names by the pseudonyms of an export. Tenants and processes are omitted: their names have no single form.
pub fn hide(of: &mut Moment, key: &Key) -> Result<(), Unknown> {
    let with = &mut Pseudonyms::new(key, Way::Hide);
    for mount in &mut of.mounts {
        *mount = with.mount(mount)?.into();
    }
    for host in &mut of.hosts {
        *host = with.word(host)?.into();
    }
    for victim in &mut of.victims {
        victim.name = with.path(&victim.name)?.into();
        victim.host = with.word(&victim.host)?.into();
        victim.tenant = None;
    }
    for connection in &mut of.connections {
        connection.host = with.word(&connection.host)?.into();
        for mount in &mut connection.mounts {
            *mount = with.mount(mount)?.into();
        }
    }
    of.process = None;
    if let Some(load) = &mut of.culprit {
        load.tenant = None;
        let host = with.word(load.owner.host())?.into();
        load.owner = match &load.owner {
            Owner::File(_, name) => Owner::File(host, with.path(name)?.into()),
            Owner::Dir(_, name) => Owner::Dir(host, with.path(name)?.into()),
            Owner::Tenant(_, name) => Owner::Tenant(host, with.word(name)?.into()),
        };
    }
    Ok(())
}

fn texts(names: &[Arc<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

fn part(of: Part) -> &'static str {
    match of {
        Part::Queue => "queue",
        Part::Service => "service",
        Part::Completion => "completion",
    }
}

fn measure(of: Measure) -> &'static str {
    match of {
        Measure::ReadBytes => "read_bytes",
        Measure::WrittenBytes => "write_bytes",
        Measure::Requests => "requests",
        Measure::Metadata => "metadata_operations",
        Measure::Syncs => "syncs",
    }
}

/// The kind of trouble, and its place.
fn what(of: &Moment) -> String {
    let mounts = listed(&texts(&of.mounts), 2);
    let hosts = match of.has_other_hosts {
        true => format!(" of {}", listed(&texts(&of.hosts), 2)),
        false => String::new(),
    };
    let kinds = and(&of.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>());
    match of.cause {
        Cause::Stall => format!(
            "{mounts} did not answer{} for {}",
            hosts.replace(" of ", " "),
            show_length(of.facts.stall.as_ref().map_or(0, |stall| stall.waited_ms))
        ),
        Cause::Errors => format!(
            "{} of the {kinds}{hosts} on {mounts} failed",
            units::share(of.facts.now.error_share.unwrap_or(0.0)),
        ),
        _ => format!(
            "{kinds}{hosts} on {mounts} took {}{}",
            longer(of),
            figures(of)
        ),
    }
}

fn longer(of: &Moment) -> String {
    match of.ratio {
        Some(ratio) if ratio >= 9.95 => format!("{ratio:.0} times as long"),
        Some(ratio) if ratio >= 1.15 => format!("{ratio:.1} times as long"),
        // The mean of all requests hides a few slow ones.
        _ => "longer, a few of them by far".to_owned(),
    }
}

/// In brackets: the 99th percentile before and now, and the part of the latency that grew.
fn figures(of: &Moment) -> String {
    let facts = &of.facts;
    let pair = |name: &str, before: Option<f64>, now: Option<f64>| {
        let (before, now) = before.zip(now)?;
        Some(format!(
            "{name} {} to {}",
            units::latency(before),
            units::latency(now)
        ))
    };
    let p99 = pair("p99", facts.before.p99_us, facts.now.p99_us);
    let latency = p99.or_else(|| pair("mean", facts.before.mean_us, facts.now.mean_us));
    let place = of.part().map(|part| place(part, of.level, facts.split()));
    let both: Vec<_> = latency
        .into_iter()
        .chain(place.map(str::to_owned))
        .collect();
    match both.is_empty() {
        true => String::new(),
        false => format!(" ({})", both.join(", ")),
    }
}

/// Where a part of the latency is spent.
fn place(part: Part, level: IoLevel, split: Option<Split>) -> &'static str {
    match (part, level, split) {
        (Part::Queue, IoLevel::Block, _) => "waiting in the device's queue",
        (Part::Queue, ..) => "in the client's queue",
        (Part::Service, IoLevel::Block, _) => "in the device",
        (Part::Service, _, Some(Split::Network)) => "in the network",
        (Part::Service, _, Some(Split::Server)) => "in the server",
        (Part::Service, ..) => "in the network or the server",
        (Part::Completion, IoLevel::Block, _) => "in the host, after the device",
        (Part::Completion, ..) => "in the client, after the reply",
    }
}

/// A cause, in words that suit the level: requests to devices have no client.
fn cause_in_words(cause: Cause, level: IoLevel) -> &'static str {
    match (cause, level) {
        (Cause::ClientQueue, IoLevel::Block) => "the device's queue",
        (Cause::ClientCpu, IoLevel::Block) => "the host's CPUs",
        _ => cause.in_words(),
    }
}

/// The load that a cause blames.
pub(crate) fn whose(of: &Moment) -> Option<&Load> {
    of.culprit.as_ref().filter(|_| of.cause.is_load())
}

/// A process: `tar[4711]`.
fn short_process(of: &Process) -> String {
    format!("{}[{}]", of.name, of.pid)
}

/// A process with its cgroup, unless the tenant names that.
pub(crate) fn process(of: &Process, tenant: Option<&str>) -> String {
    let is_named = |cgroup: &&str| tenant.is_some_and(|tenant| tenant.contains(*cgroup));
    let cgroup = of.cgroup.as_deref().filter(|cgroup| !is_named(cgroup));
    let last = cgroup.and_then(|cgroup| cgroup.rsplit('/').next());
    let name = short_process(of);
    match last.filter(|last| !last.is_empty()) {
        Some(last) => format!("{name} of cgroup {last}"),
        None => name,
    }
}

/// The evidence for a cause.
fn evidence(of: &Moment) -> Option<String> {
    let facts = &of.facts;
    let shares = |now: f64, before: f64| (units::share(now), units::share(before));
    Some(match of.cause {
        Cause::Neighbour | Cause::OwnLoad | Cause::MetadataStorm | Cause::SyncStorm => {
            did(whose(of)?, of)
        }
        Cause::Errors => {
            let before = facts.before.error_share.unwrap_or(0.0);
            format!(
                "That were {} errors ({} before).",
                facts.errors,
                units::share(before)
            )
        }
        Cause::Retransmissions => {
            let [now, before] = [&facts.now, &facts.before].map(|of| of.retrans.unwrap_or(0.0));
            let (now, before) = shares(now, before);
            format!(
                "{} requests were sent again, {now} ({before} before).",
                facts.retrans
            )
        }
        Cause::ColdCache => {
            let [before, now] = facts.hit_share?;
            let (now, before) = shares(now, before);
            format!("The page cache had {now} of the bytes that were read ({before} before).")
        }
        Cause::Pattern => pattern(facts),
        Cause::OneFile => {
            "Other files were about as fast as before, and its load did not rise.".to_owned()
        }
        Cause::ServerOrNetwork | Cause::Network | Cause::Server | Cause::Device => {
            let which = match facts.of_some {
                true => "The selected files",
                false => "All files",
            };
            let all = format!("{which} were slower, and no load rose.");
            with_connections(all, facts)
        }
        Cause::SeveralServers => {
            let all = "Other servers were slow for this host at the same time.";
            with_connections(all.to_owned(), facts)
        }
        Cause::ClientQueue => match of.level {
            IoLevel::Block => "Requests waited in the device's queue, and no load rose.",
            _ => "Requests waited before they were sent, and no load rose.",
        }
        .to_owned(),
        Cause::ClientCpu if facts.calls_alone => {
            "Requests were as fast as before, and no load rose.".to_owned()
        }
        Cause::ClientCpu => match of.level {
            IoLevel::Block => "Completed requests waited for the host's CPUs, and no load rose.",
            _ => "Replies waited for the client, and no load rose.",
        }
        .to_owned(),
        Cause::Stall | Cause::Unknown => return None,
    })
}

/// A sentence, and one about network and server if the time was spent in one of them.
fn with_connections(sentence: String, facts: &Facts) -> String {
    match &facts.network_or_server {
        Some(of) => format!("{sentence} {}", by_connections(of)),
        None => sentence,
    }
}

/// What TCP shows of network and server.
fn by_connections(of: &Evidence) -> String {
    if let Some(Bounds { surely_us, rtt_us }) = of.bounds {
        let [surely, all] = [surely_us, rtt_us].map(units::latency);
        let side = of.split.name();
        return format!("Of {all} until the reply, at least {surely} were spent in the {side}.");
    }
    let verdict = match of.split {
        Split::Network => "The connections show that it was the network",
        Split::Server => "The network was as quick as before",
        Split::FewReadings => {
            "Network or server: cannot tell, too little is known of the connections"
        }
        Split::DelayedAcks => {
            "Network or server: cannot tell, because the server may have delayed acknowledgements"
        }
        Split::Partly => {
            "Network or server: cannot tell, because the connections explain only a part of it"
        }
        Split::LargeReplies => {
            "Network or server: cannot tell, because loss of large replies does not show"
        }
    };
    let figures = of.tcp.map(|tcp| {
        let [before, now] = tcp.rtt_us.map(units::latency);
        let retransmitted = units::share(tcp.retrans_share[1]);
        format!(" (RTT {before} to {now}, {retransmitted} retransmitted)")
    });
    format!("{verdict}{}.", figures.unwrap_or_default())
}

fn pattern(facts: &Facts) -> String {
    match facts.larger {
        Some([larger, per_byte]) if larger >= 2.0 => format!(
            "Its requests became {larger:.1} times as large, and took {per_byte:.1} times as long for each byte."
        ),
        _ => format!(
            "{} of the requests continued where one before them ended ({} before).",
            units::share(facts.sequential[1]),
            units::share(facts.sequential[0])
        ),
    }
}

/// The load of an owner, as a sentence.
fn did(load: &Load, of: &Moment) -> String {
    let host = match of.has_other_hosts || of.hosts.len() > 1 {
        true => format!(" on {}", load.owner.host()),
        false => String::new(),
    };
    let name = load.owner.name();
    let tenant = load.tenant.as_deref();
    let other = tenant.filter(|tenant| *tenant != &**name);
    let process = of.process.as_ref().map(|of| process(of, tenant));
    let who: Vec<_> = other
        .map(str::to_owned)
        .into_iter()
        .chain(process)
        .collect();
    let who = match who.is_empty() {
        true => String::new(),
        false => format!(" ({})", who.join(", ")),
    };
    format!("`{name}`{who}{host} {}.", done(load))
}

/// The activity of a load's owner.
pub(crate) fn done(load: &Load) -> String {
    let rate = |number: f64| match load.measure {
        Measure::ReadBytes | Measure::WrittenBytes => units::bytes_per_second(number),
        _ => format!("{}/s", units::rate(number)),
    };
    let (verb, what) = match load.measure {
        Measure::ReadBytes => ("read", "all bytes read"),
        Measure::WrittenBytes => ("wrote", "all bytes written"),
        Measure::Requests => ("made", "all requests"),
        Measure::Metadata => ("made", "all operations beside reads and writes"),
        Measure::Syncs => ("made", "all syncs"),
    };
    let noun = match load.measure {
        Measure::ReadBytes | Measure::WrittenBytes => "",
        Measure::Requests => " requests",
        Measure::Metadata => " operations",
        Measure::Syncs => " syncs",
    };
    format!(
        "{verb} {}{noun}, {} of {what} ({} before)",
        rate(load.now),
        units::share(load.share),
        rate(load.before),
    )
}

fn named(name: &str, tenant: Option<&str>) -> String {
    match tenant.filter(|tenant| *tenant != name) {
        Some(tenant) => format!("`{name}` ({tenant})"),
        None => format!("`{name}`"),
    }
}

/// The victims.
fn lost(of: &Moment) -> Option<String> {
    let first = of.victims.iter().take(NAMED).filter(|of| of.lost_s >= 0.05);
    let first = first.map(|of| {
        let lost = units::time(of.lost_s * 1e6);
        format!("{} lost {lost}", named(&of.name, of.tenant.as_deref()))
    });
    let first: Vec<_> = first.collect();
    let others = of.all_victims.saturating_sub(first.len());
    let others = match others {
        0 => String::new(),
        n => format!("; {n} more lost time"),
    };
    (!first.is_empty()).then(|| format!("{}{others}.", first.join(", ")))
}

fn cause(of: &Moment) -> String {
    let words = cause_in_words(of.cause, of.level);
    match (of.cause, of.confidence) {
        (Cause::Unknown, _) => "What caused it is not known.".to_owned(),
        (_, Confidence::Low) => format!("Perhaps caused by {words}; the evidence is weak."),
        (_, confidence) => format!("Cause: {words} ({} confidence).", confidence.name()),
    }
}

fn and(words: &[&str]) -> String {
    match words {
        [] => "requests".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The first of some names, and the number of the others.
fn listed(names: &[&str], most: usize) -> String {
    match names.len().saturating_sub(most) {
        0 => and(names),
        more => format!("{} and {more} more", names[..most].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_cgroup_unless_the_tenant_names_it() {
        let tar = Process {
            name: "tar".into(),
            pid: 4711,
            cgroup: Some("/system.slice/backup.service".into()),
        };
        let own = "0:/system.slice/backup.service";
        assert_eq!(process(&tar, Some(own)), "tar[4711]");
        for tenant in [Some("backup"), None] {
            assert_eq!(process(&tar, tenant), "tar[4711] of cgroup backup.service");
        }
        let cgroup = None;
        let without = Process { cgroup, ..tar };
        assert_eq!(process(&without, None), "tar[4711]");
    }

    #[test]
    fn requests_to_devices_have_no_client() {
        for part in [Part::Queue, Part::Service, Part::Completion] {
            let [wire, block] =
                [IoLevel::Wire, IoLevel::Block].map(|level| place(part, level, None));
            assert_ne!(wire, block);
            assert!(
                !block.contains("client") && !block.contains("server"),
                "{block}"
            );
        }
        let split = |split| place(Part::Service, IoLevel::Wire, split);
        assert_eq!(split(Some(Split::Network)), "in the network");
        assert_eq!(split(Some(Split::Server)), "in the server");
        assert_eq!(split(Some(Split::Partly)), split(None));
        for cause in [Cause::ClientQueue, Cause::ClientCpu, Cause::Device] {
            let words = cause_in_words(cause, IoLevel::Block);
            assert!(!words.contains("client"), "{words}");
        }
        let of_nfs = cause_in_words(Cause::ClientQueue, IoLevel::Wire);
        assert_eq!(of_nfs, "the client's queue");
    }
}
