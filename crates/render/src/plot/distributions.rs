//! Draws cumulative distributions as SVG or PNG.

use std::collections::HashSet;
use std::io::{self, Write};

use plotters::prelude::*;

use super::axes::Axis;
use super::frame::{AXIS_WIDTH, Area, Drawn, FONT, LINE_HEIGHT, MARGIN, Paper, TEXT_SIZE, WIDTH};
use super::picture::{Picture, PictureFormat, write_picture};
use super::{CHART_HEIGHT, COLOURS, NAME_CELLS, text};
use crate::visible;

/// Most charts of a readable plot, and the height of one, pixels.
const MOST_CHARTS: usize = 40;
const HEIGHT: u32 = 2 * CHART_HEIGHT;
/// If a value is farther from zero than this, the axis is logarithmic.
const MOST_LINEAR: f64 = 100.0;
/// Marks of a linear axis.
const MARKS: u32 = 5;

/// A distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The measured quantity. Curves of one measure share a chart.
    pub measure: String,
    /// Its name.
    pub name: String,
    /// Values in ascending order, each with the share of values that are at most as large.
    pub points: Vec<(f64, f64)>,
}

/// Draws distributions over each other, up to the number of colours in a chart. Fails if `out` or the drawing does.
pub fn plot_distributions(
    title: &str,
    curves: &[Curve],
    format: PictureFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_picture(&Distributions { title, curves }, format, out)
}

/// The picture of distributions.
struct Distributions<'d> {
    title: &'d str,
    curves: &'d [Curve],
}

impl Picture for Distributions<'_> {
    fn draw<P: Paper>(&self, paper: P) -> Drawn<P::Backend> {
        charts(self.title, self.curves, paper)
    }
}

