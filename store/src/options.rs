//! Options of a recorder's store.

use std::fmt;
use std::str::FromStr;

use trackiops_schemas::time::{Granularity, GranularityError, UtcMs, parse_duration_ms};

/// Options of a [`crate::Writer`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the recording host, the `host` column.
    pub host: String,
    /// Granularities to keep. Appended windows usually have the finest.
    pub granularities: GranularitySet,
    /// How long a journal lasts before it is sealed. Journals end at multiples of this since the
    /// epoch, and at midnight UTC.
    pub rotate: Granularity,
    /// The filter of the recording, as text. `None` if all requests are recorded.
    pub filter: Option<String>,
    /// The kind of import, such as `pcap`. `None` if requests are recorded.
    pub source: Option<String>,
    /// Whether the store may be on NFS.
    pub allow_nfs_store: bool,
    /// Number of different files after which another journal begins. It bounds the memory for writing and sealing a
    /// journal.
    pub most_files: usize,
    /// When data is deleted.
    pub keep: RetentionPolicy,
}

impl Options {
    /// Most files of a journal, if there is enough memory.
    pub const MOST_FILES: usize = 65_536;
}

/// Limits beyond which sealed data is deleted.
#[derive(Clone, Debug)]
pub struct RetentionPolicy {
    /// Age limits.
    pub retention: Retention,
    /// Limit on the size of all files except segments and journals of single requests, bytes. `None` for no limit.
    pub most_bytes: Option<u64>,
    /// Whether time without a recording counts as age. Otherwise only recorded time counts.
    pub gaps_age: bool,
    /// The current time.
    pub now: fn() -> UtcMs,
}

impl Default for RetentionPolicy {
    /// Keeps everything.
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            most_bytes: None,
            gaps_age: false,
            now: UtcMs::now,
        }
    }
}

/// How long windows of each granularity are kept: coarser ones at least as long as finer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention(Vec<(Granularity, Option<i64>)>);

impl Retention {
    /// The age limit for windows of a granularity, ms. `None` for no limit. A granularity that is
    /// not listed inherits the next coarser one's limit.
    pub fn of(&self, granularity: Granularity) -> Option<i64> {
        let named = self.0.iter().find(|(named, _)| *named >= granularity);
        named.and_then(|(_, age)| *age)
    }
}

impl fmt::Display for Retention {
    /// The list in the syntax of [`FromStr`]. Empty if everything is kept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (granularity, age)) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            match age {
                Some(age) => write!(f, "{separator}{granularity}={age}ms")?,
                None => write!(f, "{separator}{granularity}=forever")?,
            }
        }
        Ok(())
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
    /// Checks that the rotation is a multiple of the finest granularity.
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

/// Granularities of a store: at least one, ascending, each a multiple of the one before. So a
/// coarse window is a whole number of finer ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GranularitySet(Vec<Granularity>);

impl GranularitySet {
    /// Creates a set from granularities in order, from fine to coarse.
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

    /// The shortest granularity.
    pub fn finest(&self) -> Granularity {
        self.0[0]
    }

    /// The set without granularities finer than `finest`. `None` if it does not contain `finest`.
    pub(crate) fn from(&self, finest: Granularity) -> Option<Self> {
        let place = self
            .0
            .iter()
            .position(|granularity| *granularity == finest)?;
        Some(Self(self.0[place..].to_vec()))
    }

    /// All granularities, from fine to coarse.
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

/// Invalid options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A list entry is not a granularity.
    #[error(transparent)]
    Granularity(#[from] GranularityError),
    /// The list is empty.
    #[error("no granularity is given; name at least one, such as 1s,10s,1m,1h")]
    NoGranularity,
    /// The list is not ascending.
    #[error("granularity {coarser} follows {finer}; list them from fine to coarse, each once")]
    NotAscending {
        /// The previous granularity.
        finer: Granularity,
        /// The next granularity.
        coarser: Granularity,
    },
    /// A coarser window would not be a whole number of finer ones.
    #[error("granularity {coarser} is not a whole number of {finer}; choose a multiple")]
    NotMultiple {
        /// The previous granularity.
        finer: Granularity,
        /// The next granularity.
        coarser: Granularity,
    },
    /// An entry is not a granularity with an age.
    #[error(
        "`{0}` does not say how long to keep what: write a granularity and an age, such as 1s=2d or 1h=forever"
    )]
    Retention(String),
    /// A coarser granularity would be deleted earlier than a finer one.
    #[error(
        "{coarser} follows {finer} and is not kept longer; list granularities from fine to coarse, each kept as long as the \
         one before or longer"
    )]
    RetentionOrder {
        /// The previous granularity.
        finer: Granularity,
        /// The next granularity.
        coarser: Granularity,
    },
    /// A rotation would divide a window.
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
            source: None,
            allow_nfs_store: false,
            most_files: Options::MOST_FILES,
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
