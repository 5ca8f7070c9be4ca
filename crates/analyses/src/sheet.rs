//! Tables with any columns, which become tables of reports.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use trackiops_query::columns::{Column, Value};
use trackiops_query::{Answer, Columns, GroupBy, Step};
use trackiops_reports::report::{About, Table};
use trackiops_schemas::unit::Unit;

/// Significant digits of a figure in tables for people.
const DIGITS: i32 = 6;
/// A smaller absolute value is a rounding error of a sum.
const ROUNDING: f64 = 1e-12;
/// Stands for all values of an axis together.
pub const ANY: &str = "*";
/// Names of the columns that name the measured quantity.
const MEASURES: [&str; 2] = ["rate", "what"];
/// Smaller powers of ten use scientific notation.
const LEAST_SIZE: i32 = -4;

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Unknown.
    Unknown,
    /// A name.
    Text(Arc<str>),
    /// A whole number.
    Count(u64),
    /// A whole number that may be negative.
    Int(i64),
    /// The number of a file on its server.
    Fileid(u64),
    /// A number.
    Figure(f64),
    /// A point in time, us since the epoch.
    TimeUs(i64),
    /// Numbers.
    Figures(Vec<f64>),
}

impl Datum {
    /// A name.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// A number, if known.
    pub fn some_figure(figure: Option<f64>) -> Self {
        figure.map_or(Self::Unknown, Self::Figure)
    }

    /// A point in time, ns since the epoch.
    pub fn time_ns(ns: i64) -> Self {
        Self::TimeUs(ns.div_euclid(1000))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Unknown => Value::Null,
            Self::Text(text) => Value::text(&**text),
            Self::Count(count) => Value::Count(*count),
            Self::Int(int) => Value::Int(*int),
            Self::Fileid(fileid) => Value::Fileid(*fileid),
            Self::Figure(figure) if !figure.is_finite() => Value::Null,
            Self::Figure(figure) if figure.abs() < ROUNDING => Value::Figure(0.0),
            Self::Figure(figure) => Value::Figure(*figure),
            Self::TimeUs(us) => Value::TimeUs(*us),
            Self::Figures(figures) => {
                let figures = figures.iter();
                Value::List(figures.map(|figure| vec![Value::Figure(*figure)]).collect())
            }
        }
    }
}

/// A column.
#[derive(Clone, Debug)]
pub struct Heading {
    /// Its name.
    pub name: String,
    data_type: DataType,
    unit: Unit,
    is_shown: bool,
    /// Its title in tables for people, if it differs.
    title: Option<&'static str>,
}

impl Heading {
    fn new(name: impl Into<String>, data_type: DataType, unit: Unit) -> Self {
        Self {
            name: name.into(),
            data_type,
            unit,
            is_shown: true,
            title: None,
        }
    }

    /// A column of names.
    pub fn text(name: impl Into<String>) -> Self {
        Self::new(name, DataType::Utf8, Unit::None)
    }

    /// A column of whole numbers.
    pub fn count(name: impl Into<String>, unit: Unit) -> Self {
        Self::new(name, DataType::Int64, unit)
    }

    /// A column of numbers.
    pub fn figure(name: impl Into<String>, unit: Unit) -> Self {
        Self::new(name, DataType::Float64, unit)
    }

    /// A column of points in time.
    pub fn time(name: impl Into<String>) -> Self {
        Self::new(name, trackiops_schemas::columns::time_type(), Unit::None)
    }

    /// A column of lists, only for programs.
    pub fn list(name: impl Into<String>, item: DataType) -> Self {
        let item = Arc::new(Field::new("item", item, true));
        Self::new(name, DataType::List(item), Unit::None).hidden()
    }

    /// The same column with another title for people.
    pub fn titled(self, title: &'static str) -> Self {
        Self {
            title: Some(title),
            ..self
        }
    }

    /// The same column, only for programs.
    pub fn hidden(self) -> Self {
        Self {
            is_shown: false,
            ..self
        }
    }
}

/// A row: a value for each heading.
pub type Row = Vec<Datum>;

/// A named table.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The word that selects it.
    pub name: &'static str,
    /// Meaning of a row.
    pub caption: String,
    /// Its columns.
    pub headings: Vec<Heading>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// The result in one sentence.
    pub verdict: Option<String>,
}

