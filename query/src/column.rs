//! What a column is: a name, a type, a unit, and how to read its value from a row; and how columns are found by name.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

mod value;

use crate::near_words::slips;
pub use trackiops_schemas::unit::Unit;
pub(crate) use value::share;
pub use value::{Value, decimal_text, per_second};

/// Largest relative error of percentiles: 2^(1/64) - 1 (schema 5). A percentile is the geometric middle of a histogram's bucket.
pub const PERCENTILE_ERROR: f64 = 0.011;
/// The same for calls of at least 512 ns: 1/16, half of the kernel's widest bucket, on top of [`PERCENTILE_ERROR`].
pub const CALL_PERCENTILE_ERROR: f64 = 0.075;
/// Key of a field's metadata in Parquet and Arrow. Its value is [`Estimate::error`]; only estimates have it.
pub const META_ERROR: &str = "relative_error";
/// Suffixes of percentile columns, and their quantiles.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// Name of lost time, without a direction.
pub(crate) const LOST: &str = "lost_us";

/// Most suggestions for an unknown name.
const MAX_NEAR: usize = 3;

/// What a percentile is estimated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// Latencies of requests.
    OfRequests,
    /// Times of calls, which the kernel counts in wider buckets.
    OfCalls,
    /// Either, depending on the row.
    OfBoth,
}

impl Estimate {
    /// Its largest relative error.
    pub fn error(self) -> f64 {
        match self {
            Self::OfRequests => PERCENTILE_ERROR,
            Self::OfCalls | Self::OfBoth => CALL_PERCENTILE_ERROR,
        }
    }
}

/// Reads the value from a row.
pub(crate) type Get<R> = Arc<dyn for<'r> Fn(&'r R) -> Value<'r> + Send + Sync>;

/// A column of rows `R`.
pub struct Column<R> {
    /// Name in every format.
    pub name: String,
    /// Type in Parquet and Arrow.
    pub data_type: DataType,
    /// Unit of its numbers.
    pub unit: Unit,
    /// What it is estimated from, if it is an estimate.
    pub estimate: Option<Estimate>,
    /// Whether answers have it without `--columns`.
    pub is_usual: bool,
    /// Further metadata of its field in Parquet and Arrow.
    pub(crate) metadata: HashMap<String, String>,
    /// Stored columns that it needs.
    pub(crate) needs: Vec<String>,
    pub(crate) get: Get<R>,
    /// Reads the value that tables show, if it is another one.
    pub(crate) get_shown: Option<Get<R>>,
}

impl<R> Clone for Column<R> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            data_type: self.data_type.clone(),
            metadata: self.metadata.clone(),
            needs: self.needs.clone(),
            get: Arc::clone(&self.get),
            get_shown: self.get_shown.clone(),
            ..*self
        }
    }
}

