//! Paths of files, as the kernel side reported them.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use trackiops_schemas::identity::{Dev, FileId};

use crate::clock::MonotonicNs;
use crate::generations::Generations;
use crate::names::path_ring::{PathChange, PathEvent};

/// Most files of a generation; there are two generations. Each file takes about 200 bytes and twice its
/// path: 40 MiB in all, with paths of 50 bytes.
const MOST: usize = 65_536;
/// Most directories of a generation that were only seen in operations. So a walk through a tree
/// leaves room for files that are read and written. More could not have rows (`rollup::other_files`):
/// 4,096 at once and 64 a second for five minutes.
const MOST_DIRECTORIES: usize = 24_576;
/// A request that completes while its file is being renamed can report the previous path, up to
/// this much later.
const RENAMING: Duration = Duration::from_millis(500);
/// Most renames that are remembered for that.
const MOST_LEFT: usize = 1024;
/// How the NFS client names a file that was unlinked while it is open, before at least this many
/// hexadecimal digits (`nfs_sillyrename`, fs/nfs/unlink.c).
const UNLINKED: (&[u8], usize) = (b".nfs", 16);

/// `server:/export` and the path below it.
pub type ExportPath = Arc<[u8]>;

/// Paths of the recently active files.
pub struct KnownPaths {
    known: Generations<FileId, ExportPath>,
    /// The file that was last seen at each path.
    owners: BTreeMap<(Dev, ExportPath), FileId>,
    /// Paths that were renamed, and when.
    left: VecDeque<(MonotonicNs, Dev, ExportPath)>,
    /// Number of directories added since the last rotation.
    directories: usize,
    /// Most files of a generation.
    most: usize,
    /// Whether there was no room for a file.
    is_full: bool,
}

impl KnownPaths {
    /// Without paths yet.
    pub fn new() -> Self {
        Self {
            known: Generations::new(),
            owners: BTreeMap::new(),
            left: VecDeque::new(),
            directories: 0,
            most: MOST,
            is_full: false,
        }
    }

    /// Limits the number of files that are remembered of a generation.
    pub fn remember_at_most(&mut self, files: usize) {
        self.most = files.min(MOST);
    }

    /// The path of a file.
    pub fn get(&mut self, file: FileId) -> Option<ExportPath> {
        self.known.get(file).map(|place| Arc::clone(place))
    }

    /// Like [`Self::get`], but does not count as a use of the file.
    pub fn peek(&self, file: FileId) -> Option<&[u8]> {
        self.known.peek(&file).map(|place| &**place)
    }

    /// The files whose known path differs from the reported one.
    pub fn moved_by(&self, told: &PathEvent) -> HashSet<FileId> {
        match &told.news {
            PathChange::Seen(file, place) => {
                let known = self.known.peek(file);
                let moved = known.is_some_and(|known| {
                    **known != **place && self.is_credible(told.at, *file, place)
                });
                moved.then_some(*file).into_iter().collect()
            }
            PathChange::Renamed(dev, before, _) => self
                .below(*dev, before)
                .into_iter()
                .map(|(file, _)| file)
                .collect(),
        }
    }

    /// Takes over a report of the kernel side.
    pub fn learn(&mut self, told: PathEvent) {
        match told.news {
            PathChange::Seen(file, place) => match self.get(file) {
                // Another file may have had this path in between.
                Some(known) if *known == *place => {
                    self.owners.insert((file.dev, known), file);
                }
                Some(_) if !self.is_credible(told.at, file, &place) => {}
                None if told.is_directory
                    && self.directories >= MOST_DIRECTORIES.min(self.most / 2) => {}
                None if self.known.recent_len() >= self.most => self.is_full = true,
                known => {
                    if known.is_none() && told.is_directory {
                        self.directories += 1;
                    }
                    self.put(file, place.into());
                }
            },
            PathChange::Renamed(dev, before, after) => {
                for (file, place) in self.below(dev, &before) {
                    let below = place.get(before.len()..).unwrap_or_default();
                    self.put(file, [&after, below].concat().into());
                }
                self.left.push_back((told.at, dev, before.into()));
                if self.left.len() > MOST_LEFT {
                    self.left.pop_front();
                }
            }
        }
    }

    /// Whether to believe a path although the file is known at another one. Not if the path was just renamed,
    /// nor if the client gave it to an unlinked file.
    fn is_credible(&self, at: MonotonicNs, file: FileId, place: &[u8]) -> bool {
        let left = |(since, dev, before): &(MonotonicNs, Dev, ExportPath)| {
            *dev == file.dev
                && at.0.saturating_sub(since.0) < RENAMING.as_nanos() as u64
                && is_below(place, before)
        };
        !is_unlinked(place) && !self.left.iter().any(left)
    }

