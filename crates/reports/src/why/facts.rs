//! The facts of a draft: what changed from a usual time to the slow one.

use std::collections::BTreeSet;
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::{QueryError, Question};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{Direction, Row};
use trackiops_schemas::time::UtcMs;

use super::cause::{Facts, StalledFor, TopVictim};
use super::draft::Draft;
use super::find::{Candidate, Sign};
use super::load::{Load, risen};
use super::track::Kind;
use super::victims::{Losses, Lost, LostBy, Victim, kinds, losses};
use super::who::{Use, Uses};
use crate::report::ReportError;
use crate::slow::comparison::{Figures, both, grown_part};

/// Other files matter if they have this share of the requests.
const OTHERS: f64 = 0.1;
/// The cache's share is known only if calls read at least this many bytes.
const LEAST_CALLED: u64 = 1 << 20;
/// Requests count, rather than the calls that wait for them, if they lost this share of the time.
const REQUESTS_COUNT: f64 = 0.3;
/// Requests were as fast as before if they lost at most this share of the time that calls lost.
const REQUESTS_LOST: f64 = 0.2;
/// Files that began with a load are not its victims if others lost this share of the time.
const LEAST_OTHERS: f64 = 0.1;
/// A load is not the cause if it was this share of itself just before or after.
const AS_HIGH: f64 = 0.6;

/// Uses in a draft's time and in its usual time.
pub struct Compared {
    /// The uses of the usual time.
    before: Uses,
    /// The uses of the draft's time.
    now: Uses,
    /// Both, of all files of the site, if the question selects some of them.
    whole: Option<[Uses; 2]>,
    /// Hosts that waited.
    pub hosts: Vec<Arc<str>>,
    /// The kinds of work that were slow.
    pub kinds: Vec<Kind>,
    are_calls: bool,
    /// Whether any of these kinds was there before.
    had_before: bool,
}

impl Compared {
    /// Asks for both times. Without a usual time, only for the draft's.
    pub fn ask(
        question: &Question,
        draft: &Draft,
        usual: Option<Interval>,
    ) -> Result<Self, ReportError> {
        let signs = draft.signs.iter();
        let hosts: BTreeSet<_> = signs.map(|of| Arc::clone(&of.place.host)).collect();
        let are_calls = are_calls(draft);
        let of_kind = |of: &&Candidate| of.kind.is_call(draft.site.level) == are_calls;
        let signs: Vec<_> = draft.signs.iter().filter(of_kind).collect();
        // Work that was not there before has nothing to compare with.
        let any_before = signs.iter().any(|of| of.had_before);
        let compared = signs.iter().filter(|of| of.had_before || !any_before);
        let kinds: BTreeSet<_> = compared.map(|of| of.kind).collect();
        let both = |question: &Question| -> Result<[Uses; 2], QueryError> {
            Ok([
                match usual {
                    Some(usual) => Uses::ask(question, &draft.site, usual)?,
                    None => Uses::default(),
                },
                Uses::ask(question, &draft.site, draft.time)?,
            ])
        };
        let [before, now] = both(question)?;
        Ok(Self {
            before,
            now,
            whole: of_all_files(question).map(|all| both(&all)).transpose()?,
            hosts: hosts.into_iter().collect(),
            kinds: kinds.into_iter().collect(),
            are_calls,
            had_before: any_before,
        })
    }

    /// How much time was lost, and by whom.
    pub fn losses(&self, level: IoLevel) -> (Losses, Lost<'_>) {
        let kinds = kinds(level, self.are_calls);
        losses(&self.before, &self.now, &kinds, &self.hosts)
    }

    /// All hosts that used the site.
    pub fn all_hosts(&self) -> usize {
        let uses = self.now.of.values().chain(self.before.of.values());
        uses.map(|of| &of.host).collect::<BTreeSet<_>>().len()
    }

    /// Sums of the slow kinds of work, before and now.
    pub fn slow(&self) -> [Direction; 2] {
        [&self.before, &self.now].map(|uses| {
            let mut sum = Direction::default();
            let kinds = self.kinds.iter();
            kinds.for_each(|kind| sum.merge(&uses.sum(*kind, &self.hosts)));
            sum
        })
    }

