//! Pixels, and how polygons cover them.

use plotters_backend::BackendColor;

/// A point: pixels from the left and from the top.
pub type Point = (f64, f64);

/// Lines within a row of pixels on which coverage is measured.
const SUBROWS: u32 = 4;

/// A picture.
#[derive(Debug, Default)]
pub struct Pixels {
    width: u32,
    height: u32,
    /// Red, green and blue of each pixel, row by row.
    rgb: Vec<u8>,
}

impl Pixels {
    /// Makes it as large, and white.
    pub fn clear(&mut self, width: u32, height: u32) {
        (self.width, self.height) = (width, height);
        self.rgb = vec![255; 3 * width as usize * height as usize];
    }

    /// Width and height.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Red, green and blue of the pixels of each row.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.rgb.chunks_exact(3 * self.width.max(1) as usize)
    }

    /// Fills a polygon of several contours. A contour that goes round the other way is a hole.
    pub fn fill(&mut self, contours: &[Vec<Point>], colour: BackendColor) {
        let points = || contours.iter().flatten();
        let (left, right) = bounds(points().map(|(x, _)| *x), self.width);
        let (top, bottom) = bounds(points().map(|(_, y)| *y), self.height);
        let edges: Vec<_> = contours.iter().flat_map(|contour| edges(contour)).collect();
        let mut covered = vec![0.0; right.saturating_sub(left)];
        for row in top..bottom {
            covered.fill(0.0);
            for subrow in 0..SUBROWS {
                let at = row as f64 + (f64::from(subrow) + 0.5) / f64::from(SUBROWS);
                for (start, end) in inside(&edges, at) {
                    cover(&mut covered, start - left as f64, end - left as f64);
                }
            }
            for (column, part) in covered.iter().enumerate() {
                let part = part / f64::from(SUBROWS);
                if part > 0.0 {
                    self.blend(left + column, row, part, colour);
                }
            }
        }
    }

    /// Mixes a part of a colour into a pixel.
    fn blend(&mut self, column: usize, row: usize, part: f64, colour: BackendColor) {
        let alpha = (part * colour.alpha).clamp(0.0, 1.0);
        let (red, green, blue) = colour.rgb;
        let at = 3 * (row * self.width as usize + column);
        let Some(pixel) = self.rgb.get_mut(at..at + 3) else {
            return;
        };
        for (value, added) in pixel.iter_mut().zip([red, green, blue]) {
            let mixed = f64::from(*value) * (1.0 - alpha) + f64::from(added) * alpha;
            *value = mixed.round() as u8;
        }
    }
}

/// The rows or columns in which there may be something, within a picture.
fn bounds(values: impl Iterator<Item = f64> + Clone, most: u32) -> (usize, usize) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let largest = values.fold(f64::NEG_INFINITY, f64::max);
    let within = |value: f64| value.clamp(0.0, f64::from(most)) as usize;
    (within(least.floor()), within(largest.ceil()))
}

/// The sides of a contour, the last one included.
fn edges(contour: &[Point]) -> impl Iterator<Item = [Point; 2]> {
    let next = contour.iter().cycle().skip(1);
    contour.iter().zip(next).map(|(a, b)| [*a, *b])
}

/// Where a horizontal line is inside of the polygon with these sides.
fn inside(edges: &[[Point; 2]], at: f64) -> Vec<Point> {
    let crossing = |[(x, y), (to_x, to_y)]: &[Point; 2]| {
        let is_crossed = (*y <= at) != (*to_y <= at);
        let way = if to_y > y { 1 } else { -1 };
        is_crossed.then(|| (x + (at - y) * (to_x - x) / (to_y - y), way))
    };
    let mut crossings: Vec<(f64, i32)> = edges.iter().filter_map(crossing).collect();
    crossings.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut winding = 0;
    let between = |pair: &[(f64, i32)]| {
        let [(start, way), (end, _)] = *pair else {
            return None;
        };
        winding += way;
        (winding != 0).then_some((start, end))
    };
    crossings.windows(2).filter_map(between).collect()
}

/// Adds the part of each pixel of a row that lies between two places.
fn cover(covered: &mut [f64], start: f64, end: f64) {
    let (start, end) = (start.max(0.0), end.min(covered.len() as f64));
    let first = start as usize;
    let pixels = covered.iter_mut().enumerate().skip(first);
    for (column, part) in pixels.take_while(|(column, _)| (*column as f64) < end) {
        let column = column as f64;
        *part += ((column + 1.0).min(end) - column.max(start)).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: BackendColor = BackendColor {
        alpha: 1.0,
        rgb: (0, 0, 0),
    };

    /// The grey of each pixel after a polygon was filled.
    fn filled(contours: &[Vec<Point>], colour: BackendColor) -> Vec<Vec<u8>> {
        let mut pixels = Pixels::default();
        pixels.clear(4, 3);
        pixels.fill(contours, colour);
        let greys = |row: &[u8]| row.chunks_exact(3).map(|pixel| pixel[0]).collect();
        pixels.rows().map(greys).collect()
    }

    fn square(from: f64, to: f64) -> Vec<Point> {
        vec![(from, from), (to, from), (to, to), (from, to)]
    }

    #[test]
    fn a_polygon_covers_pixels_in_part_and_ends_at_the_picture() {
        let rows = filled(&[square(1.0, 2.5)], BLACK);
        assert_eq!(
            rows,
            [
                [255, 255, 255, 255],
                [255, 0, 128, 255],
                [255, 128, 191, 255]
            ]
        );
        let beyond = filled(&[square(-9.0, 1e9)], BLACK);
        assert_eq!(beyond, [[0; 4]; 3]);
        assert_eq!(filled(&[square(50.0, 60.0)], BLACK), [[255; 4]; 3]);
        assert_eq!(filled(&[], BLACK), [[255; 4]; 3]);
    }

    #[test]
    fn the_other_way_round_is_a_hole_and_colours_mix() {
        let hole = square(1.0, 2.0).into_iter().rev().collect();
        let grey = BackendColor {
            alpha: 0.5,
            ..BLACK
        };
        let rows = filled(&[square(0.0, 3.0), hole], grey);
        assert_eq!(rows[0], [128, 128, 128, 255]);
        assert_eq!(rows[1], [128, 255, 128, 255]);
    }
}
