//! Counts and bytes over any axes, with all partial sums: the host cube of the paper (Tables 1 and 2, Figures 3 and 4).

mod axes;
mod kind;
mod rates;

use ahash::AHashMap;
use trackiops_schemas::unit::{Unit, grouped};

pub use axes::{Axis, Events, unified};
pub use kind::Kind;
pub use rates::{Rates, RatesSettings};

use crate::sheet::{ANY as ANY_TEXT, Datum, Heading, Row, Sheet};

/// Most axes of a cube.
pub const MOST_AXES: usize = 6;
/// The value of an axis that the row sums over.
pub const ANY: u32 = u32::MAX;

/// Values of the axes; unused places at the end are 0.
pub type Key = [u32; MOST_AXES];

/// A sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Messages, packets or requests.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Cell {
    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Selects the partial sums, and rows of them.
#[derive(Clone, Debug, Default)]
pub struct Pruning {
    /// Axes that only the full sums name.
    pub only_whole: Vec<Axis>,
    /// Axes that are named only in full sums, or alone (with or without time).
    pub alone: Vec<Axis>,
    /// Least bytes of a row.
    pub min_bytes: u64,
}

impl Pruning {
    /// Whether there are rows that name exactly these axes.
    pub fn has(&self, axes: &[Axis], is_named: impl Fn(usize) -> bool) -> bool {
        let is_whole = (0..axes.len()).all(&is_named);
        is_whole || self.has_partial(axes, is_named)
    }

    /// Like [`Self::has`], for rows that need not name all axes.
    pub fn has_partial(&self, axes: &[Axis], is_named: impl Fn(usize) -> bool) -> bool {
        let named: Vec<_> = axes
            .iter()
            .enumerate()
            .filter(|(place, _)| is_named(*place))
            .map(|(_, axis)| *axis)
            .collect();
        let alone = |axis: &Axis| {
            let mut others = named.iter().filter(|other| *other != axis);
            others.all(|other| *other == Axis::Time)
        };
        let mut named = named.iter();
        named.all(|axis| {
            !self.only_whole.contains(axis) && (!self.alone.contains(axis) || alone(axis))
        })
    }
}

/// The cube: sums by all axes. Partial sums are computed at the end.
#[derive(Clone, Debug)]
pub struct Cube {
    axes: Vec<Axis>,
    cells: AHashMap<Key, Cell>,
}

impl Cube {
    /// Names of its tables.
    pub const TABLES: [&'static str; 2] = ["cube", "counts"];

    /// An empty cube with these axes.
    pub fn new(axes: Vec<Axis>) -> Self {
        Self {
            axes,
            cells: AHashMap::new(),
        }
    }

    /// Adds to a cell.
    #[inline]
    pub fn add(&mut self, key: Key, cell: Cell) {
        self.cells.entry(key).or_default().add(cell);
    }

    /// Sums by the named axes; other axes have the value [`ANY`].
    fn partial(&self, is_named: impl Fn(usize) -> bool) -> AHashMap<Key, Cell> {
        partial(self.axes.len(), &self.cells, is_named)
    }

    /// Tables: the rows that pruning keeps, and the number of keys.
    pub fn sheets(&self, events: &Events, pruning: &Pruning) -> [Sheet; 2] {
        let width = self.axes.len();
        let mut headings: Vec<_> = self.axes.iter().map(|axis| axis.heading()).collect();
        headings.extend([
            Heading::count("count", Unit::Count),
            Heading::count("bytes", Unit::Bytes),
            Heading::figure("mean_bytes", Unit::None),
        ]);
        let caption = "each row is a sum over those with its values; * is any";
        let mut sheet = Sheet::new(Self::TABLES[0], caption, headings);
        let mut all = Cell::default();
        self.cells.values().for_each(|cell| all.add(*cell));
        sheet.verdict = Some(format!(
            "{} {}, {} bytes",
            grouped(all.count),
            events.kind().plural(),
            grouped(all.bytes)
        ));
        let mut keys = 0;
        let mut values = vec![0_usize; width];
        for mask in 0..1_usize << width {
            let is_named = |place: usize| mask >> (width - 1 - place) & 1 == 0;
            if !pruning.has(&self.axes, is_named) {
                continue;
            }
            let cells = self.partial(is_named);
            keys += cells.len();
            let named: Vec<_> = (0..width).filter(|place| is_named(*place)).collect();
            if let [only] = named[..] {
                values[only] = cells.len();
            }
            let mut rows: Vec<_> = cells.into_iter().collect();
            rows.retain(|(_, cell)| cell.bytes >= pruning.min_bytes);
            rows.sort_unstable_by_key(|(key, _)| *key);
            let rows = rows
                .into_iter()
                .map(|(key, cell)| row(events, &self.axes, &key, cell));
            sheet.rows.extend(rows);
        }
        let mut counts = Sheet::of_counts(
            Self::TABLES[1],
            "keys, and values of each axis",
            [("keys", keys as f64)],
        );
        let values = self.axes.iter().enumerate().map(|(place, axis)| {
            let count = self.values(place);
            vec![
                Datum::text(format!("values of {}", axis.name())),
                Datum::Figure(count as f64),
            ]
        });
        counts.rows.extend(values);
        [sheet, counts]
    }

    /// Number of values of an axis.
    fn values(&self, place: usize) -> usize {
        self.partial(|other| other == place).len()
    }
}

fn row(events: &Events, axes: &[Axis], key: &Key, cell: Cell) -> Row {
    let mut row = axis_values(events, axes, key);
    row.extend([
        Datum::Count(cell.count),
        Datum::Count(cell.bytes),
        Datum::some_figure((cell.count > 0).then(|| cell.bytes as f64 / cell.count as f64)),
    ]);
    row
}

/// Values of a key's axes.
fn axis_values(events: &Events, axes: &[Axis], key: &Key) -> Row {
    let values = axes.iter().zip(key);
    let datum = |(axis, value): (&Axis, &u32)| match *value {
        ANY => Datum::text(ANY_TEXT),
        value => events.datum(*axis, value),
    };
    values.map(datum).collect()
}

/// Sums by the named axes; other axes have the value [`ANY`].
fn partial(
    width: usize,
    cells: &AHashMap<Key, Cell>,
    is_named: impl Fn(usize) -> bool,
) -> AHashMap<Key, Cell> {
    let mut sums: AHashMap<Key, Cell> = AHashMap::new();
    for (key, cell) in cells {
        let mut key = *key;
        for (place, value) in key.iter_mut().enumerate().take(width) {
            if !is_named(place) {
                *value = ANY;
            }
        }
        sums.entry(key).or_default().add(*cell);
    }
    sums
}