    /// The facts.
    pub fn facts(&self, draft: &Draft, losses: &Losses, lost: &Lost<'_>) -> Facts {
        let [before, now] = self.slow();
        let figures = |of: &Direction, uses: &Uses| {
            let row = Row {
                read: of.clone(),
                ..Row::default()
            };
            Figures::new(&row, uses.recorded_ms)
        };
        let mut loads = match &self.whole {
            Some([before, now]) => risen(before, now),
            None => risen(&self.before, &self.now),
        };
        for load in &mut loads {
            load.lost_s = own_lost_s(load, lost);
        }
        let own_part = loads.first().map_or(0.0, |load| own_part(load, lost));
        let only_errors = draft.signs.iter().all(|of| of.sign == Sign::Errors);
        let (hit_share, called) = self.cache();
        Facts {
            is_device: draft.site.level == IoLevel::Block,
            seconds: draft.time.ms() as f64 / 1000.0,
            requests: now.requests,
            errors: now.errors,
            retrans: now.retrans,
            part: grown_part(&before, &now),
            stall: stall(draft),
            is_start: !self.had_before,
            only_errors,
            calls_alone: self.are_calls
                && self.requests_lost_s(draft.site.level) <= REQUESTS_LOST * losses.net_s,
            hit_share,
            called,
            own_part,
            slowed: losses.slowed,
            new: new(loads.first(), lost),
            sequential: [sequential(&before), sequential(&now)],
            top: self.top(losses),
            larger: self.larger(losses),
            before: figures(&before, &self.before),
            now: figures(&now, &self.now),
            hosts: [self.hosts.len(), self.all_hosts()],
            of_some: self.whole.is_some(),
            loads,
            ..Facts::default()
        }
    }

    /// Adds what the files of victims did now.
    pub fn add_figures(&self, victims: &mut [Victim]) {
        for victim in victims {
            let is_of = |of: &Use| of.name == victim.name && of.host == victim.host;
            victim.figures = self.now.figures(is_of);
        }
    }

    /// The time that requests lost, rather than the calls that wait for them, s.
    fn requests_lost_s(&self, level: IoLevel) -> f64 {
        let kinds = kinds(level, false);
        let (losses, _) = losses(&self.before, &self.now, &kinds, &self.hosts);
        losses.net_s
    }

    /// Share of the bytes of read calls that the cache answered, and bytes of read calls now, relative to before.
    fn cache(&self) -> (Option<[f64; 2]>, f64) {
        let of = |uses: &Uses| {
            let sums = uses.of.values().filter(|of| self.hosts.contains(&of.host));
            sums.fold((0, 0), |(called, read), of| {
                (called + of.row.app_read.bytes, read + of.row.read.bytes)
            })
        };
        let [(called_before, read_before), (called, read)] = [of(&self.before), of(&self.now)];
        if called_before < LEAST_CALLED || called < LEAST_CALLED {
            return (None, 0.0);
        }
        let hit = |called: u64, read: u64| (1.0 - read as f64 / called as f64).max(0.0);
        let rates = [
            self.before.per_second(called_before),
            self.now.per_second(called),
        ];
        (
            Some([hit(called_before, read_before), hit(called, read)]),
            rates[1] / rates[0].max(1e-9),
        )
    }

    /// Reads and writes of the file that lost most, before and now.
    fn of_top(&self, losses: &Losses) -> Option<[Direction; 2]> {
        let top = losses.victims.first()?;
        Some([&self.before, &self.now].map(|uses| {
            let mut sum = Direction::default();
            let own = uses
                .of
                .values()
                .filter(|of| of.name == top.name && of.host == top.host);
            own.for_each(|of| sum.merge(&both(&of.row)));
            sum
        }))
    }

    fn top(&self, losses: &Losses) -> Option<TopVictim> {
        let top = losses.victims.first()?;
        let [before, now] = self.of_top(losses)?;
        let all_s = losses.net_s.max(top.lost_s);
        let own_s = now.latency_ns_sum as f64 / 1e9;
        let others_s = (losses.all_s - own_s).max(1e-9);
        let all = self
            .now
            .of
            .values()
            .map(|of| both(&of.row).requests)
            .sum::<u64>();
        let has_others = (all - now.requests) as f64 >= OTHERS * all as f64;
        let rates = [
            self.before.per_second(before.requests),
            self.now.per_second(now.requests),
        ];
        Some(TopVictim {
            part: top.lost_s / all_s.max(1e-9),
            ratio: top.now_us? / top.before_us?.max(1e-9),
            load: rates[1] / rates[0].max(1e-9),
            others: has_others.then_some((losses.net_s - top.lost_s) / others_s),
        })
    }

