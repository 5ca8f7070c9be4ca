//! The busiest files.
//!
//! A file has series of its own from when it becomes one of the busiest until another one takes its place; all others are one
//! series. So no series ever decreases, whatever becomes of files.

use std::collections::HashMap;
use std::mem;

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_store::live::OTHER;

/// Most files with series of their own.
pub const MOST_TOP_FILES: usize = 100;
/// Windows after which places are given away.
const ROUND: u32 = 10;
/// Files that are candidates in a round. Further ones have to wait for the next.
const MOST_CANDIDATES: usize = 16 << 10;

/// Requests and bytes of READs, then those of WRITEs.
type Sums = [u64; 4];

/// The busiest files and their sums since they are among them.
#[derive(Debug)]
pub struct TopFiles {
    most: usize,
    own: HashMap<FileKey, Place>,
    other: Sums,
    /// Bytes of this round.
    candidates: HashMap<FileKey, Candidate>,
    windows: u32,
}

#[derive(Debug)]
struct Place {
    mount: Option<String>,
    path: String,
    sums: Sums,
    /// Bytes of this round.
    bytes: u64,
}

#[derive(Debug)]
struct Candidate {
    mount: Option<String>,
    path: String,
    bytes: u64,
}

impl TopFiles {
    /// With places for at most `most` files.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.min(MOST_TOP_FILES),
            own: HashMap::new(),
            other: Sums::default(),
            candidates: HashMap::new(),
            windows: 0,
        }
    }

    /// Adds a window.
    pub fn add(&mut self, window: &ClosedWindow) {
        for FileRow { file, row } in &window.rows {
            let sums = sums(row);
            let bytes = sums[1] + sums[3];
            if let Some(place) = self.own.get_mut(&file.key) {
                add(&mut place.sums, sums);
                place.bytes += bytes;
                continue;
            }
            add(&mut self.other, sums);
            let Some(path) = &file.path else { continue };
            let has_room = self.candidates.len() < MOST_CANDIDATES;
            match self.candidates.get_mut(&file.key) {
                Some(candidate) => candidate.bytes += bytes,
                None if has_room => {
                    let candidate = Candidate {
                        mount: file.mount.clone(),
                        path: path.clone(),
                        bytes,
                    };
                    self.candidates.insert(file.key, candidate);
                }
                None => {}
            }
        }
        self.windows += 1;
        if self.windows >= ROUND {
            self.windows = 0;
            self.give_places();
        }
    }

    /// Gives free places to the busiest candidates, and those of files that were less than half as busy.
    fn give_places(&mut self) {
        let mut candidates: Vec<_> = mem::take(&mut self.candidates).into_iter().collect();
        candidates.sort_by_key(|(_, candidate)| candidate.bytes);
        while let Some((key, candidate)) = candidates.pop() {
            if candidate.bytes == 0 {
                break;
            }
            if self.own.len() >= self.most {
                let idlest = self.own.iter().min_by_key(|(_, place)| place.bytes);
                let Some((idlest, bytes)) = idlest.map(|(key, place)| (*key, place.bytes)) else {
                    break;
                };
                if candidate.bytes / 2 <= bytes {
                    break;
                }
                self.own.remove(&idlest);
            }
            let Candidate { mount, path, bytes } = candidate;
            let sums = Sums::default();
            let place = Place {
                mount,
                path,
                sums,
                bytes,
            };
            self.own.insert(key, place);
        }
        for place in self.own.values_mut() {
            place.bytes = 0;
        }
    }

    /// Mounts, paths and sums; the rest at last.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, &str, &Sums)> {
        let own = self.own.values();
        let own = own.map(|of| (of.mount.as_deref(), &*of.path, &of.sums));
        own.chain([(Some(OTHER), OTHER, &self.other)])
    }
}

fn sums(row: &Row) -> Sums {
    let Row { read, write, .. } = row;
    [read.requests, read.bytes, write.requests, write.bytes]
}

fn add(sums: &mut Sums, more: Sums) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    use trackiops_testkit::windows::{file, reads, window};

    use super::*;

    fn sum_of(files: &TopFiles, path: &str) -> Option<u64> {
        let mut found = files.iter().filter(|(_, of, _)| *of == path);
        found.next().map(|(_, _, sums)| sums[0])
    }

    #[test]
    fn the_busiest_files_have_places_and_the_rest_is_one_sum() {
        let mut files = TopFiles::new(1);
        let [a, b] = ["/mnt/a", "/mnt/b"].map(|path| {
            file(
                path.len() as u64 + u64::from(path.ends_with('b')),
                49,
                Some(path),
            )
        });
        let round = |files: &mut TopFiles, of_a: u64, of_b: u64| {
            for _ in 0..ROUND {
                let rows = vec![(a.clone(), reads(of_a)), (b.clone(), reads(of_b))];
                files.add(&window(0, rows));
            }
        };
        round(&mut files, 10, 1);
        assert_eq!(
            (sum_of(&files, "/mnt/a"), sum_of(&files, OTHER)),
            (Some(0), Some(110))
        );
        // Not busy enough to take the place.
        round(&mut files, 10, 15);
        assert_eq!(
            (sum_of(&files, "/mnt/a"), sum_of(&files, OTHER)),
            (Some(100), Some(260))
        );
        round(&mut files, 10, 50);
        assert_eq!(
            (sum_of(&files, "/mnt/a"), sum_of(&files, "/mnt/b")),
            (None, Some(0))
        );
        assert_eq!(sum_of(&files, OTHER), Some(760));
    }
}