    fn put(&mut self, file: FileId, place: ExportPath) {
        self.owners.insert((file.dev, Arc::clone(&place)), file);
        if let Some(before) = self.known.insert(file, Arc::clone(&place))
            && before != place
        {
            self.disown(file, before);
        }
    }

    fn disown(&mut self, file: FileId, place: ExportPath) {
        let place = (file.dev, place);
        if self.owners.get(&place) == Some(&file) {
            self.owners.remove(&place);
        }
    }

    /// The files at a place and below it.
    fn below(&self, dev: Dev, place: &[u8]) -> Vec<(FileId, ExportPath)> {
        let at = (dev, ExportPath::from(place));
        let inside = (dev, ExportPath::from([place, b"/"].concat()));
        let own = self.owners.get_key_value(&at).into_iter();
        let below = self
            .owners
            .range((Bound::Included(&inside), Bound::Unbounded))
            .take_while(|((other, path), _)| *other == dev && path.starts_with(&inside.1));
        own.chain(below)
            .map(|((_, path), file)| (*file, Arc::clone(path)))
            .collect()
    }

    /// Whether there was no room for a file since the last rotation.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Forgets the files for which `is_gone` holds, given their paths.
    pub fn forget(&mut self, is_gone: impl Fn(FileId, &[u8]) -> bool) {
        self.known.retain(|file, place| !is_gone(*file, place));
        self.owners
            .retain(|(_, place), file| !is_gone(*file, place));
    }

    /// Forgets the files that were idle since the previous call. After this the kernel side must
    /// report all paths again.
    pub fn rotate(&mut self) {
        for (file, place) in self.known.rotate() {
            self.disown(file, place);
        }
        self.directories = 0;
        self.is_full = false;
    }

    /// Forgets renames that are long over.
    pub fn settle(&mut self, now: MonotonicNs) {
        let long_ago = now.0.saturating_sub(2 * RENAMING.as_nanos() as u64);
        while self.left.front().is_some_and(|(at, ..)| at.0 < long_ago) {
            self.left.pop_front();
        }
    }
}

