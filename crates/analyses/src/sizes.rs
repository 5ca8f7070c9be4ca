//! Sizes and offsets of READs and WRITEs, and known sizes of files.

use ahash::AHashMap;

use crate::distribution::{self, Distribution};
use crate::sheet::{Datum, Heading, Sheet};
use crate::source::{Name, Request};

/// Most files whose sizes are kept; further ones are only counted.
const MOST_FILES: usize = 1 << 22;

/// The analysis.
pub struct Sizes {
    exact_values: usize,
    read_size: Distribution,
    read_offset: Distribution,
    write_size: Distribution,
    write_offset: Distribution,
    files: AHashMap<(Name, i64), u64>,
    further_files: u64,
    failed: u64,
}

impl Sizes {
    /// Names of its tables.
    pub const TABLES: [&'static str; 2] = ["distributions", "counts"];

    /// Ready for requests.
    pub fn new(exact_values: usize) -> Self {
        let empty = || Distribution::new(exact_values);
        Self {
            exact_values,
            read_size: empty(),
            read_offset: empty(),
            write_size: empty(),
            write_offset: empty(),
            files: AHashMap::new(),
            further_files: 0,
            failed: 0,
        }
    }

    /// Adds a READ or WRITE.
    pub fn add(&mut self, is_read: bool, offset: u64, bytes: u64) {
        let (sizes, offsets) = match is_read {
            true => (&mut self.read_size, &mut self.read_offset),
            false => (&mut self.write_size, &mut self.write_offset),
        };
        sizes.add(bytes as f64);
        offsets.add(offset as f64);
    }

    /// Adds a request that did not fail, and the size of its file if known.
    pub fn add_request(&mut self, request: &Request) {
        if request.has_failed {
            self.failed += 1;
            return;
        }
        self.add(request.is_read, request.offset, request.bytes);
        let at_end = request.eof == Some(true);
        let size = request.file_size.or(at_end.then(|| request.end_offset()));
        let Some(size) = size else {
            return;
        };
        let file = (request.server, request.file);
        let has_room = self.files.len() < MOST_FILES;
        match self.files.get_mut(&file) {
            Some(known) => *known = size.max(*known),
            None if has_room => {
                self.files.insert(file, size);
            }
            None => self.further_files += 1,
        }
    }

    /// Tables: distributions with quantiles of 1/parts and so on, and counts.
    pub fn sheets(&self, parts: u64) -> [Sheet; 2] {
        let mut sizes: Vec<_> = self.files.values().copied().collect();
        // Sort: floating-point sums depend on the order.
        sizes.sort_unstable();
        let mut file_sizes = Distribution::new(self.exact_values);
        sizes.iter().for_each(|size| file_sizes.add(*size as f64));
        let all = [
            ("read_size", &self.read_size),
            ("read_offset", &self.read_offset),
            ("write_size", &self.write_size),
            ("write_offset", &self.write_offset),
            ("file_size", &file_sizes),
        ];
        let mut headings = vec![Heading::text("what")];
        headings.extend(distribution::headings());
        let [name, counts_name] = Self::TABLES;
        let caption = "each row is a distribution, bytes; a file has its largest size";
        let mut sheet = Sheet::new(name, caption, headings);
        for (what, of) in all.into_iter().filter(|(_, of)| of.count() > 0) {
            let mut row = vec![Datum::text(what)];
            row.extend(distribution::cells(of, parts));
            sheet.rows.push(row);
        }
        sheet.verdict = sheet.distribution_verdict(" bytes");
        let counts = [
            ("files_of_known_size", self.files.len() as f64),
            ("requests_of_further_files", self.further_files as f64),
            ("failed_left_out", self.failed as f64),
        ];
        [
            sheet,
            Sheet::of_counts(counts_name, "files and requests", counts),
        ]
    }
}
