//! Writes a picture in a format.

use std::borrow::Cow;
use std::io::{self, Write};

use plotters::prelude::*;
use plotters_backend::DrawingErrorKind;

use super::frame::{Drawn, Paper};
use super::raster::{Pixels, write_png};

/// A picture that can be drawn on any paper.
pub(super) trait Picture {
    fn draw<P: Paper>(&self, paper: P) -> Drawn<P::Backend>;
}

/// Format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// SVG.
    Svg,
    /// PNG.
    Png,
}

/// Draws a picture, and writes it. Fails if `out` or the drawing does.
pub(super) fn write_picture(
    picture: &impl Picture,
    format: PictureFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        PictureFormat::Svg => {
            let mut drawn = String::new();
            picture.draw(&mut drawn).map_err(io_error)?;
            out.write_all(themed(&drawn).as_bytes())
        }
        PictureFormat::Png => {
            let mut pixels = Pixels::default();
            picture.draw(&mut pixels).map_err(io_error)?;
            write_png(&pixels, out)
        }
    }
}

fn io_error(error: DrawingAreaErrorKind<io::Error>) -> io::Error {
    match error {
        DrawingAreaErrorKind::BackendError(DrawingErrorKind::DrawingError(error)) => error,
        error => io::Error::other(error.to_string()),
    }
}

/// A picture that follows the dark mode of its reader's screen. Rules of a style override the colours of elements.
fn themed(picture: &str) -> Cow<'_, str> {
    const STYLE: &str = "<style>@media (prefers-color-scheme: dark) {\
        rect[fill=\"#FFFFFF\"] { fill: #14181d }\
        text { fill: #c9d1d9 }\
        rect[fill=\"#E8EAED\"] { fill: #2b333d }\
        line[stroke=\"#000000\"], polyline[stroke=\"#000000\"] { stroke: #c9d1d9 }\
        }</style>";
    match picture.find('>') {
        Some(end) => Cow::Owned([&picture[..=end], STYLE, &picture[end + 1..]].concat()),
        None => Cow::Borrowed(picture),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_stands_first_in_a_picture() {
        assert!(themed("<svg a=\"b\">x").starts_with("<svg a=\"b\"><style>"));
    }
}