impl<R> std::fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl<R> Column<R> {
    /// A default column. It is not an estimate, and needs the stored column of the same name.
    pub fn new(
        name: impl Into<String>,
        data_type: DataType,
        unit: Unit,
        get: impl for<'r> Fn(&'r R) -> Value<'r> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        Self {
            needs: vec![name.clone()],
            name,
            data_type,
            unit,
            metadata: HashMap::new(),
            estimate: None,
            is_usual: true,
            get: Arc::new(get),
            get_shown: None,
        }
    }

    /// As [`Self::new`], for a column that segments have.
    pub(crate) fn stored(
        field: &Field,
        get: impl for<'r> Fn(&'r R) -> Value<'r> + Send + Sync + 'static,
    ) -> Self {
        let (data_type, unit) = (field.data_type().clone(), Unit::in_metadata(field));
        Self {
            metadata: field.metadata().clone().into(),
            ..Self::new(field.name(), data_type, unit, get)
        }
    }

    /// A column of texts.
    pub fn text(
        name: &str,
        get: impl for<'r> Fn(&'r R) -> Value<'r> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, DataType::Utf8, Unit::None, get)
    }

    /// A column of whole numbers.
    pub fn count(
        name: &str,
        unit: Unit,
        get: impl for<'r> Fn(&'r R) -> Value<'r> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, DataType::Int64, unit, get)
    }

    /// A column of points in time.
    pub fn time(
        name: &str,
        get: impl for<'r> Fn(&'r R) -> Value<'r> + Send + Sync + 'static,
    ) -> Self {
        Self::new(
            name,
            trackiops_schemas::columns::time_type(),
            Unit::None,
            get,
        )
    }

    /// The same column, but answers have it only on request.
    pub fn only_if_asked(self) -> Self {
        Self {
            is_usual: false,
            ..self
        }
    }

    /// The same column, but tables show these values.
    pub(crate) fn shown_as(
        self,
        get: impl for<'r> Fn(&'r R) -> Value<'r> + Send + Sync + 'static,
    ) -> Self {
        Self {
            get_shown: Some(Arc::new(get)),
            ..self
        }
    }

    /// The value in a row.
    pub fn value<'r>(&self, row: &'r R) -> Value<'r> {
        (self.get)(row)
    }

    /// The value that tables show in a row.
    pub fn shown<'r>(&self, row: &'r R) -> Value<'r> {
        let get = self.get_shown.as_ref().unwrap_or(&self.get);
        get(row)
    }

    /// Whether its values are numbers with an order.
    pub fn is_number(&self) -> bool {
        self.data_type.is_numeric() && self.unit != Unit::None
    }

    /// Whether its values are lists.
    pub fn is_list(&self) -> bool {
        matches!(self.data_type, DataType::List(_))
    }

    /// Further names that `--columns`, `--sort` and `--where` accept.
    pub fn short_names(&self) -> Vec<String> {
        short_names(&self.name)
    }

    /// Name in tables.
    pub fn shown_name(&self) -> String {
        let short = self.short_names().into_iter().next();
        let name = short.unwrap_or_else(|| self.name.clone());
        match self.unit {
            // Tables choose a suitable unit for times.
            Unit::Microseconds => name.replacen("_us", "", 1),
            Unit::Milliseconds => name.replacen("_ms", "", 1),
            _ => name,
        }
    }

    /// Whether it has this name, other than its own: a short one, or the one in tables.
    fn is_also(&self, name: &str) -> bool {
        self.short_names().iter().any(|short| short == name) || self.shown_name() == name
    }

    fn field(&self) -> Field {
        let mut metadata = self.metadata.clone();
        if let Some(estimate) = self.estimate {
            metadata.insert(META_ERROR.to_owned(), estimate.error().to_string());
        }
        let field = Field::new(&self.name, self.data_type.clone(), true);
        self.unit.of(field.with_metadata(metadata))
    }
}

/// `read_p99` for `read_latency_us_p99`, `took` for `latency_us_sum`, `lost` for `lost_us`, `read_queue` for `read_queue_us_mean`, `read_p99.9`.
fn short_names(name: &str) -> Vec<String> {
    let mut names = Vec::new();
    let sum = ["latency_us_sum", "execute_us_sum"];
    let of_sum = sum.into_iter().find_map(|sum| name.strip_suffix(sum));
    names.extend(of_sum.map(|side| format!("{side}took")));
    let of_lost = name.strip_suffix(LOST);
    names.extend(of_lost.map(|side| format!("{side}lost")));
    let plain = name
        .replacen("latency_us_", "", 1)
        .replacen("execute_us_", "", 1);
    names.push(plain.clone());
    names.push(plain.replace("p999", "p99.9"));
    if let Some(mean) = name
        .strip_suffix("_us_mean")
        .filter(|mean| *mean != "execute")
    {
        names.push(mean.to_owned());
    }
    // These are names in tables of operations.
    names.push(name.replace("_bytes_mean", "/op"));
    names.push(name.replace("requests_share", "share"));
    names.push(name.replacen("_us_", "_", 1));
    names.dedup();
    names.retain(|short| short != name);
    names
}

/// A name in the form of columns; tables write `r-p99`.
fn normal(text: &str) -> String {
    let text = text.trim().to_lowercase().replace('-', "_");
    match (text.strip_prefix("r_"), text.strip_prefix("w_")) {
        (Some(rest), _) => format!("read_{rest}"),
        (_, Some(rest)) => format!("write_{rest}"),
        _ => text,
    }
}

/// A column is unknown or unsuitable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// No column has this name.
    #[error("there is no column `{name}`{near}; `--columns help` lists all")]
    Unknown {
        /// The name.
        name: String,
        /// Suggestion of similar names, or nothing.
        near: String,
    },
    /// The list names a column twice.
    #[error("the column `{0}` is named twice; name it once")]
    Twice(String),
    /// The values have no order.
    #[error("the column `{0}` is no number: rows are compared and sorted by numbers")]
    NoNumber(String),
}

/// A kind of row that has columns.
pub trait Record: Sized + Sync + 'static {
    /// All columns, in order.
    fn columns() -> Vec<Column<Self>>;
}

