//! Draws cumulative distributions as SVG.

use std::io::{self, Write};

use plotters::prelude::*;

use super::axes::Axis;
use super::{
    AXIS_WIDTH, Area, CHART_HEIGHT, COLOURS, Drawn, FONT, LINE_HEIGHT, MARGIN, NAME_CELLS,
    TEXT_SIZE, WIDTH, text,
};
use crate::visible;

/// Most charts of a readable plot, and the height of one, pixels.
const MOST_CHARTS: usize = 40;
/// Above this an axis has powers of ten.
const MOST_LINEAR: f64 = 100.0;
/// Marks of a linear axis.
const MARKS: u32 = 5;

/// A distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Values in ascending order, each with the share of values that are at most as large.
    pub points: Vec<(f64, f64)>,
}

/// Draws a chart for each distribution. Errors are those of `out` and of the drawing.
pub fn plot_distributions(curves: &[Curve], out: &mut dyn Write) -> io::Result<()> {
    let mut drawn = String::new();
    charts(curves, &mut drawn).map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(drawn.as_bytes())
}

fn charts<'s>(curves: &[Curve], to: &'s mut String) -> Drawn<'s> {
    let known = curves.iter().filter(|curve| !curve.points.is_empty());
    let known: Vec<_> = known.collect();
    let drawn = &known[..known.len().min(MOST_CHARTS)];
    let height = 2 * MARGIN + LINE_HEIGHT + drawn.len() as u32 * CHART_HEIGHT;
    let root = SVGBackend::with_string(to, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let beyond = match known.len() - drawn.len() {
        0 => String::new(),
        more => format!("; {more} more are not drawn"),
    };
    let title = format!("share of values that are at most as large{beyond}");
    text(&root, &title, (MARGIN as i32, 6))?;
    let mut y = MARGIN + LINE_HEIGHT;
    for (curve, colour) in drawn.iter().zip(COLOURS.iter().cycle()) {
        let area = root.clone().shrink((0, y), (WIDTH, CHART_HEIGHT));
        chart(&area, curve, *colour)?;
        y += CHART_HEIGHT;
    }
    root.present()
}

fn chart<'s>(area: &Area<'s>, curve: &Curve, colour: RGBColor) -> Drawn<'s> {
    let ends = curve.points.first().zip(curve.points.last());
    let (least, most) = ends.map_or((0.0, 1.0), |(first, last)| (first.0, last.0));
    let scale = Scale::of(least, most);
    let x = Axis {
        range: scale.place(least.min(0.0))
            ..scale.place(most.max(least + f64::MIN_POSITIVE)).max(1e-9),
        marks: scale.marks(least.min(0.0), most),
    };
    let y = Axis {
        range: 0.0..1.0,
        marks: (0..=MARKS)
            .map(|mark| f64::from(mark) / f64::from(MARKS))
            .collect(),
    };
    let name = visible::visible(&curve.name).into_owned();
    let name: String = name.chars().take(NAME_CELLS).collect();
    let mut chart = ChartBuilder::on(area)
        .caption(name, (FONT, TEXT_SIZE + 2))
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
    let steps = curve.points.iter().scan(0.0, |before, (value, share)| {
        let at = scale.place(*value);
        let step = [(at, *before), (at, *share)];
        *before = *share;
        Some(step)
    });
    let line = LineSeries::new(steps.flatten(), colour.stroke_width(2));
    chart.draw_series(line)?;
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
            name: name.into(),
            points: points.to_vec(),
        }
    }

    #[test]
    fn each_distribution_has_a_chart_with_its_name() {
        let curves = [
            curve("sizes", &[(1.0, 0.0), (4096.0, 0.5), (1e6, 1.0)]),
            curve("skips", &[(-5000.0, 0.0), (0.0, 0.9), (70.0, 1.0)]),
            curve("zeros", &[(0.0, 0.0), (0.0, 1.0)]),
            curve("empty", &[]),
        ];
        let mut out = Vec::new();
        plot_distributions(&curves, &mut out).unwrap();
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
