//! A segment's description of itself, in its key-value metadata.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::Schema;
use parquet::file::metadata::KeyValue;
use trackiops_schemas::columns;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::checksum;
use crate::identity::{Identity, StoreId};
use crate::layout;

const WRITER: &str = env!("CARGO_PKG_VERSION");

/// A sealed journal, with the time range of its windows of the finest granularity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalSpan {
    /// Its number.
    pub number: u64,
    /// The number of its predecessor, if that one must be known.
    pub previous: Option<u64>,
    /// Start of its first window.
    pub start: UtcMs,
    /// End of its last window.
    pub end: UtcMs,
}

/// Describes the rows of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// Name of the dataset.
    pub(crate) dataset: &'static str,
    /// The granularity of its windows. `None` for single requests.
    pub(crate) granularity: Option<Granularity>,
    pub(crate) host: Arc<str>,
    /// The journals of its rows, ascending. Empty for single requests, whose journal is added at the end.
    pub(crate) journals: Vec<JournalSpan>,
    pub(crate) store: Identity,
}

impl Description {
    /// The metadata of a new segment with this path, with a placeholder for the checksum.
    pub(crate) fn metadata(&self, schema: &Schema, path: &Path) -> Vec<KeyValue> {
        let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let mut metadata = vec![
            pair(columns::META_FORMAT, columns::FORMAT_VERSION.to_string()),
            pair(columns::META_WRITER, WRITER.to_owned()),
            pair(columns::META_DATASET, self.dataset.to_owned()),
            pair(columns::META_HOST, self.host.to_string()),
            pair(columns::META_STORE, self.store.to_string()),
        ];
        metadata.extend(
            self.granularity
                .map(|g| pair(columns::META_GRANULARITY, g.to_string())),
        );
        if self.granularity.is_none() {
            metadata.push(pair(columns::META_NAME, name_of(path)));
        }
        if !self.journals.is_empty() {
            metadata.push(list_of(&self.journals));
        }
        let histogram = columns::histogram_metadata(schema);
        metadata.extend(histogram.map(|(key, mapping)| pair(key, mapping)));
        metadata.push(pair(columns::META_CRC32C, checksum::UNKNOWN.to_owned()));
        metadata
    }
}

/// The list of a segment's journals.
pub(super) fn list_of(journals: &[JournalSpan]) -> KeyValue {
    let journals: Vec<_> = journals.iter().map(encode).collect();
    KeyValue::new(columns::META_JOURNALS.to_owned(), journals.join(","))
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Checks that a segment of single requests was written with this path.
pub(crate) fn check_requests(metadata: Option<&Vec<KeyValue>>, path: &Path) -> Result<(), String> {
    if value(metadata, columns::META_DATASET) != Some(layout::REQUESTS_DIR) {
        return Err("it has no single requests".into());
    }
    match value(metadata, columns::META_NAME) {
        Some(name) if name == name_of(path) => Ok(()),
        Some(name) => Err(format!("it is the file {name:?}")),
        None => Err("it does not say which file it is".into()),
    }
}

/// The store that a segment was written in.
pub(crate) fn identity(metadata: Option<&Vec<KeyValue>>) -> Option<Identity> {
    value(metadata, columns::META_STORE)?.parse().ok()
}

/// Whether a segment is of a store with these ids.
pub(crate) fn is_of(metadata: Option<&Vec<KeyValue>>, ids: &[StoreId]) -> bool {
    identity(metadata).is_some_and(|of| ids.contains(&of.id))
}

fn encode(journal: &JournalSpan) -> String {
    let JournalSpan {
        number,
        previous,
        start,
        end,
    } = journal;
    let previous = previous.map_or_else(String::new, |previous| format!("<{previous}"));
    format!("{number}:{}..{}{previous}", start.0, end.0)
}

/// Parses a segment's list of journals. `None` if it is not an ascending list of journals.
pub(crate) fn journals(text: &str) -> Option<Vec<JournalSpan>> {
    let one = |text: &str| {
        let (number, span) = text.split_once(':')?;
        let (start, end) = span.split_once("..")?;
        let (end, previous) = match end.split_once('<') {
            Some((end, previous)) => (end, Some(previous.parse().ok()?)),
            None => (end, None),
        };
        Some(JournalSpan {
            number: number.parse().ok()?,
            previous,
            start: UtcMs(start.parse().ok()?),
            end: UtcMs(end.parse().ok()?),
        })
    };
    let one =
        |text| one(text).filter(|span| span.start.is_in_calendar() && span.end.is_in_calendar());
    let journals: Option<Vec<_>> = text.split(',').map(one).collect();
    journals.filter(|journals| journals.is_sorted_by(|a, b| a.number < b.number))
}

/// A value of a segment's metadata.
pub(crate) fn value<'m>(metadata: Option<&'m Vec<KeyValue>>, key: &str) -> Option<&'m str> {
    let pair = metadata?.iter().find(|pair| pair.key == key)?;
    pair.value.as_deref()
}

/// Checks that a segment has this version of the format. An error is the reason as text.
pub(crate) fn check_format(metadata: Option<&Vec<KeyValue>>) -> Result<(), String> {
    let version =
        value(metadata, columns::META_FORMAT).ok_or("it is no segment of this program")?;
    match version == columns::FORMAT_VERSION.to_string() {
        true => Ok(()),
        false => Err(format!(
            "it has format version {version}, this trackiops reads version {}",
            columns::FORMAT_VERSION
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_read_back_as_they_are_written() {
        let span = |number, previous, start, end| JournalSpan {
            number,
            previous,
            start: UtcMs(start),
            end: UtcMs(end),
        };
        let spans = [span(7, None, -1000, 2000), span(9, Some(8), 2000, 5000)];
        let text = spans.iter().map(encode).collect::<Vec<_>>().join(",");
        assert_eq!(text, "7:-1000..2000,9:2000..5000<8");
        assert_eq!(journals(&text).unwrap(), spans);
        let beyond = format!("7:{}..1", i64::MIN);
        for text in [
            &*beyond,
            "",
            "7",
            "7:1",
            "7:1..x",
            "9:1..2,7:2..3",
            "7:1..2,",
            "7:1..2<",
        ] {
            assert_eq!(journals(text), None, "{text}");
        }
    }
}
