//! The cost of an event, by the kind of program that sees it and by the number of shed details.

use std::ops::Range;

use trackiops_schemas::shed::Detail;

/// Programs that see the same events, and the recorder itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On completed requests, and everything that belongs to them.
    Requests,
    /// On operations of the NFS client.
    Operations,
    /// On the ends of calls.
    Calls,
    /// On the begins of calls.
    CallBegins,
    /// On pages of the cache.
    Pages,
    /// On functions of programs.
    Functions,
}

/// The number of kinds.
pub const KINDS: usize = 6;

impl Kind {
    /// All kinds, in their order.
    pub const ALL: [Self; KINDS] = [
        Self::Requests,
        Self::Operations,
        Self::Calls,
        Self::CallBegins,
        Self::Pages,
        Self::Functions,
    ];

    /// The detail without which its programs return at once.
    fn idle_without(self) -> Option<Detail> {
        match self {
            Self::Requests | Self::Operations => None,
            Self::Calls => Some(Detail::Calls),
            Self::CallBegins => Some(Detail::CallTimes),
            Self::Pages => Some(Detail::PageCache),
            Self::Functions => Some(Detail::SingleCalls),
        }
    }

    /// The part of an event's cost that remains once a detail is shed, until it is measured. From `make bench-overhead` and
    /// `make bench-levels` (docs/results): a single call costs about as much as everything else that is done for a call.
    fn remains_without(self, detail: Detail) -> f64 {
        match (self, detail) {
            (Self::Calls | Self::CallBegins, Detail::SingleCalls) => 0.5,
            (Self::Calls, Detail::CallTimes) => 0.8,
            (Self::Requests, Detail::LatencyParts) => 0.9,
            (Self::Operations, Detail::FileOperations) => 0.6,
            _ if self.idle_without() == Some(detail) => IDLE,
            _ => 1.0,
        }
    }
}

/// The cost that remains of a program that returns at once.
const IDLE: f64 = 0.15;

/// The recorder's greatest cost of an event of a detail, ns: that of a single call written to the store.
const OWN_NS_AT_MOST: f64 = 3000.0;

/// The part of the recorder's cost of an event that remains once a detail is shed, until it is measured.
fn own_remains_without(detail: Detail) -> f64 {
    match detail {
        Detail::SingleCalls => 0.2,
        Detail::Calls | Detail::PageCache => 0.8,
        _ => 1.0,
    }
}

/// Events of a kind, and the cost of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Events, 1/s.
    pub events: f64,
    /// Cost of an event, ns: the program's run time, and the kernel's cost to run it.
    pub ns: f64,
}

/// The measured load of tracing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// By [`Kind`].
    pub programs: [Rate; KINDS],
    /// CPU time of the recorder itself, ns/s.
    pub own_ns: f64,
}

impl Load {
    fn of(&self, kind: Kind) -> Rate {
        self.programs[kind as usize]
    }

    /// Events that the recorder does not see without their details.
    fn events_of_details(&self) -> f64 {
        let kinds = [Kind::Calls, Kind::Pages, Kind::Functions];
        kinds.map(|kind| self.of(kind).events).iter().sum()
    }
}

/// The measured cost of an event, ns, by the number of shed details.
type Known = Vec<Option<f64>>;

/// The known costs.
#[derive(Clone, Debug)]
pub struct Costs {
    /// The recorded details, in the order in which they are shed.
    steps: Vec<Detail>,
    programs: [Known; KINDS],
    own: Known,
}

/// The weight of a new measurement against earlier ones.
const WEIGHT: f64 = 0.5;
/// With fewer events in a second, the measured cost of one is unreliable.
const FEW: f64 = 100.0;

impl Costs {
    /// No cost is known.
    pub fn new(steps: Vec<Detail>) -> Self {
        let none = vec![None; steps.len() + 1];
        Self {
            programs: std::array::from_fn(|_| none.clone()),
            own: none,
            steps,
        }
    }

    /// The recorded details, in the order in which they are shed.
    pub fn steps(&self) -> &[Detail] {
        &self.steps
    }

    /// Takes over a measurement made while the first `shed` details were shed.
    pub fn learn(&mut self, load: &Load, shed: usize) {
        for kind in Kind::ALL {
            let rate = load.of(kind);
            if rate.events >= FEW && !self.is_idle(kind, shed) {
                learn(&mut self.programs[kind as usize], shed, rate.ns);
            }
        }
        let events = load.events_of_details();
        if events >= FEW {
            learn(&mut self.own, shed, load.own_ns / events);
        }
    }

    /// The expected CPU time of tracing at this load with the first `to` details shed, ns/s. The load was measured with `shed` details shed.
    pub fn predict(&self, load: &Load, shed: usize, to: usize) -> f64 {
        self.own_ns(load, shed, to) + self.programs_ns(load, shed, to)
    }

    /// The recorder's part. Only events of details can reduce it.
    fn own_ns(&self, load: &Load, shed: usize, to: usize) -> f64 {
        let events = load.events_of_details();
        let remains = |steps: Range<usize>| {
            let steps = self.steps[steps].iter();
            steps
                .map(|step| own_remains_without(*step))
                .product::<f64>()
        };
        if to >= shed {
            let of_details = load.own_ns.min(events * OWN_NS_AT_MOST);
            return load.own_ns - of_details * (1.0 - remains(shed..to));
        }
        let known = self.own[to].map_or(OWN_NS_AT_MOST, |ns| ns.min(OWN_NS_AT_MOST));
        load.own_ns + events * known * (1.0 - remains(to..shed))
    }

    /// The programs' part.
    pub fn programs_ns(&self, load: &Load, shed: usize, to: usize) -> f64 {
        let busy = Kind::ALL
            .into_iter()
            .filter(|kind| !self.is_idle(*kind, to));
        let of_kind = |kind: Kind| {
            let Rate { events, ns } = load.of(kind);
            let now = (!self.is_idle(kind, shed)).then_some(ns);
            let remains = |step: usize| kind.remains_without(self.steps[step]);
            events * cost(&self.programs[kind as usize], (shed, now), to, remains)
        };
        busy.map(of_kind).sum()
    }

    /// Whether programs of a kind have no work. They are soon detached then, and run only during samples.
    pub fn is_idle(&self, kind: Kind, shed: usize) -> bool {
        let without = kind.idle_without();
        self.steps[..shed].iter().any(|step| Some(*step) == without)
    }
}

fn learn(known: &mut Known, shed: usize, ns: f64) {
    if let Some(known) = known.get_mut(shed) {
        let before = known.unwrap_or(ns);
        *known = Some(before + WEIGHT * (ns - before));
    }
}

/// The cost with `to` details shed: measured now or before, or else scaled from the nearest number of details with a measurement.
fn cost(
    known: &Known,
    (shed, now): (usize, Option<f64>),
    to: usize,
    remains: impl Fn(usize) -> f64,
) -> f64 {
    let at = |level: usize| {
        match level == shed {
            true => now,
            false => None,
        }
        .or(known.get(level).copied().flatten())
    };
    let levels = 0..known.len();
    let nearest = levels
        .filter(|level| at(*level).is_some())
        .min_by_key(|level| (level.abs_diff(to), *level));
    let Some(nearest) = nearest else {
        return 0.0;
    };
    let from = at(nearest).unwrap_or_default();
    let between = |a: usize, b: usize| (a..b).map(&remains).product::<f64>();
    match nearest <= to {
        true => from * between(nearest, to),
        false => from / between(to, nearest),
    }
}
