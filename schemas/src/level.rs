//! The level at which I/O was observed, between an application and the disk.

use std::fmt;
use std::str::FromStr;

/// A level. Bytes that pass several levels have rows at each of them, so rows of different levels must not be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoLevel {
    /// Requests of the NFS client to its servers.
    #[default]
    Wire,
    /// Requests of file systems to the block devices of the host.
    Block,
    /// Single calls of applications. Their sums are in rows of the other levels.
    App,
    /// Calls of traced functions of programs.
    User,
}

impl IoLevel {
    /// All levels. An answer that shows only one level takes the first one with data.
    pub const ALL: [Self; 4] = [Self::Wire, Self::Block, Self::App, Self::User];
    /// Levels of the rows of windows.
    pub const OF_ROWS: [Self; 2] = [Self::Wire, Self::Block];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Block => "block",
            Self::App => "app",
            Self::User => "user",
        }
    }
}

impl fmt::Display for IoLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no level `{level}`: write wire, block, app or user{columns}", level = .0, columns = columns_of(.0))]
pub struct IoLevelError(String);

/// Where to find data that is recorded, but has no level.
fn columns_of(level: &str) -> &'static str {
    match level {
        "cache" => "; what the page cache did is columns `cache_...` of their rows",
        _ => "",
    }
}

impl FromStr for IoLevel {
    type Err = IoLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|level| level.as_str() == text.trim())
            .ok_or_else(|| IoLevelError(text.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_read_back_as_they_are_written() {
        for level in IoLevel::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        let error = "disk".parse::<IoLevel>().unwrap_err();
        assert!(error.to_string().contains("`disk`"), "{error}");
        let error = "cache".parse::<IoLevel>().unwrap_err();
        assert!(
            error.to_string().ends_with("`cache_...` of their rows"),
            "{error}"
        );
    }
}
