//! The busiest files.
//!
//! A file gets separate series when it becomes one of the busiest, until another file takes its place. All other files share one series. So
//! no series ever decreases. A file is identified by its name: a file that replaces another of its name continues its series, and a renamed
//! file moves its sums into a series of the new name.

use std::collections::HashMap;
use std::mem;

use trackiops_schemas::identity::{FileAttributes, FileKey};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_store::live::OTHER;

/// Most files with separate series.
pub const MOST_TOP_FILES: usize = 100;
/// Windows between two assignments of places.
const ROUND: u32 = 10;
/// Most candidates in a round. Further files must wait for the next round.
const MOST_CANDIDATES: usize = 16 << 10;

/// Requests and bytes of READs, then of WRITEs.
type Sums = [u64; 4];

/// The sums of a file, or of all files without separate series, at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSums {
    /// The mount, if it is known.
    pub mount: Option<String>,
    /// The path.
    pub path: String,
    /// Requests and bytes of READs, then of WRITEs.
    pub sums: Sums,
}

/// The busiest files, and their sums since they became the busiest.
#[derive(Debug)]
pub struct TopFiles {
    most: usize,
    own: HashMap<Name, Place>,
    /// The names in `own` under which each file was seen.
    names: HashMap<FileKey, Name>,
    other: Sums,
    /// Bytes in this round.
    candidates: HashMap<Name, u64>,
    windows: u32,
}

/// The labels of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    mount: Option<String>,
    path: String,
}

#[derive(Debug, Default)]
struct Place {
    sums: Sums,
    /// The file that was last seen under this name.
    file: Option<FileKey>,
    /// Bytes in this round.
    bytes: u64,
}

impl Name {
    fn of(file: &FileAttributes) -> Option<Self> {
        Some(Self {
            mount: file.mount.clone(),
            path: file.path.clone()?,
        })
    }
}

impl TopFiles {
    /// Has places for at most `most` files.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.min(MOST_TOP_FILES),
            own: HashMap::new(),
            names: HashMap::new(),
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
            let name = Name::of(file);
            if let Some(name) = &name {
                self.follow(file.key, name);
            }
            let own = name.as_ref().and_then(|name| self.own.get_mut(name));
            if let Some(place) = own {
                add(&mut place.sums, sums);
                place.bytes += bytes;
                continue;
            }
            add(&mut self.other, sums);
            let Some(name) = name else { continue };
            let has_room = self.candidates.len() < MOST_CANDIDATES;
            match self.candidates.get_mut(&name) {
                Some(of_round) => *of_round += bytes,
                None if has_room => {
                    self.candidates.insert(name, bytes);
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

    /// Moves the series of a renamed file to its new name, unless the new name has a series.
    fn follow(&mut self, file: FileKey, name: &Name) {
        let before = self.names.get(&file).filter(|before| *before != name);
        if let Some(place) = before.and_then(|before| self.own.remove(before)) {
            self.own.entry(name.clone()).or_insert(place);
        }
        let Some(place) = self.own.get_mut(name) else {
            return;
        };
        if place.file.replace(file) != Some(file) || before.is_some() {
            self.names.insert(file, name.clone());
        }
    }

    /// Gives free places to the busiest candidates, and takes places from files that were less than half as busy.
    fn give_places(&mut self) {
        let mut candidates: Vec<_> = mem::take(&mut self.candidates).into_iter().collect();
        candidates.sort_by_key(|(_, bytes)| *bytes);
        while let Some((name, of_round)) = candidates.pop() {
            if of_round == 0 {
                break;
            }
            if self.own.len() >= self.most {
                let idlest = self.own.iter().min_by_key(|(_, place)| place.bytes);
                let idlest = idlest.map(|(name, place)| (name.clone(), place.bytes));
                let Some((idlest, bytes)) = idlest else {
                    break;
                };
                if of_round / 2 <= bytes {
                    break;
                }
                self.own.remove(&idlest);
            }
            let place = Place {
                bytes: of_round,
                ..Place::default()
            };
            self.own.insert(name, place);
        }
        for place in self.own.values_mut() {
            place.bytes = 0;
        }
        // Files that are often replaced leave stale keys behind.
        let own = &self.own;
        self.names
            .retain(|file, name| own.get(name).is_some_and(|place| place.file == Some(*file)));
    }

    /// The sums of all files as they are now; the sum of all other files comes last.
    pub fn now(&self) -> Vec<FileSums> {
        let sums = self.iter().map(|(mount, path, sums)| FileSums {
            mount: mount.map(str::to_owned),
            path: path.to_owned(),
            sums: *sums,
        });
        sums.collect()
    }

    /// Mounts, paths and sums; the sum of all other files comes last.
    fn iter(&self) -> impl Iterator<Item = (Option<&str>, &str, &Sums)> {
        let own = self.own.iter();
        let own = own.map(|(name, of)| (name.mount.as_deref(), &*name.path, &of.sums));
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
    fn a_file_that_is_replaced_goes_on_in_its_series() {
        let mut files = TopFiles::new(5);
        for inode in 1..5 {
            for _ in 0..ROUND {
                let rows = vec![(file(inode, 49, Some("/mnt/a")), reads(10))];
                files.add(&window(0, rows));
            }
        }
        let of_it = files.iter().filter(|(_, path, _)| *path == "/mnt/a");
        let sums: Vec<_> = of_it.map(|(_, _, sums)| sums[0]).collect();
        assert_eq!(sums, [300]);
    }

    #[test]
    fn a_renamed_file_has_one_series_of_its_new_name() {
        let mut files = TopFiles::new(5);
        let mut record = |path, times| {
            for _ in 0..times {
                let rows = vec![(file(1, 49, Some(path)), reads(10))];
                files.add(&window(0, rows));
            }
        };
        // A round without a series, then half of one.
        record("/mnt/before", ROUND + ROUND / 2);
        record("/mnt/after", 1);
        assert_eq!(sum_of(&files, "/mnt/before"), None);
        assert_eq!(
            sum_of(&files, "/mnt/after"),
            Some(10 * u64::from(ROUND / 2 + 1))
        );
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
