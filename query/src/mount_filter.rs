//! Selects mounts by their name in rows, source (`server:/export`), mount point, or a pattern of a name or mount point.

use std::collections::BTreeSet;
use std::path::Path;

use glob::Pattern;
use trackiops_schemas::identity::typed_text;
use trackiops_schemas::place::may_be_relative;
use trackiops_store::Snapshot;

use crate::error::QueryError;
use crate::file_selector::{absolute, catalog_name};
use crate::shell_pattern::{pattern_of, taken_as_written};
use crate::volume_names::VolumeNames;

/// The mounts that a question selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountFilter {
    /// The values of `--mount`, as patterns of `server:/export`.
    patterns: Vec<Pattern>,
    /// Exact names: the values of `--mount`, and the mounts at mount points that match one of them.
    names: BTreeSet<String>,
    /// The mounts of the volumes that the question selects, if it selects any.
    of_volumes: Option<BTreeSet<String>>,
}

impl MountFilter {
    /// Parses the values of `--mount` and `--volume`; `None` without any. Looks up mount points and volumes in the
    /// catalog.
    pub fn new(
        snapshot: &Snapshot,
        mounts: &[String],
        volumes: &[String],
    ) -> Result<Option<Self>, QueryError> {
        if mounts.is_empty() && volumes.is_empty() {
            return Ok(None);
        }
        let mut filter = Self::default();
        if !volumes.is_empty() {
            let names = VolumeNames::new(snapshot)?;
            let mounts = names.mounts_of(volumes).into_iter();
            filter.of_volumes = Some(mounts.map(str::to_owned).collect());
        }
        let seen = snapshot.mounts()?;
        for text in mounts.iter().map(|text| typed_text(text)) {
            let plain = match text.trim_end_matches('/') {
                "" => "/",
                plain => plain,
            };
            let pattern = pattern_of(plain);
            // A source is also a name, unless another mount has that name.
            let is_name = seen.iter().any(|seen| seen.mount.mount == plain);
            let there = seen.iter().filter(|seen| {
                let point = &seen.mount.path;
                let is_source = !is_name && seen.mount.source == plain;
                *point == plain || pattern.matches(point) || is_source
            });
            filter
                .names
                .extend(there.map(|seen| seen.mount.mount.clone()));
            // A pattern would read the brackets of an IPv6 address as a set of characters.
            filter.names.insert(text);
            filter.patterns.push(pattern);
        }
        Ok(Some(filter))
    }

    /// Whether the filter selects a mount. An unknown mount never matches.
    pub fn matches(&self, mount: Option<&str>) -> bool {
        mount.is_some_and(|mount| {
            let is_named = || self.names.contains(mount);
            let is_like = || self.patterns.iter().any(|p| p.matches(mount));
            let volumes = self.of_volumes.as_ref();
            volumes.is_none_or(|mounts| mounts.contains(mount))
                && (self.patterns.is_empty() || is_named() || is_like())
        })
    }

    /// Message if a question about operations found none on the selected mounts, but `counted` has operations of their
    /// superblocks. A superblock of several mounts has one sum, under their common directory.
    pub(crate) fn shared<'m>(&self, counted: impl Iterator<Item = &'m str>) -> Option<String> {
        let selected = self.of_volumes.iter().flatten().chain(&self.names);
        let selected: Vec<_> = selected.collect();
        let is_above = |mount: &str| {
            let mut selected = selected.iter();
            selected.any(|name| {
                name.strip_prefix(mount)
                    .is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let above: BTreeSet<_> = counted.filter(|mount| is_above(mount)).collect();
        let above: Vec<_> = above.into_iter().collect();
        let flags = above.join(" or --mount ");
        (!above.is_empty()).then(|| {
            format!("the kernel counts operations of mounts that share a superblock together: ask for --mount {flags}")
        })
    }

    /// Message for a query that found nothing on the selected mounts; it lists up to five known mounts.
    pub(crate) fn hint(
        snapshot: &Snapshot,
        mounts: &[String],
        volumes: &[String],
    ) -> Result<String, QueryError> {
        let mut known = BTreeSet::new();
        for seen in snapshot.mounts()? {
            known.insert(seen.mount.mount);
        }
        let as_written = taken_as_written(mounts.iter().chain(volumes));
        let volumes = volumes.iter();
        let volumes = volumes.map(|volume| format!("the volume {volume}"));
        let asked = mounts.iter().cloned().chain(volumes);
        let asked = asked.collect::<Vec<_>>().join(", ");
        let known: Vec<_> = known.into_iter().collect();
        Ok(match known.len() {
            0 => format!(
                "nothing was recorded on {asked}{as_written}; `trackiops files` lists what was"
            ),
            1..=5 => format!(
                "nothing was recorded on {asked}{as_written}; what was mounted then or at another time: {}",
                known.join(", ")
            ),
            _ => format!(
                "nothing was recorded on {asked}{as_written}; `trackiops mounts` lists what was mounted"
            ),
        })
    }
}

/// Adds the absolute path of each value of `--mount` that may be a relative path. Never accesses the path's file system.
pub fn add_absolute(mounts: &mut Vec<String>) {
    let relative = mounts.iter().filter(|text| may_be_relative(text));
    let paths = relative.filter_map(|text| absolute(Path::new(text)).ok());
    let paths: Vec<_> = paths.map(|path| catalog_name(&path)).collect();
    mounts.extend(paths);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_mount_point_is_also_looked_for_by_its_path() {
        let here = std::env::current_dir().unwrap();
        for (text, below) in [("e", "e"), ("./a:b/", "a:b"), ("x/../y", "y"), ("..", "..")] {
            let mut mounts = vec![text.to_owned()];
            add_absolute(&mut mounts);
            let path = match below {
                ".." => here.parent().unwrap_or(&here).to_owned(),
                below => here.join(below),
            };
            assert_eq!(mounts, [text, &*catalog_name(&path)]);
        }
        let mut mounts = ["nas:/a", "nas:*", "/mnt/a", "*", "[::1]:/a"]
            .map(str::to_owned)
            .to_vec();
        let as_typed = mounts.clone();
        add_absolute(&mut mounts);
        assert_eq!(mounts, as_typed);
    }
}
