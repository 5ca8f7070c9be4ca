//! The order in which the requests of a group are taken.

use std::str::FromStr;

use super::io::Io;

/// The order in which the requests of a group are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they started.
    Request,
    /// As they ended.
    Reply,
    /// Of concurrent ones, the one that goes on where the last one ended, or else the one of the lowest offset.
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

/// Memory that is used again.
#[derive(Default)]
pub struct Scratch {
    is_taken: Vec<bool>,
}

/// What the next request is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A run begins.
    Lowest,
    /// It goes on at this byte.
    At(u64),
}

/// A request whose turn it is.
pub struct Pick<'i> {
    /// The request.
    pub io: &'i Io,
    /// Whether it is the earliest that is left.
    pub is_earliest: bool,
    /// Whether it is the earliest of those that were there to begin with.
    pub is_first: bool,
}

/// Which requests are taken, and how.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The order.
    pub order: Order,
    /// How long after the end of a request another counts as concurrent, ns.
    pub slop_ns: i64,
    /// Further requests may come that started now or later, ns. `None` if none comes.
    pub open_from_ns: Option<i64>,
}

impl Turn {
    /// Takes requests out of `ios`, one after the other. `each` returns what is wanted next.
    pub fn take(
        &self,
        ios: &mut Vec<Io>,
        scratch: &mut Scratch,
        wanted: Wanted,
        each: impl FnMut(&Pick<'_>) -> Wanted,
    ) {
        match self.order {
            Order::Request => {
                ios.sort_unstable_by_key(by_start);
                self.take_first(ios, |io| io.start_ns, each);
            }
            Order::Reply => {
                ios.sort_unstable_by_key(|io| {
                    (io.end_ns, io.start_ns, io.offset, io.bytes, io.is_read)
                });
                self.take_first(ios, |io| io.end_ns, each);
            }
            Order::Overlap => {
                ios.sort_unstable_by_key(by_start);
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

fn by_start(io: &Io) -> (i64, i64, u64, u64, bool) {
    (io.start_ns, io.end_ns, io.offset, io.bytes, io.is_read)
}

/// The place of the request whose turn it is: of those that started before the horizon, one at the wanted byte, or else the one that is
/// farthest before it, or else the nearest behind it. Of equals the earliest.
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
    // A request that took no time is a candidate for itself.
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
        // The smallest offset is the smallest signed skip.
        if best_offset.is_none_or(|offset| io.offset < offset) {
            (best, best_offset) = (place, Some(io.offset));
        }
    }
    best
}
