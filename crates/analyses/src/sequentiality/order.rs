//! The order in which the requests of a group are taken.

use std::str::FromStr;

use super::io::Io;

/// The order in which the requests of a group are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By start.
    Request,
    /// By end.
    Reply,
    /// Among concurrent requests, the one that continues where the last one ended, or else the one with the lowest offset.
    Overlap,
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "request" => Ok(Self::Request),
            "reply" => Ok(Self::Reply),
            "overlap" => Ok(Self::Overlap),
            _ => Err(format!("`{text}` is none of request, reply, overlap")),
        }
    }
}

/// Memory for reuse.
#[derive(Default)]
pub struct Scratch {
    is_taken: Vec<bool>,
}

/// The offset that the next request is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None: a run begins.
    Lowest,
    /// The run continues at this byte.
    At(u64),
}

/// The next request to take.
pub struct Pick<'i> {
    /// The request.
    pub io: &'i Io,
    /// Whether it is the earliest remaining one.
    pub is_earliest: bool,
    /// Whether it is the earliest of the original ones.
    pub is_first: bool,
}

/// Selects requests and their order.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The order.
    pub order: Order,
    /// A request that starts up to this long after another one's end still counts as concurrent, ns.
    pub slop_ns: i64,
    /// Requests that started at this time or later may still come, ns. `None` if no more come.
    pub open_from_ns: Option<i64>,
}

impl Turn {
    /// Takes requests out of `ios`, one after the other. `each` returns the next wanted offset.
    pub fn take(
        &self,
        ios: &mut Vec<Io>,
        scratch: &mut Scratch,
        wanted: Wanted,
        each: impl FnMut(&Pick<'_>) -> Wanted,
    ) {
        match self.order {
            Order::Request => {
                ios.sort_unstable();
                self.take_first(ios, |io| io.start_ns, each);
            }
            Order::Reply => {
                ios.sort_unstable_by_key(|io| (io.end_ns, *io));
                self.take_first(ios, |io| io.end_ns, each);
            }
            Order::Overlap => {
                ios.sort_unstable();
                self.take_concurrent(ios, &mut scratch.is_taken, wanted, each);
            }
        }
    }

    fn take_first(
        &self,
        ios: &mut Vec<Io>,
        time_ns: impl Fn(&Io) -> i64,
        mut each: impl FnMut(&Pick<'_>) -> Wanted,
    ) {
        let ready = match self.open_from_ns {
            None => ios.len(),
            Some(from) => ios.partition_point(|io| time_ns(io) < from),
        };
        for io in ios.drain(..ready) {
            each(&Pick {
                io: &io,
                is_earliest: true,
                is_first: true,
            });
        }
    }

    fn take_concurrent(
        &self,
        ios: &mut Vec<Io>,
        is_taken: &mut Vec<bool>,
        mut wanted: Wanted,
        mut each: impl FnMut(&Pick<'_>) -> Wanted,
    ) {
        is_taken.clear();
        is_taken.resize(ios.len(), false);
        let mut earliest = 0;
        loop {
            while is_taken.get(earliest) == Some(&true) {
                earliest += 1;
            }
            let Some(first) = ios.get(earliest) else {
                break;
            };
            let horizon = first.end_ns.saturating_add(self.slop_ns);
            if self.open_from_ns.is_some_and(|from| horizon > from) {
                break;
            }
            let place = choose(ios, is_taken, earliest, horizon, wanted);
            is_taken[place] = true;
            wanted = each(&Pick {
                io: &ios[place],
                is_earliest: place == earliest,
                is_first: place == 0,
            });
        }
        let mut left = is_taken.iter();
        ios.retain(|_| left.next() == Some(&false));
    }
}

/// The index of the next request, among those that started before the horizon: one at the wanted byte, or else the farthest before it, or
/// else the nearest behind it. Ties go to the earliest.
fn choose(
    ios: &[Io],
    is_taken: &[bool],
    earliest: usize,
    horizon_ns: i64,
    wanted: Wanted,
) -> usize {
    let mut best = earliest;
    let mut best_offset = None;
    let free = ios.iter().zip(is_taken).enumerate().skip(earliest);
    // A request that took no time is concurrent with itself.
    let concurrent =
        free.take_while(|(place, (io, _))| io.start_ns < horizon_ns || *place == earliest);
    for (place, (io, is_taken)) in concurrent {
        if *is_taken {
            continue;
        }
        let is_exact = match wanted {
            Wanted::Lowest => io.offset == 0,
            Wanted::At(end) => io.offset == end,
        };
        if is_exact {
            return place;
        }
        // The smallest offset has the smallest signed skip.
        if best_offset.is_none_or(|offset| io.offset < offset) {
            (best, best_offset) = (place, Some(io.offset));
        }
    }
    best
}