    /// For the file that lost most: request size and time per byte, each now relative to before.
    fn larger(&self, losses: &Losses) -> Option<[f64; 2]> {
        let [before, now] = self.of_top(losses)?;
        let sizes = [&before, &now].map(|of| of.bytes as f64 / of.requests.max(1) as f64);
        let means = now.latency_ns_mean()? / before.latency_ns_mean()?.max(1.0);
        let larger = sizes[1] / sizes[0].max(1.0);
        Some([larger, means / larger.max(1e-9)])
    }

    /// Whether a load was about as high just before or after the draft, when nothing was slow.
    pub fn is_elsewhere(
        question: &Question,
        draft: &Draft,
        load: &Load,
        whole: Interval,
    ) -> Result<bool, ReportError> {
        let ms = (draft.time.ms() / 4).clamp(4000, 60_000).cast_signed();
        let (begin, end) = (draft.time.start.0 - 1000, draft.time.end.0 + 1000);
        let whole_site = of_all_files(question);
        let question = whole_site.as_ref().unwrap_or(question);
        for (from, to) in [(begin - ms, begin), (end, end + ms)] {
            let time = Interval::new(UtcMs(from), UtcMs(to)).intersect(whole);
            if time.ms() < 3000 {
                continue;
            }
            let uses = Uses::ask(question, &draft.site, time)?;
            let own = uses.of.values().filter(|of| load.owner.has(of));
            let own = uses.per_second(own.map(|of| load.measure.of(&of.row)).sum());
            if own >= AS_HIGH * load.now {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The question about all files and tenants; `None` if it is about all already. A neighbour's load is not in what is asked for.
fn of_all_files(question: &Question) -> Option<Question> {
    let is_of_some = !question.files.is_empty() || !question.tenants.is_empty();
    is_of_some.then(|| Question {
        files: Vec::new(),
        tenants: Vec::new(),
        ..question.clone()
    })
}

/// Whether calls were slow, rather than the requests that they wait for.
fn are_calls(draft: &Draft) -> bool {
    let lost = |are_calls: bool| {
        let signs = draft.signs.iter();
        let signs = signs.filter(|of| of.kind.is_call(draft.site.level) == are_calls);
        signs.map(|of| of.lost_s.max(1e-6)).fold(0.0, f64::max)
    };
    lost(true) > 0.0 && lost(false) < REQUESTS_COUNT * lost(true)
}

fn sequential(of: &Direction) -> f64 {
    of.sequential as f64 / of.requests.max(1) as f64
}

fn stall(draft: &Draft) -> Option<StalledFor> {
    let stalls = draft.signs.iter().filter(|of| of.sign == Sign::StoodStill);
    let longest = stalls.max_by_key(|of| of.time.ms())?;
    Some(StalledFor {
        waited_ms: longest.time.ms(),
    })
}

/// Time that the owner of a load lost itself, s. `None` if nothing before compares with its requests.
fn own_lost_s(load: &Load, lost: &Lost<'_>) -> Option<f64> {
    let own = lost.iter().filter(|by| load.owner.has(by.of));
    let known = own.filter(|by| by.new < by.requests);
    let sum = known.map(|by| by.lost_s).reduce(|a, b| a + b);
    sum.map(|s| s.max(0.0))
}

/// Share of the lost time that the owner of a load lost itself. Its files that began with the load are the load, and not victims of it;
/// unless hardly any other file lost time.
fn own_part(load: &Load, lost: &Lost<'_>) -> f64 {
    let sum = |is: &dyn Fn(&LostBy<'_>) -> bool| -> f64 {
        let some = lost.iter().filter(|by| is(by));
        some.map(|by| by.lost_s.max(0.0)).sum()
    };
    let all = sum(&|_| true);
    let own = sum(&|by| load.owner.has(by.of));
    let begun = sum(&|by| load.owner.has(by.of) && !by.had_before);
    match all - begun >= LEAST_OTHERS * all {
        true => (own - begun) / (all - begun).max(1e-9),
        false => own / all.max(1e-9),
    }
}

/// Share of the requests without a comparable request before. Excludes the requests of a load that rose.
fn new(load: Option<&Load>, lost: &Lost<'_>) -> f64 {
    let others = lost
        .iter()
        .filter(|by| load.is_none_or(|load| !load.owner.has(by.of)));
    let (new, all) = others.fold((0, 0), |(new, all), by| (new + by.new, all + by.requests));
    new as f64 / all.max(1) as f64
}