fn charts<P: Paper>(title: &str, curves: &[Curve], paper: P) -> Drawn<P::Backend> {
    let known = || curves.iter().filter(|curve| !curve.points.is_empty());
    let mut measures: Vec<&str> = known().map(|curve| &*curve.measure).collect();
    measures.dedup();
    let mut seen = HashSet::new();
    measures.retain(|measure| seen.insert(*measure));
    let of = |measure| known().filter(move |curve| curve.measure == measure);
    let groups: Vec<Vec<&Curve>> = measures
        .into_iter()
        .flat_map(|measure| {
            let all: Vec<&Curve> = of(measure).collect();
            let charts = all.chunks(COLOURS.len()).map(<[&Curve]>::to_vec);
            charts.collect::<Vec<_>>()
        })
        .collect();
    let drawn = &groups[..groups.len().min(MOST_CHARTS)];
    let lines = drawn.iter().map(Vec::len).sum::<usize>();
    let legends = LINE_HEIGHT * lines as u32;
    let height = 2 * MARGIN + LINE_HEIGHT + drawn.len() as u32 * HEIGHT + legends;
    let root = paper.cut((WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let beyond = match known().count() - lines {
        0 => String::new(),
        more => format!("; {more} more are not drawn"),
    };
    let title = format!("{title}: share of values that are at most as large{beyond}");
    text(&root, &title, (MARGIN as i32, 6))?;
    let mut y = MARGIN + LINE_HEIGHT;
    for curves in drawn {
        for (curve, colour) in curves.iter().zip(COLOURS) {
            let (x, top) = (MARGIN as i32, y as i32);
            let line = [(x, top + 7), (x + 24, top + 7)];
            root.draw(&PathElement::new(line, colour.stroke_width(3)))?;
            text(&root, &shown(&curve.name), (x + 32, top))?;
            y += LINE_HEIGHT;
        }
        let area = root.clone().shrink((0, y), (WIDTH, HEIGHT));
        chart(&area, curves)?;
        y += HEIGHT;
    }
    root.present()
}

/// A name, truncated to the available width.
fn shown(name: &str) -> String {
    visible::visible(name).chars().take(NAME_CELLS).collect()
}

/// Draws curves over each other. No curve may be empty.
fn chart<DB: DrawingBackend>(area: &Area<DB>, curves: &[&Curve]) -> Drawn<DB> {
    let values = || {
        curves
            .iter()
            .flat_map(|curve| &curve.points)
            .map(|point| point.0)
    };
    let least = values().fold(f64::INFINITY, f64::min).min(0.0);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    let scale = Scale::of(least, most);
    let x = Axis {
        range: scale.place(least)..scale.place(most.max(least + f64::MIN_POSITIVE)).max(1e-9),
        marks: scale.marks(least, most),
    };
    let y = Axis {
        range: 0.0..1.0,
        marks: (0..=MARKS)
            .map(|mark| f64::from(mark) / f64::from(MARKS))
            .collect(),
    };
    let measure = curves.first().map(|curve| shown(&curve.measure));
    let mut chart = ChartBuilder::on(area)
        .caption(measure.unwrap_or_default(), (FONT, TEXT_SIZE + 2))
        .margin(MARGIN)
        .margin_right(3 * MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, AXIS_WIDTH)
        .set_label_area_size(LabelAreaPosition::Bottom, LINE_HEIGHT)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_label_formatter(&|at| scale.label(*at))
        .y_label_formatter(&|share| format!("{:.0}%", share * 100.0))
        .label_style((FONT, TEXT_SIZE - 1))
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let steps = curve.points.iter().scan(0.0, |before, (value, share)| {
            let at = scale.place(*value);
            let step = [(at, *before), (at, *share)];
            *before = *share;
            Some(step)
        });
        let line = LineSeries::new(steps.flatten(), colour.stroke_width(2));
        chart.draw_series(line)?;
    }
    Ok(())
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    /// Logarithmic in both directions from zero.
    Powers,
}

impl Scale {
    fn of(least: f64, most: f64) -> Self {
        match least.abs().max(most.abs()) > MOST_LINEAR {
            true => Self::Powers,
            false => Self::Linear,
        }
    }

    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Powers => value.signum() * value.abs().ln_1p() / std::f64::consts::LN_10,
        }
    }

    fn value(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Powers => place.signum() * (place.abs() * std::f64::consts::LN_10).exp_m1(),
        }
    }

    /// Positions of marks.
    fn marks(self, least: f64, most: f64) -> Vec<f64> {
        let within = |value: &f64| least <= *value && *value <= most;
        let values: Vec<f64> = match self {
            Self::Linear => {
                let step = (most - least) / f64::from(MARKS);
                (0..=MARKS)
                    .map(|mark| least + f64::from(mark) * step)
                    .collect()
            }
            Self::Powers => {
                let powers = || (0..16).map(|power| 10_f64.powi(power));
                powers()
                    .map(|power| -power)
                    .chain([0.0])
                    .chain(powers())
                    .collect()
            }
        };
        values
            .iter()
            .filter(|value| within(value))
            .map(|value| self.place(*value))
            .collect()
    }

    fn label(self, place: f64) -> String {
        let value = self.value(place);
        match value.abs() {
            size if size >= 10.0 => format!("{value:.0}"),
            _ => format!("{value:.2}")
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve {
            measure: name.into(),
            name: name.into(),
            points: points.to_vec(),
        }
    }

    #[test]
    fn each_distribution_has_a_line_with_its_name() {
        let curves = [
            curve("sizes", &[(1.0, 0.0), (4096.0, 0.5), (1e6, 1.0)]),
            curve("skips", &[(-5000.0, 0.0), (0.0, 0.9), (70.0, 1.0)]),
            curve("zeros", &[(0.0, 0.0), (0.0, 1.0)]),
            curve("empty", &[]),
        ];
        let mut out = Vec::new();
        plot_distributions("Sizes", &curves, PictureFormat::Svg, &mut out).unwrap();
        let svg = String::from_utf8(out).unwrap();
        assert!(svg.starts_with("<svg"));
        for (name, is_drawn) in [
            ("sizes", true),
            ("skips", true),
            ("zeros", true),
            ("empty", false),
        ] {
            assert_eq!(svg.contains(name), is_drawn, "{name}");
        }
        assert!(svg.matches("<polyline").count() >= 3, "{svg}");
    }

    #[test]
    fn a_place_belongs_to_one_value() {
        for value in [-1e9, -1.0, 0.0, 0.5, 4096.0] {
            let powers = Scale::Powers;
            assert!((powers.value(powers.place(value)) - value).abs() <= value.abs() * 1e-9);
        }
        assert_eq!(Scale::Powers.marks(0.0, 1000.0).len(), 5);
    }
}