/// Columns of an answer, in order.
#[derive(Debug)]
pub struct Columns<R>(Vec<Column<R>>);

impl<R> Clone for Columns<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Record> Columns<R> {
    /// The default columns.
    pub fn usual() -> Self {
        let mut columns = R::columns();
        columns.retain(|column| column.is_usual);
        Self(columns)
    }

    /// Parses a list with commas; names may be long or short.
    ///
    /// Errors: [`ColumnError::Unknown`] and [`ColumnError::Twice`].
    pub fn parse(list: &str) -> Result<Self, ColumnError> {
        let all = R::columns();
        let mut chosen: Vec<Column<R>> = Vec::new();
        for name in list.split(',') {
            let column = find(&all, name)?;
            if chosen.iter().any(|other| other.name == column.name) {
                return Err(ColumnError::Twice(column.name.clone()));
            }
            chosen.push(column.clone());
        }
        Ok(Self(chosen))
    }

    /// Finds a column of numbers.
    ///
    /// Errors: [`ColumnError::Unknown`] and [`ColumnError::NoNumber`].
    pub fn number(name: &str) -> Result<Column<R>, ColumnError> {
        let all = R::columns();
        let column = find(&all, name)?;
        match column.is_number() {
            true => Ok(column.clone()),
            false => Err(ColumnError::NoNumber(column.name.clone())),
        }
    }
}

impl<R: 'static> Columns<R> {
    /// These columns.
    pub fn new(columns: Vec<Column<R>>) -> Self {
        Self(columns)
    }

    /// Drops columns by name.
    pub fn without(mut self, is_left_out: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|column| !is_left_out(&column.name));
        self
    }

    /// Drops columns of lists.
    pub fn scalars(mut self) -> Self {
        self.0.retain(|column| !column.is_list());
        self
    }

    /// Applies a function to every text value, except texts in lists, which JSON escapes.
    pub fn map_texts(&self, change: fn(&str) -> String) -> Self {
        let of = |column: &Column<R>| {
            let get = Arc::clone(&column.get);
            Column {
                get: Arc::new(move |row| match get(row) {
                    Value::Text(text) => Value::text(change(&text)),
                    other => other,
                }),
                ..column.clone()
            }
        };
        Self(self.iter().map(of).collect())
    }

    /// The columns of numbers.
    pub fn numbers(&self) -> Self {
        Self(self.iter().filter(|c| c.is_number()).cloned().collect())
    }

    /// Iterates in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Column<R>> {
        self.0.iter()
    }

    /// Schema in Parquet and Arrow.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<_> = self.iter().map(Column::field).collect();
        Arc::new(Schema::new(fields))
    }
}

/// Finds a column by its name, a short one, or the one in tables.
fn find<'c, R>(all: &'c [Column<R>], name: &str) -> Result<&'c Column<R>, ColumnError> {
    let wanted = normal(name);
    let exact = all.iter().find(|column| column.name == wanted);
    let other = || all.iter().find(|column| column.is_also(&wanted));
    exact.or_else(other).ok_or_else(|| ColumnError::Unknown {
        name: name.trim().to_owned(),
        near: near(all, &wanted),
    })
}

