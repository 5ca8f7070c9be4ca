//! From evidence to a verdict.

use super::Place;
use super::correlation::Tested;
use super::effect::Effect;

/// Significance level: the chance that a place without a culprit has a correlation this clear.
pub const CHANCE: f64 = 0.01;
/// A named candidate raises the others' latency by at least this factor.
pub const MIN_RATIO: f64 = 1.2;
/// Fewer episodes may be a coincidence, however clear each one is.
pub const MIN_EPISODES: usize = 5;
/// Least share of the episodes in which the others wait longer.
const EPISODES_LONGER: f64 = 0.7;
/// Least share of the high intervals that can be compared.
const COMPARED: f64 = 0.5;
/// If the others' loads explain more of a load than this, it moves together with them.
const SHARED: f64 = 0.9;

/// Whether a candidate is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The others wait longer when it does more.
    Named,
    /// The others do not wait noticeably longer when it does more.
    Cleared,
    /// The data does not suffice.
    Unknown(Reason),
}

/// Why the data does not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There were no other entities.
    Alone,
    /// No tenant is known of the requests, as of those to devices, so that no others can be told apart.
    NoTenants,
    /// There are too few intervals with a known latency of others.
    FewIntervals,
    /// Its load never varied.
    Steady,
    /// The loads of all entities rise together.
    Together,
    /// Its load was high too few times.
    FewEpisodes,
    /// The others waited longer, but that may be chance.
    Chance,
}

impl Verdict {
    /// The value in the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Named => "noisy",
            Self::Cleared => "not noisy",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Why the data does not suffice, for people; `None` if it does.
    pub fn reason(self) -> Option<&'static str> {
        let Self::Unknown(reason) = self else {
            return None;
        };
        Some(match reason {
            Reason::Alone => "nobody else was there",
            Reason::NoTenants => {
                "no tenant is known of these requests, as of all to devices; --by file compares files"
            }
            Reason::FewIntervals => "too few intervals",
            Reason::Steady => "its load never varied",
            Reason::Together => "its load moves with the others'",
            Reason::FewEpisodes => "its load was high too few times",
            Reason::Chance => "chance is as clear",
        })
    }
}

/// The verdict on an entity.
pub fn of(
    place: &Place,
    entity: usize,
    tested: Option<&Tested>,
    effect: Option<&Effect>,
) -> Verdict {
    let is_idle =
        |activity: &super::Activity| activity.iter().flatten().all(|flow| flow.requests == 0);
    let mut others = place
        .entities
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != entity);
    if others.all(|(_, activity)| is_idle(activity)) {
        return Verdict::Unknown(Reason::Alone);
    }
    let (tested, effect) = match (tested, effect) {
        (None, _) => return Verdict::Unknown(Reason::FewIntervals),
        (_, None) => return Verdict::Unknown(Reason::Steady),
        (Some(tested), Some(effect)) => (tested, effect),
    };
    if effect.compared < COMPARED || tested.shared > SHARED {
        return Verdict::Unknown(Reason::Together);
    }
    if effect.ratio < MIN_RATIO {
        return Verdict::Cleared;
    }
    if effect.episodes < MIN_EPISODES {
        return Verdict::Unknown(Reason::FewEpisodes);
    }
    let longer = effect.episodes_longer as f64 / effect.episodes as f64;
    match tested.chance <= CHANCE && longer >= EPISODES_LONGER {
        true => Verdict::Named,
        false => Verdict::Unknown(Reason::Chance),
    }
}
