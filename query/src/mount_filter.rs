//! Selects mounts by `server:/export`, by mount point, or by a pattern of either.

use std::collections::BTreeSet;

use glob::Pattern;
use trackiops_store::Snapshot;

use crate::error::QueryError;

/// The mounts that a question selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountFilter {
    /// The values of `--mount`, as patterns of `server:/export`.
    patterns: Vec<Pattern>,
    /// Exact names: the values of `--mount`, and the mounts at mount points that match one of them.
    names: BTreeSet<String>,
}

impl MountFilter {
    /// Parses the values of `--mount`; `None` without any. Looks mount points up in the catalog.
    ///
    /// Errors: [`QueryError::MountPattern`], and those of the store.
    pub fn new(snapshot: &Snapshot, asked: &[String]) -> Result<Option<Self>, QueryError> {
        if asked.is_empty() {
            return Ok(None);
        }
        let mut filter = Self::default();
        let seen = snapshot.mounts()?;
        for text in asked {
            let plain = match text.trim_end_matches('/') {
                "" => "/",
                plain => plain,
            };
            let pattern = Pattern::new(plain).map_err(|error| QueryError::MountPattern {
                pattern: text.clone(),
                why: error.msg,
            })?;
            let there = seen.iter().filter(|seen| {
                let point = &seen.mount.path;
                *point == plain || pattern.matches(point)
            });
            filter
                .names
                .extend(there.map(|seen| seen.mount.mount.clone()));
            // In a pattern, the brackets around an IPv6 address would be a set of characters.
            filter.names.insert(text.clone());
            filter.patterns.push(pattern);
        }
        Ok(Some(filter))
    }

    /// Whether the filter selects a mount. An unknown mount never matches.
    pub fn matches(&self, mount: Option<&str>) -> bool {
        mount.is_some_and(|mount| {
            self.names.contains(mount) || self.patterns.iter().any(|p| p.matches(mount))
        })
    }

    /// Message for a query that found nothing on the selected mounts; it lists up to five known mounts.
    pub(crate) fn hint(snapshot: &Snapshot, asked: &[String]) -> Result<String, QueryError> {
        let mut known = BTreeSet::new();
        for seen in snapshot.mounts()? {
            known.insert(seen.mount.mount);
        }
        let asked = asked.join(", ");
        let known: Vec<_> = known.into_iter().collect();
        Ok(match known.len() {
            0 => format!("nothing was recorded on {asked}; `trackiops files` lists what was"),
            1..=5 => format!(
                "nothing was recorded on {asked}; what was mounted then or at another time: {}",
                known.join(", ")
            ),
            _ => format!(
                "nothing was recorded on {asked}; `trackiops mounts` lists what was mounted"
            ),
        })
    }
}
