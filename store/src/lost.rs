//! Segments that counted but cannot be read. A rebuilt catalog still lists them, so that queries and `store check` keep
//! reporting missing data.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use trackiops_schemas::time::{Granularity, UtcMs};

use crate::catalog::{Catalog, CatalogView, Restored, SegmentEntry};
use crate::error::StoreError;
use crate::file_index::FileIndex;
use crate::layout::{self, Dataset};
use crate::segment::metadata::JournalSpan;

/// The host and the time of each journal.
pub(crate) type Journals = HashMap<u64, (String, JournalSpan)>;

/// The key that a segment shares with another one of the same rows.
pub(crate) type Kind = (Dataset, Granularity, String, Option<(UtcMs, UtcMs)>);

/// An unreadable segment, as far as it is known.
pub(crate) struct Lost {
    host: String,
    journals: Vec<JournalSpan>,
    entry: SegmentEntry,
}

impl Lost {
    /// Path relative to the store.
    pub(crate) fn path(&self) -> &str {
        &self.entry.path
    }

    pub(crate) fn last_journal(&self) -> u64 {
        self.entry.journals.1
    }

    /// A damaged segment that no catalog describes, as far as its name describes it. `None` if the name is not the name
    /// of a segment.
    pub(crate) fn named(store: &Path, relative: &str, known: &Journals) -> Option<Self> {
        let (dataset, granularity, last) = layout::parse_segment(relative)?;
        let path = store.join(relative);
        let (day_start, day_end) = layout::date_of(&path)?;
        let name = layout::parse_name(&path)?;
        let numbers = name.first..=last;
        let journals = known.iter().filter(|(number, _)| numbers.contains(number));
        let mut journals: Vec<_> = journals.map(|(_, journal)| journal.clone()).collect();
        journals.sort_by_key(|(_, span)| span.number);
        let end = journals.iter().map(|(_, span)| span.end).max();
        let start = name.start.clamp(day_start, day_end);
        let end = end.unwrap_or(day_end).clamp(
            start.plus(granularity),
            day_end.max(start.plus(granularity)),
        );
        let host = journals.first().map_or(name.host, |(host, _)| host.clone());
        let mut spans: Vec<_> = journals.into_iter().map(|(_, span)| span).collect();
        if spans.is_empty() {
            let spans_of = |number| JournalSpan {
                number,
                previous: None,
                start,
                end,
            };
            spans = BTreeSet::from([name.first, last])
                .into_iter()
                .map(spans_of)
                .collect();
        }
        Some(Self {
            host,
            journals: spans,
            entry: SegmentEntry {
                dataset,
                granularity,
                journals: (name.first, last),
                start,
                end,
                rows: 1,
                bytes: path.symlink_metadata().map_or(0, |file| file.len()),
                crc32c: 0,
                path: relative.to_owned(),
                files: FileIndex::unknown(1),
            },
        })
    }

    /// A segment of another dataset that must have existed beside one with these journals.
    pub(crate) fn beside(
        entry: &SegmentEntry,
        host: &str,
        journals: &[JournalSpan],
        dataset: Dataset,
    ) -> Self {
        let name = entry.path.split_once('/').map_or("", |(_, name)| name);
        Self {
            host: host.to_owned(),
            journals: journals.to_vec(),
            entry: SegmentEntry {
                dataset,
                granularity: entry.granularity,
                journals: entry.journals,
                start: entry.start,
                end: entry.end,
                rows: 1,
                bytes: 0,
                crc32c: 0,
                path: format!("{}/{name}", dataset.name()),
                files: FileIndex::unknown(1),
            },
        }
    }

    /// Its first and its last journal.
    pub(crate) fn journals(&self) -> (u64, u64) {
        self.entry.journals
    }

    pub(crate) fn kind(&self, store: &Path) -> Kind {
        let SegmentEntry {
            dataset,
            granularity,
            path,
            ..
        } = &self.entry;
        (
            *dataset,
            *granularity,
            self.host.clone(),
            layout::date_of(&store.join(path)),
        )
    }
}

/// The segments that a catalog lists.
pub(crate) fn listed(catalog: &CatalogView, store: &Path) -> Result<Vec<Lost>, StoreError> {
    let journals = catalog.journals()?;
    let mut listed = Vec::new();
    for dataset in Dataset::ALL {
        for segment in catalog.segments(dataset, None)? {
            let numbers = segment.journal..=segment.last_journal;
            let own = journals
                .iter()
                .filter(|(host, span)| *host == segment.host && numbers.contains(&span.number));
            let path = segment.path.strip_prefix(store).unwrap_or(&segment.path);
            listed.push(Lost {
                journals: own.map(|(_, span)| *span).collect(),
                entry: SegmentEntry {
                    dataset,
                    granularity: segment.granularity,
                    journals: (segment.journal, segment.last_journal),
                    start: segment.start,
                    end: segment.end,
                    rows: segment.rows,
                    bytes: segment.bytes,
                    crc32c: segment.crc32c,
                    path: path.to_string_lossy().into_owned(),
                    files: segment.files.unpack(),
                },
                host: segment.host,
            });
        }
    }
    Ok(listed)
}

/// The journals whose rows are in readable segments.
#[derive(Default)]
pub(crate) struct Readable(BTreeMap<Kind, HashSet<u64>>);

impl Readable {
    pub(crate) fn add(&mut self, kind: Kind, journals: impl Iterator<Item = u64>) {
        self.0.entry(kind).or_default().extend(journals);
    }

    /// Whether other segments have all rows of a segment: its merged segment, or the inputs of its merge.
    pub(crate) fn has(&self, lost: &Lost, store: &Path) -> bool {
        let (first, last) = lost.entry.journals;
        let mut numbers = lost
            .journals
            .iter()
            .map(|journal| journal.number)
            .chain([first, last]);
        let readable = self.0.get(&lost.kind(store));
        readable.is_some_and(|readable| numbers.all(|number| readable.contains(&number)))
    }
}

/// Enters these segments in a catalog. `old` has the names of their files.
pub(crate) fn keep(
    catalog: &mut Catalog,
    lost: &[Lost],
    old: Option<&CatalogView>,
) -> Result<(), StoreError> {
    for Lost {
        host,
        journals,
        entry,
    } in lost
    {
        catalog.restore(&Restored {
            host,
            segment: entry,
            journals,
            files: &[],
        })?;
    }
    let keys: HashSet<_> = lost
        .iter()
        .flat_map(|lost| lost.entry.files.keys())
        .collect();
    match old {
        Some(old) if !keys.is_empty() => catalog.restore_names(old, &keys),
        _ => Ok(()),
    }
}
