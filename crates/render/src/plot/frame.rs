//! Common parts of all charts: sizes, errors, and what pictures are drawn on.

use plotters::coord::Shift;
use plotters::prelude::*;

/// Pixels.
pub(super) const WIDTH: u32 = 1200;
pub(super) const LINE_HEIGHT: u32 = 20;
pub(super) const MARGIN: u32 = 12;
/// Room beside the charts for the numbers of the axis.
pub(super) const AXIS_WIDTH: u32 = 90;

pub(super) const FONT: &str = "sans-serif";
pub(super) const TEXT_SIZE: u32 = 13;

pub(super) type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;
pub(super) type Area<DB> = DrawingArea<DB, Shift>;

/// What a picture is drawn on, once its size is known.
pub(super) trait Paper {
    type Backend: DrawingBackend;

    /// Begins a picture of this width and height.
    fn cut(self, size: (u32, u32)) -> Self::Backend;
}

/// An SVG.
impl<'s> Paper for &'s mut String {
    type Backend = SVGBackend<'s>;

    fn cut(self, size: (u32, u32)) -> Self::Backend {
        SVGBackend::with_string(self, size)
    }
}
