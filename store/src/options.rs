//! What the recorder chooses about a store.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use trackiops_schemas::time::{Granularity, GranularityError, UtcMs, parse_duration_ms};

/// How a [`crate::Writer`] writes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the recording host, the `host` column.
    pub host: String,
    /// Windows to keep; those appended are of the finest.
    pub granularities: GranularitySet,
    /// How long a journal lasts before it is sealed. Journals are cut at multiples of it since the
    /// epoch, and at every UTC midnight.
    pub rotate: Granularity,
    /// What a request must have to be recorded, in words; `None` if everything is.
    pub filter: Option<String>,
    /// Whether the store may be on NFS.
    pub allow_nfs_store: bool,
    /// What is kept, and for how long.
    pub keep: RetentionPolicy,
}

/// What is kept of what was sealed, and for how long.
#[derive(Clone, Debug)]
pub struct RetentionPolicy {
    /// For how long.
    pub retention: Retention,
    /// How many bytes all files may have together, those of single requests apart; `None` is any number.
    pub most_bytes: Option<u64>,
    /// Whether time counts as age in which nothing was recorded: the recorder did not run, or the clock was set.
    pub gaps_age: bool,
    /// The time that it is.
    pub now: fn() -> UtcMs,
}

impl Default for RetentionPolicy {
    /// Everything for ever.
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            most_bytes: None,
            gaps_age: false,
            now: || {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                UtcMs(since.map_or(0, |since| {
                    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
                }))
            },
        }
    }
}

/// For how long windows of which length are kept; coarser ones at least as long as finer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention(Vec<(Granularity, Option<i64>)>);

impl Retention {
    /// The age that windows of a granularity reach, ms, or `None` for ever. One that is not named is kept like the next
    /// coarser one that is.
    pub fn of(&self, granularity: Granularity) -> Option<i64> {
        let named = self.0.iter().find(|(named, _)| *named >= granularity);
        named.and_then(|(_, age)| *age)
    }
}

impl FromStr for Retention {
    type Err = OptionsError;

    /// Parses a comma list such as `1s=2d,10s=14d,1m=90d,1h=forever`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut ages: Vec<(Granularity, Option<i64>)> = Vec::new();
        for one in text.split(',') {
            let syntax = || OptionsError::Retention(one.trim().to_owned());
            let (granularity, age) = one.split_once('=').ok_or_else(syntax)?;
            let age = match age.trim() {
                "forever" => None,
                age => Some(
                    parse_duration_ms(age)
                        .filter(|ms| *ms > 0)
                        .ok_or_else(syntax)?,
                ),
            };
            let granularity = granularity.trim().parse()?;
            if let Some((finer, of_finer)) = ages.last() {
                let is_longer = age.is_none_or(|age| of_finer.is_some_and(|finer| age >= finer));
                if granularity <= *finer || !is_longer {
                    return Err(OptionsError::RetentionOrder {
                        finer: *finer,
                        coarser: granularity,
                    });
                }
            }
            ages.push((granularity, age));
        }
        Ok(Self(ages))
    }
}

impl Options {
    /// Checks what the types cannot.
    pub(crate) fn validate(&self) -> Result<(), OptionsError> {
        let finest = self.granularities.finest();
        if self.rotate.is_multiple_of(finest) {
            Ok(())
        } else {
            Err(OptionsError::Rotate {
                rotate: self.rotate,
                finest,
            })
        }
    }
}

/// Granularities kept side by side: at least one, ascending, each a multiple of the one before, so
/// that every coarse window is a whole number of finer ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GranularitySet(Vec<Granularity>);

impl GranularitySet {
    /// The set of these granularities, given from fine to coarse.
    pub fn new(granularities: Vec<Granularity>) -> Result<Self, OptionsError> {
        if granularities.is_empty() {
            return Err(OptionsError::NoGranularity);
        }
        for pair in granularities.windows(2) {
            let (finer, coarser) = (pair[0], pair[1]);
            if coarser <= finer {
                return Err(OptionsError::NotAscending { finer, coarser });
            }
            if !coarser.is_multiple_of(finer) {
                return Err(OptionsError::NotMultiple { finer, coarser });
            }
        }
        Ok(Self(granularities))
    }

    /// The shortest.
    pub fn finest(&self) -> Granularity {
        self.0[0]
    }

