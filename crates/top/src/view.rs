//! The figures of rows, and their layout in a line.

use trackiops_render::units;
use trackiops_schemas::unit::Unit;

use crate::table::{Tab, TableRow};

/// A number of each row.
pub struct Figure {
    /// Its column in an answer.
    pub column: &'static str,
    unit: Unit,
}

/// Figures that share a place in a line.
pub struct Cell {
    pub title: &'static str,
    /// Width on the screen, with room for the mark of an order.
    pub width: usize,
    /// Indices in [`View::figures`].
    pub figures: &'static [usize],
}

/// A set of figures.
pub struct View {
    /// The course shows the first figure.
    pub figures: &'static [Figure],
    pub cells: &'static [Cell],
    /// Index of the default figure to sort by.
    pub sort: usize,
    /// Whether the figures are of calls of applications.
    pub is_of_calls: bool,
    /// Whether rows are connections to servers.
    pub is_of_connections: bool,
    /// Figures to sum over all rows, each with a word for the sum.
    pub sums: &'static [(usize, &'static str)],
}

/// Which [`View`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// Requests.
    #[default]
    Wire,
    /// Calls of applications.
    Calls,
    /// Durations of calls, next to requests.
    Times,
    /// What TCP knows of connections, in place of operations.
    Connections,
}

const fn figure(column: &'static str, unit: Unit) -> Figure {
    Figure { column, unit }
}

const fn cell(title: &'static str, width: usize, figures: &'static [usize]) -> Cell {
    Cell {
        title,
        width,
        figures,
    }
}

/// Time lost beyond the usual.
const LOST: &str = "lost";

static WIRE: View = View {
    figures: &[
        figure("iops", Unit::PerSecond),
        figure("throughput", Unit::BytesPerSecond),
        figure("took", Unit::Microseconds),
        figure(LOST, Unit::Microseconds),
        figure("p99", Unit::Microseconds),
        figure("queue_share", Unit::Share),
        figure("rtt_share", Unit::Share),
        figure("completion_share", Unit::Share),
        figure("errors", Unit::Count),
    ],
    cells: &[
        cell("IOPS", 7, &[0]),
        cell("throughput", 11, &[1]),
        cell("took", 8, &[2]),
        cell(LOST, 8, &[3]),
        cell("p99", 8, &[4]),
        cell("q/n/c", 8, &[5, 6, 7]),
        cell("errors", 7, &[8]),
    ],
    sort: 2,
    is_of_calls: false,
    is_of_connections: false,
    sums: &[(0, " requests/s"), (1, "")],
};

static OPERATIONS: View = View {
    figures: &[
        figure("iops", Unit::PerSecond),
        figure("throughput", Unit::BytesPerSecond),
        figure("took", Unit::Microseconds),
        figure("p99", Unit::Microseconds),
        figure("queue_share", Unit::Share),
        figure("rtt_share", Unit::Share),
        figure("completion_share", Unit::Share),
        figure("errors", Unit::Count),
    ],
    cells: &[
        cell("IOPS", 7, &[0]),
        cell("throughput", 11, &[1]),
        cell("took", 8, &[2]),
        cell("p99", 8, &[3]),
        cell("q/n/c", 8, &[4, 5, 6]),
        cell("errors", 7, &[7]),
    ],
    sort: 2,
    is_of_calls: false,
    is_of_connections: false,
    sums: &[(0, " requests/s"), (1, "")],
};

static CALLS: View = View {
    figures: &[
        figure("app_iops", Unit::PerSecond),
        figure("app_throughput", Unit::BytesPerSecond),
        figure("throughput", Unit::BytesPerSecond),
        figure("app_read_hit_share", Unit::Share),
        figure("app_read_amplification", Unit::Ratio),
        figure("app_write_amplification", Unit::Ratio),
        figure("app_errors", Unit::Count),
    ],
    cells: &[
        cell("calls", 7, &[0]),
        cell("called for", 11, &[1]),
        cell("requested", 11, &[2]),
        cell("hit%", 5, &[3]),
        cell("amp r/w", 9, &[4, 5]),
        cell("errors", 7, &[6]),
    ],
    sort: 1,
    is_of_calls: true,
    is_of_connections: false,
    sums: &[(0, " calls/s"), (1, " called for"), (2, " requested")],
};

static TIMES: View = View {
    figures: &[
        figure("app_iops", Unit::PerSecond),
        figure("iops", Unit::PerSecond),
        figure("app_read_p99", Unit::Microseconds),
        figure("read_p99", Unit::Microseconds),
        figure("app_write_p99", Unit::Microseconds),
        figure("write_p99", Unit::Microseconds),
    ],
    cells: &[
        cell("calls", 7, &[0]),
        cell("requests", 9, &[1]),
        cell("read p99", 9, &[2]),
        cell("request", 8, &[3]),
        cell("wr. p99", 8, &[4]),
        cell("request", 8, &[5]),
    ],
    sort: 2,
    is_of_calls: true,
    is_of_connections: false,
    sums: &[(0, " calls/s"), (1, " requests/s")],
};

