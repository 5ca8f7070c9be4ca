//! What the rows of a report stand for.

use std::str::FromStr;

use trackiops_query::GroupBy;
use trackiops_query::group::{ByError, Level};

/// What a row stands for. Unlike an answer of the query engine, a report adds up hosts unless it is by host: they record the same files and
/// tenants in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBy {
    /// How the engine groups.
    pub by: GroupBy,
    /// Whether each host has separate rows.
    pub hosts: bool,
}

impl FromStr for ReportBy {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let by: GroupBy = text.parse()?;
        // A sum over two levels has no meaning.
        if by.levels {
            return Err(ByError::new(text));
        }
        Ok(Self {
            by,
            hosts: text.split(',').any(|word| word.trim() == "host"),
        })
    }
}

impl ReportBy {
    /// With directories `depth` components deep; `None` if it is not by directory.
    pub fn with_depth(self, depth: usize) -> Option<Self> {
        let Level::Dir { .. } = self.by.level else {
            return None;
        };
        let level = Level::Dir { depth };
        let by = GroupBy { level, ..self.by };
        Some(Self { by, ..self })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_apart_only_where_they_are_named() {
        let by = |text: &str| text.parse::<ReportBy>().unwrap();
        assert!(!by("tenant").hosts && by("tenant").by.tenants);
        assert!(by("tenant, host").hosts && by("host").hosts);
        assert!(!by("file").hosts);
        assert!("colour".parse::<ReportBy>().is_err());
        assert_eq!(by("dir").with_depth(3).unwrap().by, GroupBy::dir(3));
        assert_eq!(by("file").with_depth(3), None);
    }
}
