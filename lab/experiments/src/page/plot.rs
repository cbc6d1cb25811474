//! Curves and bars as SVG that takes its colours from the page, and so is light or dark with it.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Bars, Figure};

/// Labels of an axis at most: more run into each other.
const X_LABELS: usize = 16;
/// Size in units that are pixels on a page of this width.
const WIDTH: u32 = 560;
const HEIGHT: u32 = 330;
/// A text that is read on a phone, where a plot is about two thirds as wide.
const FONT: (&str, i32) = ("sans-serif", 17);
/// How wide a character of it is, in the mean, and how far its lines are apart.
const CHAR: f64 = 9.5;
const ROW: u32 = 20;
/// Around a plot, and left of it for the scale.
const MARGIN: u32 = 8;
const SCALE: u32 = 62;
/// Series that have a colour of their own.
pub const COLOURS: usize = 8;
/// Stand for colours of the page.
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
const SERIES: [RGBColor; COLOURS] = [
    RGBColor(3, 3, 3),
    RGBColor(4, 4, 4),
    RGBColor(5, 5, 5),
    RGBColor(6, 6, 6),
    RGBColor(7, 7, 7),
    RGBColor(8, 8, 8),
    RGBColor(9, 9, 9),
    RGBColor(10, 10, 10),
];
/// Values further apart than this are shown by powers of ten.
const LOG_FROM: f64 = 30.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The colours by the names that the page gives them.
fn coloured(svg: &str) -> String {
    let mut svg = svg
        .replace("#010101", "var(--ink)")
        .replace("#020202", "var(--grid)");
    for i in 0..COLOURS {
        let stand_in = format!("#{0:02X}{0:02X}{0:02X}", i + 3);
        svg = svg.replace(&stand_in, &format!("var(--s{i})"));
    }
    // As wide as its place.
    svg.replacen(&format!("width=\"{WIDTH}\" height=\"{HEIGHT}\" "), "", 1)
}

/// The range of an axis that has all values.
struct Range {
    from: f64,
    to: f64,
    log: bool,
}

impl Range {
    fn of(values: impl Iterator<Item = f64> + Clone) -> anyhow::Result<Range> {
        if values.clone().any(|value| !value.is_finite()) {
            return Err(anyhow!("a value is not a number"));
        }
        let most = values.clone().fold(0.0, f64::max);
        let least = values
            .filter(|value| *value > 0.0)
            .fold(f64::INFINITY, f64::min);
        let log = least.is_finite() && most / least > LOG_FROM;
        Ok(match (log, most > 0.0) {
            (true, _) => Range {
                from: 10f64.powf(least.log10().floor()),
                to: 10f64.powf(most.log10().ceil()),
                log,
            },
            (false, true) => Range {
                from: 0.0,
                to: most * 1.1,
                log,
            },
            (false, false) => Range {
                from: 0.0,
                to: 1.0,
                log,
            },
        })
    }

    /// With room for the least value as a bar: where logarithms are shown, it may
    /// be at the very beginning.
    fn below(mut self, values: impl Iterator<Item = f64>) -> Range {
        let least = values.fold(f64::INFINITY, f64::min);
        if self.log && least < 2.0 * self.from {
            self.from /= 2.0;
        }
        self
    }

    /// Where a value is shown: zero has no logarithm.
    fn place(&self, value: f64) -> f64 {
        if self.log {
            value.max(self.from).log10()
        } else {
            value
        }
    }

    fn axis(&self) -> std::ops::Range<f64> {
        self.place(self.from)..self.place(self.to)
    }

    fn label(&self, place: f64) -> String {
        if self.log {
            // Between powers of ten there is nothing to write.
            if (place - place.round()).abs() > 0.01 {
                return String::new();
            }
            return number(10f64.powf(place.round()));
        }
        number((place * 1e6).round() / 1e6)
    }

    /// Labels of the axis: powers of ten, or about five.
    fn labels(&self) -> usize {
        let axis = self.axis();
        if self.log {
            (axis.end - axis.start).round() as usize + 1
        } else {
            6
        }
    }
}

/// A number in few digits.
fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        format!("{value:e}")
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A number of which whole multiples of 1,024 and of its square are `K` and `M`: labels of
/// an axis are side by side.
fn binary(value: f64) -> String {
    let units = [(1_048_576.0, "M"), (1_024.0, "K")];
    let unit = units
        .iter()
        .find(|(unit, _)| value != 0.0 && value % unit == 0.0);
    match unit {
        Some((unit, name)) => number(value / unit) + name,
        None => number(value),
    }
}

/// Curves over places that are as far apart as they are listed.
///
/// # Errors
/// There is nothing to show, or a value is not a number.
pub fn curves(figure: &Figure) -> anyhow::Result<String> {
    if figure.at.is_empty() || values_of(figure).next().is_none() {
        return Err(anyhow!("{}: nothing to show", figure.title));
    }
    let range = Range::of(values_of(figure))?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        draw_curves(&area, figure, &range).map_err(|error| anyhow!("{}: {error}", figure.title))?;
    }
    Ok(coloured(&svg))
}

