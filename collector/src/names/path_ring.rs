//! Paths as they arrive from the kernel.

use aya::maps::{Map, MapData, MapError, RingBuf};
use trackiops_schemas::ebpf::paths::PathHead;
use trackiops_schemas::identity::{Dev, FileId, path_text};
use zerocopy::FromBytes;

use crate::clock::MonotonicNs;

/// The path of a file: `server:/export` and the path below it, as text ([`path_text`]).
pub type ExportPathBuf = Vec<u8>;

/// A path or a rename that the kernel side reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEvent {
    /// It holds for requests that complete from this time on.
    pub at: MonotonicNs,
    /// The files and their new paths.
    pub news: PathChange,
    /// Length of the `server:/export` with which the path begins.
    pub top_bytes: usize,
    /// Reported by an operation on a directory. A walk through a tree can report any number of
    /// these.
    pub is_directory: bool,
}

/// A change of the known paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// A file is at this path.
    Seen(FileId, ExportPathBuf),
    /// The file or directory at the first path, with everything below it, is now at the second one.
    Renamed(Dev, ExportPathBuf, ExportPathBuf),
}

/// The ring in which paths arrive.
pub struct PathRing(RingBuf<MapData>);

impl PathRing {
    /// The ring whose map this is.
    pub fn new(map: Map) -> Result<Self, MapError> {
        RingBuf::try_from(map).map(Self)
    }

    /// The paths that have arrived by now, up to `most` of them.
    pub fn arrived(&mut self, most: usize) -> Vec<PathEvent> {
        let mut told = Vec::new();
        while told.len() < most
            && let Some(record) = self.0.next()
        {
            told.extend(PathEvent::decode(&record));
        }
        told
    }
}

impl PathEvent {
    /// Decodes a record. Any bytes are safe to pass; `None` if they are not a record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = PathHead::read_from_prefix(bytes).ok()?;
        let (path, rest) = rest.split_at_checked(head.path_bytes as usize)?;
        let (before, _) = rest.split_at_checked(head.before_bytes as usize)?;
        let ends = |text: &[u8]| text.last().is_none_or(|last| *last == 0);
        if path.is_empty() || !ends(path) || !ends(before) {
            return None;
        }
        let dev = Dev(head.dev);
        let (path, top_bytes) = place(path);
        let news = if before.is_empty() {
            let file = FileId {
                dev,
                fileid: head.fileid,
                handle_hash: head.handle_hash,
            };
            PathChange::Seen(file, path)
        } else {
            PathChange::Renamed(dev, place(before).0, path)
        };
        Some(Self {
            at: MonotonicNs(head.at_ns),
            news,
            top_bytes,
            is_directory: head.is_directory != 0,
        })
    }
}

/// Builds a path from names that end with a zero byte, the file's own first. Also returns the length of
/// the last one.
fn place(names: &[u8]) -> (ExportPathBuf, usize) {
    let names = names.strip_suffix(b"\0").unwrap_or(names);
    let mut names = names.rsplit(|byte| *byte == 0);
    let text = |name: &[u8]| path_text(name).into_bytes();
    let mut place = text(names.next().unwrap_or_default());
    while place.last() == Some(&b'/') {
        place.pop();
    }
    let top_bytes = place.len();
    for name in names {
        place.push(b'/');
        place.extend(text(name));
    }
    (place, top_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trackiops_schemas::ebpf::paths::HEAD_BYTES;

    fn record(path: &[u8], before: &[u8]) -> Vec<u8> {
        let mut bytes = [7_u64.to_ne_bytes(), 9_u64.to_ne_bytes()].concat();
        for word in [49, 5, path.len() as u32] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        for half in [before.len() as u16, 0] {
            bytes.extend(u16::to_ne_bytes(half));
        }
        assert_eq!(bytes.len(), HEAD_BYTES);
        [&bytes, path, before].concat()
    }

    #[test]
    fn a_path_is_put_together_from_its_names() {
        let file = FileId {
            dev: Dev(49),
            fileid: 9,
            handle_hash: 5,
        };
        let at = MonotonicNs(7);
        let news = |path: &[u8], before: &[u8]| {
            let told = PathEvent::decode(&record(path, before)).unwrap();
            assert_eq!(told.at, at);
            assert_eq!(told.top_bytes, if before.is_empty() { 10 } else { 2 });
            told.news
        };
        assert_eq!(
            news(b"f\xff\n\0dir\0[::1]:/exp\0", b""),
            PathChange::Seen(file, b"[::1]:/exp/dir/f\\xff\n".to_vec())
        );
        assert_eq!(
            news(b"b\0s:/\0", b"a\0d\0s:/\0"),
            PathChange::Renamed(Dev(49), b"s:/d/a".to_vec(), b"s:/b".to_vec())
        );
    }

    #[test]
    fn what_is_no_path_is_left_out() {
        let whole = record(b"a\0s:/\0", b"");
        for length in 0..whole.len() {
            assert_eq!(PathEvent::decode(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(PathEvent::decode(&record(b"", b"")), None);
        assert_eq!(PathEvent::decode(&record(b"a", b"")), None);
        // The ring rounds lengths up.
        assert!(PathEvent::decode(&[whole, vec![0; 3]].concat()).is_some());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            PathEvent::decode(&bytes);
        }
    }
}
