//! Paths of files, from the lookups in a capture.

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};

use crate::error::AnalysisError;
use trackiops_schemas::unit::grouped;

use crate::sheet::{Datum, Heading, Sheet};
use crate::source::Names;
use crate::source::attributes::Attributes;

/// Most files whose names are kept.
const MOST_FILES: usize = 1 << 24;
/// Most names in a path: more than Linux can open (PATH_MAX).
const MOST_NAMES: usize = 4096;

/// The first name and parent that a lookup showed for each file.
#[derive(Default)]
pub struct Paths {
    handles: Names,
    parents: AHashMap<u32, (Arc<str>, u32)>,
}

impl Paths {
    /// Names of its tables.
    pub const TABLES: [&'static str; 1] = ["paths"];

    /// Adds the attributes of a reply.
    pub fn add(&mut self, row: &Attributes) -> Result<(), AnalysisError> {
        let (Some(handle), Some(name), Some(parent)) = (&row.handle, &row.name, &row.parent) else {
            return Ok(());
        };
        if self.handles.len() >= MOST_FILES {
            return Err(AnalysisError::Unsuitable(format!(
                "there are more than {MOST_FILES} files; read less of the capture with --since and --until"
            )));
        }
        let (handle, parent) = (self.handles.of(handle), self.handles.of(parent));
        self.parents
            .entry(handle)
            .or_insert_with(|| (Arc::clone(name), parent));
        Ok(())
    }

    /// The path of a file, from its topmost known parent.
    fn path(&mut self, handle: &str) -> String {
        let mut names = Vec::new();
        let mut at = self.handles.of(handle);
        // Moves of files during the capture may form a cycle.
        let mut seen = AHashSet::new();
        while let Some((name, parent)) = self.parents.get(&at) {
            if !seen.insert(at) || names.len() >= MOST_NAMES {
                break;
            }
            names.push(Arc::clone(name));
            at = *parent;
        }
        let mut path = format!("FH:{}", self.handles.get(at));
        for name in names.iter().rev() {
            path.push('/');
            path += name;
        }
        path
    }

    /// Table: paths of these handles, or of all handles with a name.
    pub fn sheet(&mut self, wanted: &[String]) -> Sheet {
        let headings = vec![Heading::text("fh"), Heading::text("path")];
        let caption = "each row is a file, and its path from the last known parent";
        let mut sheet = Sheet::new(Self::TABLES[0], caption, headings);
        let mut handles: Vec<Arc<str>> = wanted.iter().map(|handle| (**handle).into()).collect();
        if wanted.is_empty() {
            let mut known: Vec<_> = self.parents.keys().copied().collect();
            known.sort_unstable();
            handles.extend(known.into_iter().map(|handle| self.handles.get(handle)));
        }
        for handle in handles {
            let path = self.path(&handle);
            sheet
                .rows
                .push(vec![Datum::Text(handle), Datum::text(path)]);
        }
        sheet.verdict = Some(format!("{} files", grouped(sheet.rows.len() as u64)));
        sheet
    }
}