/// All that a figure has.
fn values_of(figure: &Figure) -> impl Iterator<Item = f64> + Clone {
    let series = figure.shown();
    series.flat_map(|(_, _, values)| values.iter().flatten().copied())
}

fn draw_curves(
    area: &Area<'_>,
    figure: &Figure,
    range: &Range,
) -> Result<(), Box<dyn std::error::Error>> {
    let last = figure.at.len() as i32 - 1;
    let label = |place: &i32| {
        let value = usize::try_from(*place).ok().and_then(|i| figure.at.get(i));
        value.map_or(String::new(), |value| binary(*value))
    };
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(16)
        .x_label_area_size(46)
        .y_label_area_size(SCALE)
        .build_cartesian_2d(0..last.max(1), range.axis())?;
    chart
        .configure_mesh()
        .x_labels(figure.at.len().min(X_LABELS))
        .y_labels(range.labels())
        .x_label_formatter(&label)
        .y_label_formatter(&|place| range.label(*place))
        .x_desc(figure.x)
        .label_style(FONT.into_font().color(&INK))
        .axis_desc_style(FONT.into_font().color(&INK))
        .axis_style(GRID)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (i, _, values) in figure.shown() {
        let colour = SERIES[i % COLOURS];
        // A place without a value is passed by.
        let points = || {
            let places = (0..).zip(values);
            places.filter_map(|(x, value)| Some((x, range.place((*value)?))))
        };
        chart.draw_series(LineSeries::new(points(), colour.stroke_width(3)))?;
        chart.draw_series(points().map(|at| Circle::new(at, 4, colour.filled())))?;
    }
    area.present()?;
    Ok(())
}

/// Groups of bars.
///
/// # Errors
/// There is nothing to show, or a value is not a number.
pub fn bars(bars: &Bars) -> anyhow::Result<String> {
    let values = || {
        bars.groups
            .iter()
            .flat_map(|(_, values)| values.iter().flatten().copied())
    };
    if values().next().is_none() {
        return Err(anyhow!("{}: nothing to show", bars.title));
    }
    let range = Range::of(values().collect::<Vec<_>>().into_iter())?.below(values());
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        draw_bars(&area, bars, &range).map_err(|error| anyhow!("{}: {error}", bars.title))?;
    }
    Ok(coloured(&svg))
}

/// In which row below the bars each name stands: in the first where it does not run into another.
fn rows_of_names(bars: &Bars) -> Vec<u32> {
    let width = f64::from(WIDTH - 2 * MARGIN - SCALE) / bars.groups.len().max(1) as f64;
    let mut ends: Vec<f64> = Vec::new();
    let names = bars.groups.iter().map(|(name, _)| name.chars().count());
    let rows = names.enumerate().map(|(group, chars)| {
        let half = CHAR * chars as f64 / 2.0;
        let middle = width * (group as f64 + 0.5);
        let free = ends.iter().position(|end| *end < middle - half);
        let row = free.unwrap_or(ends.len());
        ends.resize(ends.len().max(row + 1), 0.0);
        ends[row] = middle + half;
        row as u32
    });
    rows.collect()
}

