//! The stored columns that an answer needs.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::FixedState;
use trackiops_schemas::columns::{
    APP_DIRECTIONS, CACHE, CGROUP, CONTAINER, DIRECTIONS, ERRNOS, FILE_OPS, LATENCY_HIST, MOUNT,
    PATH, PATH_INFERRED, UID, UNSPLIT, USER, rollup_schema,
};
use trackiops_schemas::shed::Detail;

/// A set of columns of the rollup dataset. Other columns read as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// One bit per column, in the order of the schema.
    columns: u128,
    only_transfers: bool,
    is_named: bool,
    has_single_requests: bool,
    has_lost: bool,
}

/// The figures that a table shows for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Figures {
    /// Requests, throughput and latency.
    #[default]
    Rates,
    /// Requests, and the parts of their latency.
    Parts,
}

/// Index of each column in the schema.
static PLACES: LazyLock<HashMap<String, u32, FixedState>> = LazyLock::new(|| {
    let schema = rollup_schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.zip(0..).collect()
});

/// The bits of each latency histogram; and of the largest latency of the same requests, and the number of timed calls.
static HISTOGRAMS: LazyLock<Vec<(u128, u128)>> = LazyLock::new(|| {
    let prefixes = DIRECTIONS.map(|direction| format!("{direction}_"));
    let prefixes = prefixes.iter().map(String::as_str).chain(APP_DIRECTIONS);
    let bits = |prefix: &str| {
        let names = [LATENCY_HIST, "latency_us_max", "timed"];
        let [histogram, largest, timed] = names.map(|name| bit(&format!("{prefix}{name}")));
        (histogram, largest | timed)
    };
    prefixes.map(bits).collect()
});

fn bit(column: &str) -> u128 {
    PLACES.get(column).map_or(0, |place| 1 << place)
}

/// The name of a column without `read_` or `write_`.
fn of_direction(column: &str) -> Option<&str> {
    let read = column.strip_prefix("read_");
    read.or_else(|| column.strip_prefix("write_"))
}

/// Whether it is a column of calls of applications.
fn is_of_calls(column: &str) -> bool {
    APP_DIRECTIONS
        .iter()
        .any(|prefix| column.starts_with(prefix))
}

/// Whether it is a column of the page cache.
fn is_of_cache(column: &str) -> bool {
    column.starts_with(CACHE)
}