    /// Those that are no finer than one of them.
    pub(crate) fn from(&self, finest: Granularity) -> Option<Self> {
        let place = self
            .0
            .iter()
            .position(|granularity| *granularity == finest)?;
        Some(Self(self.0[place..].to_vec()))
    }

    /// All, from fine to coarse.
    pub fn as_slice(&self) -> &[Granularity] {
        &self.0
    }
}

impl FromStr for GranularitySet {
    type Err = OptionsError;

    /// Parses a comma list such as `1s,10s,1m,1h`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed: Result<Vec<_>, _> = text.split(',').map(|g| g.trim().parse()).collect();
        Self::new(parsed?)
    }
}

impl fmt::Display for GranularitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, granularity) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{granularity}")?;
        }
        Ok(())
    }
}

/// Choices that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// One of the list is not a granularity.
    #[error(transparent)]
    Granularity(#[from] GranularityError),
    /// The list is empty.
    #[error("no granularity is given; name at least one, such as 1s,10s,1m,1h")]
    NoGranularity,
    /// The list is not in order.
    #[error("granularity {coarser} follows {finer}; list them from fine to coarse, each once")]
    NotAscending {
        /// The one before.
        finer: Granularity,
        /// The one after.
        coarser: Granularity,
    },
    /// Windows of the coarser would cut windows of the finer.
    #[error("granularity {coarser} is not a whole number of {finer}; choose a multiple")]
    NotMultiple {
        /// The one before.
        finer: Granularity,
        /// The one after.
        coarser: Granularity,
    },
    /// Not a granularity and an age.
    #[error(
        "`{0}` does not say how long to keep what: write a granularity and an age, such as 1s=2d or 1h=forever"
    )]
    Retention(String),
    /// A coarse granularity that would go before a finer one.
    #[error(
        "{coarser} follows {finer} and is not kept longer; list granularities from fine to coarse, each kept as long as the \
         one before or longer"
    )]
    RetentionOrder {
        /// The one before.
        finer: Granularity,
        /// The one after.
        coarser: Granularity,
    },
    /// Rotation would cut a window.
    #[error("rotation every {rotate} would cut windows of {finest}; choose a multiple of {finest}")]
    Rotate {
        /// The rotation.
        rotate: Granularity,
        /// The finest granularity.
        finest: Granularity,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_reads_back_as_it_is_written() {
        let set: GranularitySet = "1s, 10s,1m,1h".parse().unwrap();
        assert_eq!(set.to_string(), "1s,10s,1m,1h");
        assert_eq!(set.finest().ms(), 1000);
    }

    #[test]
    fn granularities_that_do_not_nest_are_refused() {
        for text in ["", "1s,", "10s,1s", "1s,1s", "10s,15s", "1s,7s", "1s;10s"] {
            assert!(text.parse::<GranularitySet>().is_err(), "{text}");
        }
        let rotating = |rotate: &str| Options {
            host: "h".into(),
            granularities: "10s,1m".parse().unwrap(),
            rotate: rotate.parse().unwrap(),
            filter: None,
            allow_nfs_store: false,
            keep: RetentionPolicy::default(),
        };
        assert!(rotating("15s").validate().is_err());
        assert!(rotating("10s").validate().is_ok());
    }

    #[test]
    fn coarse_windows_are_kept_at_least_as_long_as_fine_ones() {
        let retention: Retention = "1s=2d,10s=14d, 1m=90d,1h=forever".parse().unwrap();
        let age = |text: &str| retention.of(text.parse().unwrap());
        const DAY_MS: i64 = 86_400_000;
        assert_eq!(age("1s"), Some(2 * DAY_MS));
        assert_eq!(age("5s"), Some(14 * DAY_MS), "like the next coarser one");
        assert_eq!(
            (age("1m"), age("1h"), age("1d")),
            (Some(90 * DAY_MS), None, None)
        );
        assert_eq!(Retention::default().of("1s".parse().unwrap()), None);
        for text in [
            "",
            "1s",
            "1s=",
            "1s=2",
            "1s=0d",
            "x=2d",
            "1m=2d,1s=1d",
            "1s=2d,1m=1d",
            "1s=forever,1m=1d",
        ] {
            assert!(text.parse::<Retention>().is_err(), "{text}");
        }
    }
}