fn draw_bars(
    area: &Area<'_>,
    bars: &Bars,
    range: &Range,
) -> Result<(), Box<dyn std::error::Error>> {
    let groups = bars.groups.len() as f64;
    let rows = rows_of_names(bars);
    let rows_below = rows.iter().max().copied().unwrap_or(0);
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .x_label_area_size(34 + ROW * rows_below)
        .y_label_area_size(SCALE)
        .build_cartesian_2d(0.0..groups, range.axis())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(range.labels())
        .y_label_formatter(&|place| range.label(*place))
        .label_style(FONT.into_font().color(&INK))
        .axis_style(GRID)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let width = 0.8 / bars.series.len().max(1) as f64;
    for (group, (name, values)) in bars.groups.iter().enumerate() {
        for (i, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let left = group as f64 + 0.1 + i as f64 * width;
            let corners = [
                (left, range.axis().start),
                (left + width * 0.92, range.place(*value)),
            ];
            let bar = Rectangle::new(corners, SERIES[i % COLOURS].filled());
            chart.draw_series([bar])?;
        }
        let (x, y) = chart.backend_coord(&(group as f64 + 0.5, range.axis().start));
        let style = FONT
            .into_font()
            .color(&INK)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let below = 8 + (ROW * rows[group]) as i32;
        area.draw(&Text::new(name.clone(), (x, y + below), style))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(at: &[f64], values: &[f64]) -> Figure {
        Figure {
            title: "a figure".into(),
            x: "size",
            y: "ms",
            at: at.into(),
            series: vec![("one".into(), values.iter().copied().map(Some).collect())],
            papers: "",
        }
    }

    #[test]
    fn a_plot_has_its_points_and_the_pages_colours() {
        let svg = curves(&figure(&[2.0, 4.0, 8.0], &[1.0, 3.0, 2.0])).unwrap();
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        let curve = |line: &&str| line.starts_with("<polyline") && line.contains("var(--s0)");
        assert_eq!(svg.lines().filter(curve).count(), 1, "{svg}");
        assert!(
            svg.contains("var(--ink)") && svg.contains("var(--s0)"),
            "{svg}"
        );
        assert!(!svg.contains("#0"), "{svg}");
        assert!(!svg.contains("NaN"));
        assert!(svg.starts_with("<svg viewBox"), "{}", &svg[..80]);
    }

    /// A series that has less than others.
    #[test]
    fn a_place_without_a_value_is_left_out() {
        let mut gap = figure(&[2.0, 4.0, 8.0], &[1.0, 3.0, 2.0]);
        gap.series
            .push(("two".into(), vec![Some(1.0), None, Some(5.0)]));
        let svg = curves(&gap).unwrap();
        assert_eq!(svg.matches("<circle").count(), 5, "{svg}");
        // One that has nothing takes no colour from another.
        gap.series[0].1 = vec![None; 3];
        let svg = curves(&gap).unwrap();
        assert!(
            svg.contains("var(--s1)") && !svg.contains("var(--s0)"),
            "{svg}"
        );
        gap.series.pop();
        assert!(curves(&gap).is_err());
    }

    #[test]
    fn large_spans_are_shown_by_powers_of_ten() {
        let svg = curves(&figure(&[2.0, 4.0], &[0.02, 60.0])).unwrap();
        for label in ["0.01", "0.1", "1", "10", "100"] {
            assert!(svg.contains(&format!("\n{label}\n")), "{label}: {svg}");
        }
        // Zero has a place as well.
        let svg = curves(&figure(&[2.0, 4.0, 8.0], &[0.0, 0.02, 60.0])).unwrap();
        assert_eq!(svg.matches("<circle").count(), 3);
        curves(&figure(&[2.0], &[0.0])).unwrap();
    }

    #[test]
    fn long_labels_are_short() {
        let labels = [
            -1.0,
            0.0,
            512.0,
            3072.0,
            102_400.0,
            1_048_576.0,
            0.5,
            1000.0,
        ];
        let shown = ["-1", "0", "512", "3K", "100K", "1M", "0.5", "1000"];
        assert_eq!(labels.map(binary), shown);
    }

    #[test]
    fn what_cannot_be_shown_is_an_error() {
        assert!(curves(&figure(&[], &[])).is_err());
        assert!(curves(&figure(&[1.0], &[f64::NAN])).is_err());
        let none = Bars {
            title: "bars".into(),
            y: "s",
            series: vec!["one".into()],
            groups: vec![("a".into(), vec![None])],
            note: "",
        };
        assert!(bars(&none).is_err());
    }

    #[test]
    fn bars_stand_in_groups() {
        let two = Bars {
            title: "bars".into(),
            y: "s",
            series: vec!["one".into(), "two".into()],
            groups: vec![
                ("a".into(), vec![Some(1.0), Some(2.0)]),
                ("b".into(), vec![None, Some(3.0)]),
            ],
            note: "",
        };
        let svg = bars(&two).unwrap();
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("\na\n") && svg.contains("\nb\n"), "{svg}");
    }

    #[test]
    fn names_of_groups_do_not_run_into_each_other() {
        let rows = |names: &[&str]| {
            rows_of_names(&Bars {
                title: "bars".into(),
                y: "s",
                series: vec!["one".into()],
                groups: names
                    .iter()
                    .map(|name| (name.to_string(), vec![]))
                    .collect(),
                note: "",
            })
        };
        assert_eq!(rows(&["a", "b", "c"]), [0, 0, 0]);
        let name = &*"n".repeat(24);
        assert_eq!(rows(&[name, name, name, "d"]), [0, 1, 0, 0]);
        let name = &*"n".repeat(30);
        assert_eq!(rows(&[name, name, name, "d"]), [0, 1, 2, 0]);
        assert!(rows(&[]).is_empty());
    }

    /// The least of bars that are far apart is a bar as well.
    #[test]
    fn every_bar_can_be_seen() {
        for values in [[1.0, 2.0], [1.0, 400.0], [0.1, 99.0], [3.0, 3000.0]] {
            let svg = bars(&Bars {
                title: "bars".into(),
                y: "value",
                series: vec!["a".into(), "b".into()],
                groups: vec![("group".into(), values.map(Some).into())],
                note: "",
            });
            let svg = svg.unwrap();
            let heights: Vec<u32> = svg
                .lines()
                .filter(|line| line.starts_with("<rect") && line.contains("var(--s"))
                .filter_map(|line| {
                    let rest = line.split(" height=\"").nth(1)?;
                    rest.split('"').next()?.parse().ok()
                })
                .collect();
            assert_eq!(heights.len(), 2, "{svg}");
            assert!(
                heights.iter().all(|height| *height > 8),
                "{values:?}: {heights:?}"
            );
        }
    }
}
