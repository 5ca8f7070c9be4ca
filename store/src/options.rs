//! What the recorder chooses about a store.

use std::fmt;
use std::str::FromStr;

use trackiops_schemas::time::{Granularity, GranularityError};

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
        };
        assert!(rotating("15s").validate().is_err());
        assert!(rotating("10s").validate().is_ok());
    }
}