/// The name of a duration; `None` if the heading has another unit.
fn length(heading: &Heading, seconds: f64) -> Option<String> {
    let name = heading.name.strip_suffix("_s")?;
    Some(format!("{name} {seconds} s"))
}

/// A curve: the measured quantity, a name, and the points of a distribution.
pub type NamedCurve = (String, String, Vec<(f64, f64)>);

impl Sheet {
    /// An empty table.
    pub fn new(name: &'static str, caption: impl Into<String>, headings: Vec<Heading>) -> Self {
        Self {
            name,
            caption: caption.into(),
            headings,
            rows: Vec::new(),
            verdict: None,
        }
    }

    /// A table of named numbers.
    pub fn of_counts(
        name: &'static str,
        caption: impl Into<String>,
        counts: impl IntoIterator<Item = (&'static str, f64)>,
    ) -> Self {
        let headings = vec![Heading::text("what"), Heading::figure("value", Unit::None)];
        let counts = counts.into_iter();
        Self {
            rows: counts
                .map(|(what, value)| vec![Datum::text(what), Datum::Figure(value)])
                .collect(),
            ..Self::new(name, caption, headings)
        }
    }

    /// The distributions in its rows: measured quantity, name, and the share of values up to each value. Empty if its rows are not
    /// distributions.
    pub fn curves(&self) -> Vec<NamedCurve> {
        let Some([min, quantiles, max]) = ["min", "quantiles", "max"]
            .map(|name| self.place(name))
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .and_then(|places| <[usize; 3]>::try_from(places).ok())
        else {
            return Vec::new();
        };
        let curve = |row: &Row| {
            let [measure, name] = self.subject(row);
            let (Datum::Figure(min), Datum::Figures(quantiles), Datum::Figure(max)) =
                (row.get(min)?, row.get(quantiles)?, row.get(max)?)
            else {
                return None;
            };
            let parts = (quantiles.len() + 1) as f64;
            let between = quantiles.iter().enumerate();
            let between = between.map(|(place, value)| (*value, (place + 1) as f64 / parts));
            let points = [(*min, 0.0)]
                .into_iter()
                .chain(between)
                .chain([(*max, 1.0)]);
            Some((measure, name, points.collect()))
        };
        self.rows.iter().filter_map(curve).collect()
    }

    /// The measured quantity of a row and its subject: the names before the number of values, and durations.
    fn subject(&self, row: &Row) -> [String; 2] {
        let before = self.place("n").unwrap_or(row.len());
        let about = self.headings.iter().zip(row).take(before);
        let (mut measure, mut parts) = (String::new(), Vec::new());
        for (heading, datum) in about {
            match datum {
                Datum::Text(text) if MEASURES.contains(&&*heading.name) => {
                    measure = text.to_string();
                }
                Datum::Text(text) if &**text != ANY => parts.push(text.to_string()),
                Datum::Figure(seconds) => parts.extend(length(heading, *seconds)),
                Datum::Count(seconds) => parts.extend(length(heading, *seconds as f64)),
                _ => {}
            }
        }
        match parts.is_empty() {
            true => [measure, "all".to_owned()],
            false => [measure, parts.join(" ")],
        }
    }

    /// The result in one sentence: from the analysis, or else the distribution with the most values.
    pub fn verdict(&self) -> Option<String> {
        let of_most = || self.distribution_verdict("");
        self.verdict.clone().or_else(of_most)
    }

    /// The distribution with the most values in one sentence; `None` if its rows are not distributions.
    pub fn distribution_verdict(&self, unit: &str) -> Option<String> {
        let n = self.place("n")?;
        let count = |row: &&Row| match row.get(n) {
            Some(Datum::Count(count)) => *count,
            _ => 0,
        };
        // Ties go to the first row.
        let row = self.rows.iter().rev().max_by_key(count)?;
        let [half, most, max] = ["p50", "p99", "max"].map(|name| self.figure(row, name));
        Some(format!(
            "{}: half are at most {}{unit}, 99 % at most {}{unit}, the largest is {}{unit}",
            names(row),
            few_digits(half?),
            few_digits(most?),
            few_digits(max?),
        ))
    }

    /// The number of a row in a column.
    pub fn figure(&self, row: &Row, column: &str) -> Option<f64> {
        match row.get(self.place(column)?)? {
            Datum::Figure(figure) => Some(*figure),
            _ => None,
        }
    }

    fn place(&self, column: &str) -> Option<usize> {
        let mut headings = self.headings.iter();
        headings.position(|heading| heading.name == column)
    }

    /// Converts it into a table of a report. For people, figures have few digits, and empty columns are omitted.
    pub fn into_table(self, about: &About) -> Table<Row> {
        let columns = self.headings.iter().enumerate();
        let all = columns
            .clone()
            .map(|(place, heading)| column(place, heading));
        let is_known = |place: usize| {
            let mut values = self.rows.iter().filter_map(|row| row.get(place));
            values.any(|datum| *datum != Datum::Unknown)
        };
        let shown = columns.filter(|(place, heading)| heading.is_shown && is_known(*place));
        let shown = shown.map(|(place, heading)| shown_column(place, heading));
        Table {
            name: self.name,
            caption: self.caption,
            columns: Columns::new(all.collect()),
            shown: Columns::new(shown.collect()),
            answer: Answer {
                rows: self.rows,
                step: Step::All,
                by: GroupBy::default(),
                range: about.range,
                notes: about.notes.clone(),
                recorded: Default::default(),
            },
        }
    }
}

/// The names in a row, or `all` if it sums over all names.
pub fn names(row: &Row) -> String {
    let names = row.iter().filter_map(Datum::name);
    let names: Vec<_> = names.filter(|name| *name != ANY).collect();
    match names.is_empty() {
        true => "all".to_owned(),
        false => names.join(" "),
    }
}

fn column(place: usize, heading: &Heading) -> Column<Row> {
    let (name, data_type) = (heading.name.clone(), heading.data_type.clone());
    Column::new(name, data_type, heading.unit, move |row: &Row| {
        row.get(place).map_or(Value::Null, Datum::value)
    })
}

/// Like [`column`]; but figures have few digits, unless their unit has a format.
fn shown_column(place: usize, heading: &Heading) -> Column<Row> {
    if heading.unit != Unit::None || heading.data_type != DataType::Float64 {
        return column(place, heading);
    }
    let name = heading.title.unwrap_or(&heading.name);
    Column::new(
        name,
        DataType::Utf8,
        Unit::None,
        move |row: &Row| match row.get(place) {
            Some(Datum::Figure(figure)) if figure.is_finite() => Value::text(few_digits(*figure)),
            _ => Value::Null,
        },
    )
}

/// A number with [`DIGITS`] significant digits, or with its whole part. A table would cut a long number's end, which may be its exponent.
pub fn few_digits(figure: f64) -> String {
    let size = match figure.abs() {
        size if size < ROUNDING => return "0".to_owned(),
        size => size.log10().floor() as i32,
    };
    if size < LEAST_SIZE {
        let text = format!("{figure:.*e}", DIGITS.unsigned_abs() as usize - 1);
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        return format!("{digits}e{exponent}");
    }
    let decimals = (DIGITS - 1 - size).clamp(0, 12);
    let text = format!("{figure:.*}", decimals.unsigned_abs() as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_of_the_row_with_the_most_values() {
        let mut headings = vec![Heading::text("op"), Heading::count("n", Unit::Count)];
        headings.extend(["p50", "p99", "max"].map(|name| Heading::figure(name, Unit::None)));
        let mut sheet = Sheet::new("latencies", "", headings);
        assert_eq!(sheet.verdict(), None);
        let row = |op, n, figures: [f64; 3]| {
            let mut row = vec![Datum::text(op), Datum::Count(n)];
            row.extend(figures.map(Datum::Figure));
            row
        };
        sheet.rows = vec![row("READ", 2, [1.0; 3]), row(ANY, 3, [1.5, 2.0, 1.0 / 3.0])];
        let verdict = "all: half are at most 1.5 ms, 99 % at most 2 ms, the largest is 0.333333 ms";
        assert_eq!(sheet.distribution_verdict(" ms").as_deref(), Some(verdict));
        sheet.verdict = Some("nothing took long".to_owned());
        assert_eq!(sheet.verdict(), sheet.verdict);
    }

    #[test]
    fn people_see_few_digits_of_a_figure() {
        for (figure, text) in [
            (0.0, "0"),
            (f64::EPSILON / 2.0, "0"),
            (86_776.602_263, "86776.6"),
            (26_567_314.03, "26567314"),
            (-0.000_045_161_8, "-4.51618e-5"),
            (0.000_123, "0.000123"),
            (16_384.0, "16384"),
        ] {
            assert_eq!(few_digits(figure), text);
        }
    }
}