/// Whether `place` is `top`, or below it.
pub fn is_below(place: &[u8], top: &[u8]) -> bool {
    place
        .strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Whether the client gave this name to a file when it was unlinked.
fn is_unlinked(place: &[u8]) -> bool {
    let name = place.rsplit(|byte| *byte == b'/').next();
    let (prefix, digits) = UNLINKED;
    name.and_then(|name| name.strip_prefix(prefix))
        .is_some_and(|rest| rest.len() >= digits && rest.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    fn file(fileid: u64) -> FileId {
        FileId {
            dev: Dev(49),
            fileid,
            handle_hash: 1,
        }
    }

    /// Learns a path as the recorder does. Returns the files that have moved.
    fn learn(paths: &mut KnownPaths, at_ms: u64, news: PathChange) -> Vec<u64> {
        let told = PathEvent {
            at: MonotonicNs(at_ms * 1_000_000),
            news,
            top_bytes: 4,
            is_directory: false,
        };
        let mut moved: Vec<_> = paths
            .moved_by(&told)
            .iter()
            .map(|file| file.fileid)
            .collect();
        moved.sort_unstable();
        paths.learn(told);
        moved
    }

    fn see(paths: &mut KnownPaths, at_ms: u64, fileid: u64, place: &str) -> Vec<u64> {
        learn(paths, at_ms, PathChange::Seen(file(fileid), place.into()))
    }

    fn rename(paths: &mut KnownPaths, at_ms: u64, before: &str, after: &str) -> Vec<u64> {
        learn(
            paths,
            at_ms,
            PathChange::Renamed(Dev(49), before.into(), after.into()),
        )
    }

    fn place(paths: &mut KnownPaths, fileid: u64) -> Option<String> {
        let place = paths.get(file(fileid))?;
        Some(String::from_utf8_lossy(&place).into_owned())
    }

    #[test]
    fn renaming_moves_what_is_there_and_below_and_nothing_beside_it() {
        let mut paths = KnownPaths::new();
        for (fileid, path) in [
            (1, "s:/e/d"),
            (2, "s:/e/d/a"),
            (3, "s:/e/d/x/b"),
            (4, "s:/e/d-1/c"),
            (5, "s:/e/da"),
        ] {
            assert_eq!(see(&mut paths, 0, fileid, path), NONE, "{path} is new");
        }
        let elsewhere = PathChange::Renamed(Dev(50), "s:/e/d".into(), "s:/e/z".into());
        assert_eq!(learn(&mut paths, 1, elsewhere), NONE);
        assert_eq!(rename(&mut paths, 1, "s:/e/d", "s:/e/q/d2"), [1, 2, 3]);
        let now: Vec<_> = (1..6).filter_map(|id| place(&mut paths, id)).collect();
        assert_eq!(
            now,
            [
                "s:/e/q/d2",
                "s:/e/q/d2/a",
                "s:/e/q/d2/x/b",
                "s:/e/d-1/c",
                "s:/e/da"
            ]
        );
        assert_eq!(
            rename(&mut paths, 2, "s:/e/d", "s:/e/z"),
            NONE,
            "it is not there any more"
        );
        assert_eq!(rename(&mut paths, 3, "s:/e/q", "s:/e/p"), [1, 2, 3]);
    }

    #[test]
    fn a_place_belongs_to_who_was_seen_there_last() {
        let mut paths = KnownPaths::new();
        see(&mut paths, 0, 1, "s:/e/log");
        see(&mut paths, 1, 2, "s:/e/log");
        assert_eq!(rename(&mut paths, 2, "s:/e/log", "s:/e/log.1"), [2]);
        assert_eq!(place(&mut paths, 1).as_deref(), Some("s:/e/log"));
        // The new file is not the one that was moved.
        see(&mut paths, 3, 3, "s:/e/log");
        assert_eq!(place(&mut paths, 3).as_deref(), Some("s:/e/log"));
    }

    #[test]
    fn what_is_told_late_does_not_undo_a_renaming() {
        let mut paths = KnownPaths::new();
        see(&mut paths, 0, 1, "s:/e/a/f");
        rename(&mut paths, 100, "s:/e/a", "s:/e/b");
        assert_eq!(see(&mut paths, 101, 1, "s:/e/a/f"), NONE);
        assert_eq!(place(&mut paths, 1).as_deref(), Some("s:/e/b/f"));
        assert_eq!(
            see(&mut paths, 700, 1, "s:/e/a/f"),
            [1],
            "somebody moved it back"
        );
        paths.settle(MonotonicNs(5_000_000_000));
        assert!(paths.left.is_empty());
    }

    #[test]
    fn an_unlinked_file_keeps_its_name() {
        let mut paths = KnownPaths::new();
        see(&mut paths, 0, 1, "s:/e/a");
        assert_eq!(
            see(&mut paths, 1, 1, "s:/e/.nfs000000000000002a00000001"),
            NONE
        );
        assert_eq!(place(&mut paths, 1).as_deref(), Some("s:/e/a"));
        assert_eq!(see(&mut paths, 2, 1, "s:/e/.nfs-notes"), [1]);
        see(&mut paths, 3, 2, "s:/e/.nfs000000000000002a00000001");
        assert!(place(&mut paths, 2).is_some(), "better than none");
    }

    #[test]
    fn a_walk_through_a_tree_leaves_room_for_files() {
        let mut paths = KnownPaths::new();
        for fileid in 0..MOST as u64 {
            paths.learn(PathEvent {
                at: MonotonicNs(0),
                news: PathChange::Seen(file(fileid), format!("s:/e/{fileid}").into()),
                top_bytes: 4,
                is_directory: true,
            });
        }
        assert_eq!(paths.known.recent_len(), MOST_DIRECTORIES);
        assert!(!paths.is_full());
        see(&mut paths, 0, MOST as u64, "s:/e/f");
        assert!(place(&mut paths, MOST as u64).is_some());
        paths.rotate();
        assert_eq!(paths.directories, 0);
    }

    #[test]
    fn idle_files_are_forgotten_and_memory_is_bounded() {
        let mut paths = KnownPaths::new();
        for fileid in 0..MOST as u64 + 7 {
            see(&mut paths, 0, fileid, &format!("s:/e/{fileid}"));
        }
        assert!(paths.is_full());
        assert_eq!((paths.known.recent_len(), paths.owners.len()), (MOST, MOST));
        paths.rotate();
        assert!(!paths.is_full() && place(&mut paths, 3).is_some());
        paths.rotate();
        assert_eq!(paths.owners.len(), 1, "only one was used");
        paths.forget(|file, _| file.dev == Dev(49));
        assert_eq!((place(&mut paths, 3), paths.owners.len()), (None, 0));
    }
}