/// `: did you mean a or b?`, or nothing.
fn near<R>(all: &[Column<R>], wanted: &str) -> String {
    let mut near: Vec<_> = all
        .iter()
        .filter_map(|column| {
            let names = [&[column.name.clone()][..], &column.short_names()].concat();
            let slips = names
                .into_iter()
                .filter_map(|name| Some((slips(wanted, &name)?, name)));
            slips.min_by_key(|(distance, _)| *distance)
        })
        .collect();
    near.sort();
    near.truncate(MAX_NEAR);
    let names: Vec<_> = near.into_iter().map(|(_, name)| name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(": did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::AnswerRow;
    use crate::files::FileActivity;
    use crate::operations::OperationAnswer;
    use crate::volume::Volume;
    use trackiops_schemas::ebpf::app_sums::{
        APP_LATENCY_BUCKETS, APP_LATENCY_FIRST_OCTAVE, app_latency_bounds,
    };
    use trackiops_store::MountSeen;

    fn found(name: &str) -> String {
        find(&AnswerRow::columns(), name).unwrap().name.clone()
    }

    #[test]
    fn columns_have_short_names() {
        for (short, name) in [
            ("read_p99", "read_latency_us_p99"),
            ("r-p99", "read_latency_us_p99"),
            ("read_latency_us_p99", "read_latency_us_p99"),
            ("w-p99.9", "write_latency_us_p999"),
            ("READ_MEAN", "read_latency_us_mean"),
            ("write_max", "write_latency_us_max"),
            ("read_queue", "read_queue_us_mean"),
            ("read_network", "read_network_us_mean"),
            ("r-server", "read_server_us_mean"),
            ("read_rtt", "read_rtt_us_mean"),
            ("read_queue_sum", "read_queue_us_sum"),
            ("p99", "latency_us_p99"),
            ("lost", "lost_us"),
            ("r-lost", "read_lost_us"),
            (" bytes ", "bytes"),
        ] {
            assert_eq!(found(short), name);
        }
        let operations = Columns::<OperationAnswer>::number;
        for (short, name) in [
            ("p99", "execute_us_p99"),
            ("network", "network_us_mean"),
            ("rtt", "rtt_us_mean"),
            ("tcp-rtt", "tcp_rtt_us_mean"),
            ("tcp-receiver-limited", "tcp_receiver_limited_us"),
        ] {
            assert_eq!(operations(short).unwrap().name, name);
        }
        assert!(operations("tcp-network").is_err());
    }

    #[test]
    fn tables_name_no_unit_but_that_of_their_values() {
        for (name, shown) in [
            ("read_latency_us_p99", "read_p99"),
            ("read_queue_us_sum", "read_queue_sum"),
            ("read_lost_us", "read_lost"),
            ("read_bytes", "read_bytes"),
        ] {
            let column = Columns::<AnswerRow>::number(name).unwrap();
            assert_eq!(column.shown_name(), shown);
        }
        let mean = Columns::<OperationAnswer>::number("mean").unwrap();
        assert_eq!(mean.name, "execute_us_mean");
        assert!(Columns::<OperationAnswer>::number("execute").is_err());
    }

    #[test]
    fn an_unknown_column_is_told_with_names_like_it() {
        let error = Columns::<AnswerRow>::parse("time,read_p9").unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("`read_p9`") && said.contains("read_p99"),
            "{said}"
        );
        let error = Columns::<AnswerRow>::parse("colour")
            .unwrap_err()
            .to_string();
        assert!(error.contains("`--columns help`"), "{error}");
        assert_eq!(
            Columns::<AnswerRow>::parse("read_p99,r-p99").unwrap_err(),
            ColumnError::Twice("read_latency_us_p99".into())
        );
        assert!(Columns::<AnswerRow>::number("path").is_err());
        assert!(Columns::<AnswerRow>::number("file_key").is_err());
    }

    #[test]
    fn no_name_means_two_columns_and_short_ones_hide_none() {
        fn check<R: Record>() {
            let all = R::columns();
            for column in &all {
                let found = find(&all, &column.name).unwrap();
                assert_eq!(found.name, column.name);
                assert_eq!(
                    all.iter().filter(|other| other.name == column.name).count(),
                    1
                );
                let shown = [column.shown_name()];
                for short in column.short_names().into_iter().chain(shown) {
                    let exact = all.iter().any(|other| other.name == short);
                    let found = find(&all, &short).unwrap();
                    assert!(
                        exact || found.name == column.name,
                        "{short}: {}",
                        found.name
                    );
                }
            }
        }
        check::<AnswerRow>();
        check::<OperationAnswer>();
        check::<FileActivity>();
        check::<MountSeen>();
        check::<Volume>();
    }

    #[test]
    fn the_bound_is_that_of_the_histogram() {
        let exact = 2_f64.powf(1.0 / 64.0) - 1.0;
        assert!(exact <= PERCENTILE_ERROR && PERCENTILE_ERROR < exact * 1.02);
    }

    #[test]
    fn the_bound_of_calls_is_that_of_the_kernels_buckets() {
        let mut largest = 0.0_f64;
        for bucket in 0..APP_LATENCY_BUCKETS {
            let (first, last) = app_latency_bounds(bucket);
            if first >= 1 << APP_LATENCY_FIRST_OCTAVE {
                let middle = (first + last) as f64 / 2.0;
                largest = largest.max(middle / first as f64 - 1.0);
                largest = largest.max(1.0 - middle / last as f64);
            }
        }
        let exact = (1.0 + largest) * 2_f64.powf(1.0 / 64.0) - 1.0;
        assert!(exact <= CALL_PERCENTILE_ERROR && CALL_PERCENTILE_ERROR < exact * 1.02);
    }
}
