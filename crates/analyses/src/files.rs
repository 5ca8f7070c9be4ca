//! Number of files, their sizes (Figure 5 of the paper) and ages, and which were read whole.

use std::sync::Arc;

use ahash::AHashMap;

use crate::distribution::{self, Distribution};
use crate::join::Joined;
use crate::sheet::{Datum, Heading, Sheet};
use crate::source::attributes::Attributes;
use crate::source::{Name, Request};

/// Most files with a separate row; further ones are only counted.
const MOST_FILES: usize = 1 << 22;
const NS_PER_S: f64 = 1e9;

/// Names of the tables.
pub const TABLES: [&str; 2] = ["distributions", "counts"];

/// Files by the attributes in replies of a capture.
#[derive(Default)]
pub struct OfCapture {
    /// The largest size of each file, and whether the attributes are its own.
    sizes: AHashMap<Arc<str>, Known>,
    ages_s: Distribution,
    further: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    own: Option<u64>,
    /// The size with the quirk of the paper's tool: a parent takes the size of the child that was looked up.
    with_children: u64,
}

impl OfCapture {
    /// Adds the attributes of a reply.
    pub fn add(&mut self, row: &Attributes) {
        let size = row.size.unwrap_or_default();
        if let Some(known) = row.handle.as_ref().and_then(|handle| self.known(handle)) {
            known.own = known.own.max(Some(size));
            known.with_children = known.with_children.max(size);
        }
        if let Some(known) = row.parent.as_ref().and_then(|handle| self.known(handle)) {
            known.with_children = known.with_children.max(size);
        }
    }

    /// Adds the time since the file was modified, if a reply had it.
    pub fn add_age(&mut self, row: &Joined) {
        if let Some(mtime_ns) = row.attributes.mtime_ns {
            self.ages_s
                .add(row.end_ns.saturating_sub(mtime_ns) as f64 / NS_PER_S);
        }
    }

    fn known(&mut self, handle: &Arc<str>) -> Option<&mut Known> {
        if self.sizes.len() >= MOST_FILES && !self.sizes.contains_key(handle) {
            self.further += 1;
            return None;
        }
        Some(self.sizes.entry(Arc::clone(handle)).or_default())
    }

    /// Tables: distributions with quantiles of 1/parts and so on, and counts.
    pub fn sheets(&self, parts: u64) -> [Sheet; 2] {
        let [mut own, mut with_children] = [Distribution::default(), Distribution::default()];
        // Sort: floating-point sums depend on the order.
        let mut files: Vec<_> = self.sizes.iter().collect();
        files.sort_unstable_by_key(|(handle, _)| *handle);
        for (_, known) in files {
            with_children.add(known.with_children as f64);
            if let Some(size) = known.own {
                own.add(size as f64);
            }
        }
        let counts = [
            ("files", own.count() as f64),
            ("files_and_parents", with_children.count() as f64),
            ("mentions_of_further_files", self.further as f64),
        ];
        let all = [
            ("size", &own),
            ("size_with_parents", &with_children),
            ("age_s", &self.ages_s),
        ];
        [
            distributions(&all, parts),
            Sheet::of_counts(TABLES[1], "files", counts),
        ]
    }
}

fn distributions(all: &[(&str, &Distribution)], parts: u64) -> Sheet {
    let mut headings = vec![Heading::text("what")];
    headings.extend(distribution::headings());
    let caption = "each row is a distribution over files, of sizes in bytes; of ages, over replies";
    let mut sheet = Sheet::new(TABLES[0], caption, headings);
    for (what, of) in all.iter().filter(|(_, of)| of.count() > 0) {
        let mut row = vec![Datum::text(*what)];
        row.extend(distribution::cells(of, parts));
        sheet.rows.push(row);
    }
    sheet
}

/// Facts about a file from its requests.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    read_bytes: u64,
    written_bytes: u64,
    size: Option<u64>,
    from_start: bool,
    to_end: bool,
}

/// Files by requests.
#[derive(Default)]
pub struct OfRequests {
    files: AHashMap<(Name, i64), Used>,
    further: u64,
}

impl OfRequests {
    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        let file = (request.server, request.file);
        if request.has_failed {
            return;
        }
        if self.files.len() >= MOST_FILES && !self.files.contains_key(&file) {
            self.further += 1;
            return;
        }
        let used = self.files.entry(file).or_default();
        let at_end = request.eof == Some(true);
        let size = request.file_size.or(at_end.then(|| request.end_offset()));
        used.size = used.size.max(size);
        if !request.is_read {
            used.written_bytes = used.written_bytes.saturating_add(request.bytes);
            return;
        }
        used.read_bytes = used.read_bytes.saturating_add(request.bytes);
        used.from_start |= request.offset == 0;
        used.to_end |= at_end || Some(request.end_offset()) == request.file_size;
    }

    /// Tables: like [`OfCapture::sheets`].
    pub fn sheets(&self, parts: u64) -> [Sheet; 2] {
        let mut all: [Distribution; 4] = Default::default();
        let [sizes, read, written, read_share] = &mut all;
        let [
            mut were_read,
            mut were_written,
            mut whole,
            mut of_known_size,
        ] = [0_u64; 4];
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_unstable_by_key(|(file, _)| **file);
        for (_, used) in files {
            if let Some(size) = used.size {
                sizes.add(size as f64);
            }
            if used.written_bytes > 0 {
                were_written += 1;
                written.add(used.written_bytes as f64);
            }
            if used.read_bytes == 0 {
                continue;
            }
            were_read += 1;
            read.add(used.read_bytes as f64);
            if let Some(size) = used.size.filter(|size| *size > 0) {
                of_known_size += 1;
                read_share.add(used.read_bytes as f64 / size as f64);
                let is_whole = used.from_start && used.to_end && used.read_bytes >= size;
                whole += u64::from(is_whole);
            }
        }
        let whole_share = match of_known_size {
            0 => f64::NAN,
            files => whole as f64 / files as f64,
        };
        let counts = [
            ("files", self.files.len() as f64),
            ("files_read", were_read as f64),
            ("files_written", were_written as f64),
            ("files_read_of_known_size", of_known_size as f64),
            ("files_read_whole", whole as f64),
            ("whole_file_share", whole_share),
            ("requests_of_further_files", self.further as f64),
        ];
        let [sizes, read, written, read_share] = &all;
        let all = [
            ("size", sizes),
            ("read_bytes", read),
            ("written_bytes", written),
            ("read_bytes_of_size", read_share),
        ];
        [
            distributions(&all, parts),
            Sheet::of_counts(TABLES[1], "files", counts),
        ]
    }
}