impl Projection {
    /// These columns, and for each latency histogram the largest latency, which limits the percentiles, and the number of
    /// timed calls, because a histogram may lack some of them. Ignores unknown names.
    pub fn new<'n>(columns: impl IntoIterator<Item = &'n str>) -> Self {
        let mut all = columns.into_iter().map(bit).fold(0, |all, one| all | one);
        for (histogram, beside) in &*HISTOGRAMS {
            if all & histogram != 0 {
                all |= beside;
            }
        }
        Self {
            columns: all,
            ..Self::default()
        }
    }

    fn filter(is_needed: impl Fn(&str) -> bool) -> Self {
        Self::new(PLACES.keys().map(String::as_str).filter(|c| is_needed(c)))
    }

    /// All columns of all files, including those that were neither read nor written.
    pub fn all() -> Self {
        Self::filter(|_| true)
    }

    /// Bytes read and written.
    pub fn bytes() -> Self {
        Self::new(["read_bytes", "write_bytes"])
    }

    /// Columns for ranking files by default: the time that their requests took, or bytes if no latency is known.
    pub(crate) fn ranks() -> Self {
        Self::bytes().with(Self::new(["read_latency_us_sum", "write_latency_us_sum"]))
    }

    /// Names, requests, bytes and sums of latencies, for files that were read or written.
    pub fn totals() -> Self {
        let sums = ["requests", "bytes", "latency_us_sum"];
        let is_sum = |column: &str| of_direction(column).is_some_and(|plain| sums.contains(&plain));
        Self::filter(|column| matches!(column, MOUNT | PATH) || is_sum(column)).only_transfers(true)
    }

    /// These columns of read calls and of write calls.
    fn of_both_calls<const N: usize>(wanted: [&str; N]) -> Self {
        let of = |prefix: &str| wanted.map(|name| format!("{prefix}{name}"));
        let names: Vec<_> = APP_DIRECTIONS.into_iter().flat_map(of).collect();
        Self::new(names.iter().map(String::as_str))
    }

    /// Calls of applications and their bytes.
    pub fn calls() -> Self {
        Self::of_both_calls(["calls", "bytes", "direct_bytes"])
    }

    /// Times of calls: how many are known, their sums, maxima and histograms.
    pub fn call_times() -> Self {
        Self::of_both_calls(["timed", "latency_us_sum", "latency_us_max", LATENCY_HIST])
    }

    /// Sums of the times of calls.
    pub fn call_time_sums() -> Self {
        Self::of_both_calls(["latency_us_sum"])
    }

    /// Columns of a table, for files that were read or written.
    pub fn table(figures: Figures) -> Self {
        let seldom = [
            "latency_us_max",
            "short",
            "sequential",
            "retrans",
            "direct",
            "stable",
            ERRNOS,
        ];
        let others = match figures {
            Figures::Rates => [
                "queue_us_sum",
                "rtt_us_sum",
                "network_us_sum",
                "server_us_sum",
                UNSPLIT,
            ]
            .as_slice(),
            Figures::Parts => [LATENCY_HIST].as_slice(),
        };
        let is_shown = |column: &str| {
            let is_hidden = |plain| seldom.contains(&plain) || others.contains(&plain);
            !matches!(
                column,
                FILE_OPS | PATH_INFERRED | UID | USER | CGROUP | CONTAINER
            ) && !of_direction(column).is_some_and(is_hidden)
                && !is_of_calls(column)
                && !is_of_cache(column)
        };
        Self::filter(is_shown).only_transfers(true)
    }

    /// Adds the columns of another set.
    pub fn with(self, more: Self) -> Self {
        Self {
            columns: self.columns | more.columns,
            has_lost: self.has_lost || more.has_lost,
            ..self
        }
    }

    /// Whether to drop files that were neither read nor written, because their rows would be zeros. Adds the counts of
    /// requests. If counts of calls are among the columns, files with calls stay, too.
    pub fn only_transfers(self, only_transfers: bool) -> Self {
        let requests = DIRECTIONS.map(|direction| format!("{direction}_requests"));
        let requests = match only_transfers {
            true => Self::new(requests.iter().map(String::as_str)),
            false => Self::default(),
        };
        Self {
            only_transfers,
            ..self.with(requests)
        }
    }

    /// Whether to drop files that were neither read nor written.
    pub(crate) fn is_of_transfers(self) -> bool {
        self.only_transfers
    }

    /// Whether calls of applications are among the columns.
    pub(crate) fn is_of_calls(self) -> bool {
        self.columns & Self::calls().columns != 0
    }

    /// Whether the page cache is among the columns.
    pub(crate) fn has_cache(self) -> bool {
        self.columns & Self::filter(is_of_cache).columns != 0
    }

    /// Whether some of these columns are unknown while this detail is shed.
    pub(crate) fn depends_on(self, detail: Detail) -> bool {
        match detail {
            Detail::SingleCalls | Detail::CallTimes | Detail::Calls => self.is_of_calls(),
            Detail::PageCache => self.has_cache(),
            Detail::LatencyParts => self.includes("read_queue_us_sum"),
            Detail::FileOperations => self.includes(FILE_OPS),
        }
    }

    /// Marks that the question is also about single requests.
    pub fn and_single_requests(self) -> Self {
        Self {
            has_single_requests: true,
            ..self
        }
    }

    /// Whether the question is also about single requests.
    pub(crate) fn has_single_requests(self) -> bool {
        self.has_single_requests
    }

    /// Marks that lost time is among the columns. It is not stored.
    pub(crate) fn and_lost(self) -> Self {
        Self {
            has_lost: true,
            ..self
        }
    }

    /// Whether lost time is among the columns.
    pub(crate) fn has_lost(self) -> bool {
        self.has_lost
    }

    /// Marks that the user named these columns, so that missing ones deserve a note.
    pub fn named(self) -> Self {
        Self {
            is_named: true,
            ..self
        }
    }

    /// Whether the user named columns of application calls.
    pub(crate) fn names_calls(self) -> bool {
        self.is_of_calls() && self.is_named
    }

    /// Whether the user named percentiles of calls whose columns have this prefix, one of [`APP_DIRECTIONS`].
    pub(crate) fn names_percentiles_of_calls(self, prefix: &str) -> bool {
        self.is_named && self.includes(&format!("{prefix}{LATENCY_HIST}"))
    }

    pub(crate) fn includes(self, column: &str) -> bool {
        self.columns & bit(column) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_column_has_a_bit_of_its_own() {
        assert!(PLACES.len() <= u128::BITS as usize);
        let all = Projection::all();
        assert_eq!(all.columns.count_ones() as usize, PLACES.len());
        let one = Projection::new(["path"]);
        assert!(one.includes("path") && !one.includes("mount") && !one.includes("colour"));
        assert!(one.only_transfers(true).includes("write_requests"));
        // Percentiles come from the same histogram, whatever else is shown.
        let histogram = Projection::new(["read_latency_hist"]);
        assert!(histogram.includes("read_latency_us_max"));
        assert!(!histogram.includes("write_latency_us_max"));
    }
}
