//! Draws a picture as pixels. Shapes and texts are polygons, and a pixel takes as much of a colour as a polygon covers of it.

mod outlines;
mod pixels;
mod png;

use std::f64::consts::TAU;
use std::io;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use self::outlines::Outlines;
pub(super) use self::pixels::Pixels;
use self::pixels::Point;
pub(super) use self::png::write_png;
use super::frame::Paper;

/// Pixels for one of an SVG: screens and slides are finer.
const SCALE: u32 = 2;
/// Height of a picture, pixels of an SVG. This one takes 115 MB.
const MOST_HEIGHT: u32 = 8000;
/// Corners of a circle.
const CORNERS: u32 = 24;
/// The size of a font relative to its em, as the SVG backend has it.
const SIZE_OF_EM: f64 = 1.24;
/// The baseline below the top and below the middle of a text, em: the `dy` of an SVG.
const BELOW_TOP: f64 = 0.76;
const BELOW_MIDDLE: f64 = 0.26;

/// Draws on pixels.
pub(super) struct Raster<'p> {
    pixels: &'p mut Pixels,
    size: (u32, u32),
    outlines: Outlines,
}

/// A PNG.
impl<'p> Paper for &'p mut Pixels {
    type Backend = Raster<'p>;

    fn cut(self, (width, height): (u32, u32)) -> Self::Backend {
        // A higher picture is refused before anything is drawn.
        if height <= MOST_HEIGHT {
            self.clear(SCALE * width, SCALE * height);
        }
        Raster {
            pixels: self,
            size: (width, height),
            outlines: Outlines::roboto(),
        }
    }
}

type Painted = Result<(), DrawingErrorKind<io::Error>>;

/// A place in pixels.
fn point((x, y): BackendCoord) -> Point {
    let scale = f64::from(SCALE);
    (f64::from(x) * scale, f64::from(y) * scale)
}

fn corners_of_rectangle(from: BackendCoord, to: BackendCoord) -> Vec<Point> {
    let ((left, top), (right, bottom)) = (point(from), point(to));
    vec![(left, top), (right, top), (right, bottom), (left, bottom)]
}

impl Raster<'_> {
    fn fill(&mut self, corners: Vec<Point>, colour: BackendColor) {
        if colour.alpha > 0.0 {
            self.pixels.fill(&[corners], colour);
        }
    }

    /// Draws a line along some points.
    fn stroke<S: BackendStyle>(&mut self, points: &[Point], style: &S) {
        let half = f64::from(style.stroke_width() * SCALE) / 2.0;
        // Where a line bends, its parts overlap.
        let beyond = if points.len() > 2 { half } else { 0.0 };
        for pair in points.windows(2) {
            let [(x, y), (to_x, to_y)] = [pair[0], pair[1]];
            let length = (to_x - x).hypot(to_y - y);
            if length > 0.0 {
                let (dx, dy) = ((to_x - x) / length, (to_y - y) / length);
                let (x, y) = (x - beyond * dx, y - beyond * dy);
                let (to_x, to_y) = (to_x + beyond * dx, to_y + beyond * dy);
                let (across, down) = (-half * dy, half * dx);
                let corners = vec![
                    (x + across, y + down),
                    (to_x + across, to_y + down),
                    (to_x - across, to_y - down),
                    (x - across, y - down),
                ];
                self.fill(corners, style.color());
            }
        }
    }

    /// Draws a shape, or the line around it.
    fn shape<S: BackendStyle>(&mut self, corners: Vec<Point>, style: &S, is_filled: bool) {
        if is_filled {
            self.fill(corners, style.color());
        } else {
            let closed: Vec<_> = corners.iter().chain(corners.first()).copied().collect();
            self.stroke(&closed, style);
        }
    }
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = io::Error;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Painted {
        let (_, height) = self.size;
        if height <= MOST_HEIGHT {
            return Ok(());
        }
        let [high, most] = [height, MOST_HEIGHT].map(|pixels| pixels.saturating_mul(SCALE));
        let why = format!(
            "the picture would be {high} pixels high, and a PNG is at most {most}: draw fewer columns, or write an SVG"
        );
        Err(DrawingErrorKind::DrawingError(io::Error::other(why)))
    }

    fn present(&mut self) -> Painted {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Painted {
        self.fill(corners_of_rectangle((x, y), (x + 1, y + 1)), colour);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Painted {
        self.stroke(&[point(from), point(to)], style);
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Painted {
        self.shape(corners_of_rectangle(upper_left, bottom_right), style, fill);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Painted {
        let points: Vec<_> = path.into_iter().map(point).collect();
        self.stroke(&points, style);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Painted {
        let (x, y) = point(center);
        let radius = f64::from(radius * SCALE);
        let corner = |number: u32| {
            let angle = TAU * f64::from(number) / f64::from(CORNERS);
            (x + radius * angle.cos(), y + radius * angle.sin())
        };
        self.shape((0..CORNERS).map(corner).collect(), style, fill);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        vert: I,
        style: &S,
    ) -> Painted {
        let corners = vert.into_iter().map(point).collect();
        self.fill(corners, style.color());
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        pos: BackendCoord,
    ) -> Painted {
        let em = style.size() / SIZE_OF_EM * f64::from(SCALE);
        let width: f64 = self.outlines.of(text).map(|of| em * of.advance).sum();
        let (x, y) = point(pos);
        let mut left = match style.anchor().h_pos {
            HPos::Left => x,
            HPos::Center => x - width / 2.0,
            HPos::Right => x - width,
        };
        let baseline = match style.anchor().v_pos {
            VPos::Top => y + em * BELOW_TOP,
            VPos::Center => y + em * BELOW_MIDDLE,
            VPos::Bottom => y - em * BELOW_MIDDLE,
        };
        for outline in self.outlines.of(text) {
            let place = |(x, y): &Point| (left + em * x, baseline - em * y);
            let contours = outline.contours.iter();
            let contours: Vec<Vec<Point>> = contours
                .map(|contour| contour.iter().map(place).collect())
                .collect();
            self.pixels.fill(&contours, style.color());
            left += em * outline.advance;
        }
        Ok(())
    }
}
