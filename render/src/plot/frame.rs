//! Common parts of all charts: sizes and errors.

use plotters::prelude::*;

/// Pixels.
pub(super) const WIDTH: u32 = 1200;
pub(super) const LINE_HEIGHT: u32 = 20;
pub(super) const MARGIN: u32 = 12;
/// Room beside the charts for the numbers of the axis.
pub(super) const AXIS_WIDTH: u32 = 90;

pub(super) const FONT: &str = "sans-serif";
pub(super) const TEXT_SIZE: u32 = 13;

pub(super) type Drawn<'s> =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'s> as DrawingBackend>::ErrorType>>;
pub(super) type Area<'s> = DrawingArea<SVGBackend<'s>, plotters::coord::Shift>;
