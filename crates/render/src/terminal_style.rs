//! Capabilities of a terminal: width, characters, and drawings with them.

use std::borrow::Cow;

use crate::visible::{tail, width};
use trackiops_query::times::Zone;

/// Width of a bar, cells.
pub(super) const BAR_WIDTH: usize = 8;
/// An unknown value in a sparkline.
const UNKNOWN: char = '?';
/// Largest width of a sparkline, cells.
pub(super) const SPARKLINE_WIDTH: usize = 60;

/// Eighths of a cell, from the left.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// Eighths of a cell, from below.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Substitutes for these heights on an ASCII terminal.
const ASCII_HEIGHTS: [char; 8] = ['_', '.', ',', '-', '=', '+', '*', '#'];

/// The target of text output. Nothing is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Cells per line; `None` means no limit.
    pub width: Option<usize>,
    /// Whether only ASCII characters are available.
    pub ascii: bool,
    /// Whether it is a terminal. Then tables have bars and sparklines, and all formats escape hidden characters.
    pub is_terminal: bool,
}

/// How text output looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// Time zone of times.
    pub zone: Zone,
    /// The target.
    pub look: Look,
    /// The column that rows are sorted by. Tables show it, and bars show its values instead of the default ones.
    pub sorted_by: Option<String>,
}

impl From<Zone> for Style {
    fn from(zone: Zone) -> Self {
        Self {
            zone,
            look: Look::default(),
            sorted_by: None,
        }
    }
}

impl Look {
    /// A bar for a share of the largest value, from 0 to 1. Every share above 0 is visible.
    pub(super) fn bar(self, part: f64) -> String {
        self.bar_within(part, BAR_WIDTH)
    }

    /// Like [`Self::bar`]; a share of 1 has `most` cells.
    pub(super) fn bar_within(self, part: f64, most: usize) -> String {
        if part.is_nan() || part <= 0.0 {
            return String::new();
        }
        let eighths = ((part.min(1.0) * (8 * most) as f64).round() as usize).max(1);
        match self.ascii {
            true => "#".repeat(eighths.div_ceil(8)),
            false => {
                let mut bar = EIGHTHS[7].to_string().repeat(eighths / 8);
                bar.extend((!eighths.is_multiple_of(8)).then(|| EIGHTHS[eighths % 8 - 1]));
                bar
            }
        }
    }

    /// A cell that is filled from below by `eighths` of it; 0 is blank, more than 8 are all of it.
    pub(super) fn filled(self, eighths: usize) -> char {
        let heights = match self.ascii {
            true => ASCII_HEIGHTS,
            false => HEIGHTS,
        };
        match eighths {
            0 => ' ',
            eighths => heights[eighths.min(8) - 1],
        }
    }

    /// A sparkline of at most `most` cells. A cell shows one value, or the largest of several neighbours; 0 is blank, and NaN,
    /// an unknown value, is a question mark.
    pub fn sparkline(self, values: &[f64], most: usize) -> String {
        let neighbours = values.len().div_ceil(most.clamp(1, SPARKLINE_WIDTH)).max(1);
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let most = largest(values);
        let height = |value: f64| match value {
            value if value > 0.0 => self.filled(((value / most * 8.0).ceil() as usize).max(1)),
            _ => ' ',
        };
        let cell = |values: &[f64]| match values.iter().all(|value| value.is_nan()) {
            true => UNKNOWN,
            false => height(largest(values)),
        };
        values.chunks(neighbours).map(cell).collect()
    }

    /// Truncates a visible text on the left, because names differ at their ends. The result has at most `most` cells.
    pub fn cut(self, text: &str, most: usize) -> Cow<'_, str> {
        if width(text) <= most {
            return text.into();
        }
        let mark = match self.ascii {
            true if most > 3 => "...",
            true => "",
            false if most > 0 => "…",
            false => "",
        };
        format!("{mark}{}", tail(text, most - mark.chars().count())).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNICODE: Look = Look {
        width: Some(40),
        ascii: false,
        is_terminal: true,
    };
    const ASCII: Look = Look {
        ascii: true,
        ..UNICODE
    };

    #[test]
    fn bars_are_as_long_as_their_part() {
        assert_eq!(UNICODE.bar(1.0), "████████");
        assert_eq!(UNICODE.bar(0.5), "████");
        assert_eq!(UNICODE.bar(0.33), "██▋");
        assert_eq!(UNICODE.bar(1e-9), "▏");
        assert_eq!([UNICODE.bar(0.0), UNICODE.bar(f64::NAN)], ["", ""]);
        assert_eq!([ASCII.bar(0.5), ASCII.bar(0.01)], ["####", "#"]);
    }

    #[test]
    fn a_sparkline_shows_the_peaks() {
        assert_eq!(UNICODE.sparkline(&[0.0, 1.0, 4.0, 8.0], 9), " ▁▄█");
        assert_eq!(ASCII.sparkline(&[0.0, 1.0, 4.0, 8.0], 9), " _-#");
        assert_eq!(UNICODE.sparkline(&[f64::NAN, 0.0, 1.0], 9), "? █");
        assert_eq!(
            UNICODE.sparkline(&[f64::NAN, f64::NAN, f64::NAN, 1.0], 2),
            "?█"
        );
        let mut many = vec![1.0; 600];
        many[305] = 8.0;
        let line = UNICODE.sparkline(&many, 1000);
        assert_eq!(line.chars().count(), SPARKLINE_WIDTH);
        assert_eq!(line.chars().position(|c| c == '█'), Some(30));
        assert_eq!(UNICODE.sparkline(&many, 7).chars().count(), 7);
    }

    #[test]
    fn a_cut_text_keeps_its_end() {
        assert_eq!(UNICODE.cut("/mnt/home/db/orders.db", 12), "…b/orders.db");
        assert_eq!(ASCII.cut("/mnt/home/db/orders.db", 12), "...orders.db");
        assert_eq!(ASCII.cut("/mnt/é", 6), "/mnt/é");
        assert_eq!(UNICODE.cut("/データ", 6), "…ータ");
        assert_eq!(UNICODE.cut("/データ", 7), "/データ");
        assert_eq!([UNICODE.cut("/a", 0), UNICODE.cut("/a", 1)], ["", "…"]);
        assert_eq!([ASCII.cut("/abc", 0), ASCII.cut("/abc", 3)], ["", "abc"]);
    }
}
