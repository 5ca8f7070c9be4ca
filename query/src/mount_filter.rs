//! Which mounts are meant: `server:/export`, where it was mounted, or a pattern of either.

use std::collections::BTreeSet;

use glob::Pattern;
use trackiops_store::Snapshot;

use crate::error::QueryError;

/// The mounts that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountFilter {
    /// `server:/export`, and patterns of such.
    patterns: Vec<Pattern>,
    /// Of what is mounted at one of the directories.
    names: BTreeSet<String>,
}

impl MountFilter {
    /// What `--mount` says, any number of times; `None` without it. Where something was mounted is looked up in the catalog.
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
            // An IPv6 address has brackets around it.
            filter.names.insert(text.clone());
            filter.patterns.push(pattern);
        }
        Ok(Some(filter))
    }

    /// Whether a mount is one of them.
    pub fn matches(&self, mount: Option<&str>) -> bool {
        mount.is_some_and(|mount| {
            self.names.contains(mount) || self.patterns.iter().any(|p| p.matches(mount))
        })
    }

    /// Why nothing was found on them.
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