static CONNECTIONS: View = View {
    figures: &[
        figure("tcp_rtt", Unit::Microseconds),
        figure("tcp_rtt_min", Unit::Microseconds),
        figure("tcp_retrans", Unit::Count),
        figure("tcp_reconnects", Unit::Count),
        figure("tcp_receiver_limited_us", Unit::Microseconds),
    ],
    cells: &[
        cell("tcp-rtt", 8, &[0]),
        cell("tcp-rtt-min", 12, &[1]),
        cell("tcp-retrans", 12, &[2]),
        cell("reconnects", 11, &[3]),
        cell("limited", 8, &[4]),
    ],
    sort: 2,
    is_of_calls: false,
    is_of_connections: true,
    sums: &[(2, " retransmitted")],
};

impl Of {
    /// The next view of a tab.
    pub fn next(self, tab: Tab) -> Self {
        match (self, tab) {
            (Self::Connections, Tab::Operations) => Self::Wire,
            (_, Tab::Operations) => Self::Connections,
            (Self::Wire | Self::Connections, _) => Self::Calls,
            (Self::Calls, _) => Self::Times,
            (Self::Times, _) => Self::Wire,
        }
    }

    /// The figures of a tab. Operations have no calls and no lost time, and only they have connections.
    pub fn view(self, tab: Tab) -> &'static View {
        match (self, tab) {
            (Self::Connections, Tab::Operations) => &CONNECTIONS,
            (_, Tab::Operations) => &OPERATIONS,
            (Self::Wire | Self::Connections, _) => &WIRE,
            (Self::Calls, _) => &CALLS,
            (Self::Times, _) => &TIMES,
        }
    }
}

impl View {
    /// The columns of the figures, in the form of `query --columns`.
    pub fn names(&self) -> String {
        let names: Vec<_> = self.figures.iter().map(|figure| figure.column).collect();
        names.join(",")
    }

    /// Index of the cell that shows a figure.
    pub fn cell_of(&self, figure: usize) -> Option<usize> {
        let has = |cell: &Cell| cell.figures.contains(&figure);
        self.cells.iter().position(has)
    }

    /// Whether a figure is lost time.
    pub fn has_lost(&self) -> bool {
        self.figures.iter().any(|figure| figure.column == LOST)
    }
}

/// Latencies by decades: below 1 ms, 10 ms, 100 ms, and beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Band {
    Fast,
    Usual,
    Slow,
    Stuck,
}

impl Band {
    /// The band of a latency, us.
    pub fn of_us(us: f64) -> Self {
        match us {
            us if us < 1e3 => Self::Fast,
            us if us < 1e4 => Self::Usual,
            us if us < 1e5 => Self::Slow,
            _ => Self::Stuck,
        }
    }
}

impl Cell {
    /// The band of the slowest latency in this cell of a row.
    pub fn band(&self, view: &View, row: &TableRow) -> Option<Band> {
        let bands = self
            .figures
            .iter()
            .filter_map(|at| view.figures[*at].band(row.figures[*at]));
        bands.max()
    }

    /// The text of this cell for a row.
    pub fn show(&self, view: &View, row: &TableRow) -> String {
        let shown = |at: &usize| view.figures[*at].show(row.figures[*at]);
        // The parts of a whole are either all there, or none is.
        if self.figures.iter().all(|at| row.figures[*at].is_none()) {
            return "-".to_owned();
        }
        let shown: Vec<_> = self.figures.iter().map(shown).collect();
        shown.join("/")
    }
}

impl Figure {
    /// The band of a percentile; `None` if the figure is not a request's latency.
    fn band(&self, value: Option<f64>) -> Option<Band> {
        let is_latency = self.unit == Unit::Microseconds && self.column.ends_with("p99");
        value.filter(|_| is_latency).map(Band::of_us)
    }

    /// The text of a value, `-` for none.
    pub fn show(&self, value: Option<f64>) -> String {
        match (value, self.unit) {
            (None, _) => "-".to_owned(),
            (Some(0.0), Unit::Microseconds) => "0".to_owned(),
            (Some(share), Unit::Share) => format!("{:.0}", 100.0 * share),
            (Some(ratio), Unit::Ratio) if ratio < 99.95 => format!("{ratio:.1}"),
            (Some(ratio), Unit::Ratio) => format!("{ratio:.0}"),
            (Some(value), unit) => units::show(unit, value),
        }
    }
}
