//! Charts: lines over time, and groups of bars.

use super::axis::{Axis, grouped};
use super::font::Fonts;
use super::scene::{Anchor, Colour, Scene, Shape, TextStyle};

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name in the legend.
    pub label: String,
    /// (x, y); a gap where y is not a number.
    pub points: Vec<(f64, f64)>,
    /// Holds its value until the next point, as a window does.
    pub steps: bool,
}

/// Lines over a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Title.
    pub title: String,
    /// What differs from other charts of the same title; may be empty.
    pub subtitle: String,
    /// Label of the horizontal axis, with unit.
    pub x_label: String,
    /// Label of the vertical axis, with unit.
    pub y_label: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One group of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name below the group.
    pub label: String,
    /// One value per series, and half the width of its confidence interval.
    pub values: Vec<Option<(f64, Option<f64>)>>,
}

/// Groups of bars, one bar per series in each.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Title.
    pub title: String,
    /// A second line; may be empty.
    pub subtitle: String,
    /// Label of the vertical axis, with unit.
    pub y_label: String,
    /// Names of the series.
    pub series: Vec<String>,
    /// The groups.
    pub groups: Vec<Group>,
}

const WIDTH: f32 = 760.0;
const HEIGHT: f32 = 400.0;
const LEFT: f32 = 72.0;
const RIGHT: f32 = 24.0;
const BOTTOM: f32 = 56.0;

/// The rectangle of the data: left, top, right, bottom.
struct Frame {
    left: f32,
    top: f32,
    right: f32,
    bottom: f32,
}

impl Frame {
    fn x(&self, axis: &Axis, value: f64) -> f32 {
        self.left + axis.place(value) * (self.right - self.left)
    }

    fn y(&self, axis: &Axis, value: f64) -> f32 {
        self.bottom - axis.place(value) * (self.bottom - self.top)
    }
}

impl LineChart {
    /// Draws the chart.
    pub fn draw(&self) -> Scene {
        let finite = || {
            self.lines.iter().flat_map(|line| &line.points).filter(|(_, y)| y.is_finite()).copied()
        };
        let x_low = finite().map(|(x, _)| x).fold(f64::INFINITY, f64::min);
        let x_high = finite().map(|(x, _)| x).fold(f64::NEG_INFINITY, f64::max);
        let y_low = finite().map(|(_, y)| y).fold(0.0, f64::min);
        let y_high = finite().map(|(_, y)| y).fold(0.0, f64::max);
        let x = if x_low.is_finite() {
            Axis::exact(x_low.min(0.0), x_high, 8)
        } else {
            Axis::round(0.0, 1.0, 8)
        };
        let y = Axis::round(y_low, y_high, 5);

        let mut scene = Scene::new(WIDTH, HEIGHT, &self.title);
        let labels: Vec<(usize, &str)> =
            self.lines.iter().map(|line| line.label.as_str()).enumerate().collect();
        let frame = heading(&mut scene, &self.title, &self.subtitle, &labels);
        vertical_axis(&mut scene, &frame, &y, &self.y_label);
        horizontal_axis(&mut scene, &frame, &x, &self.x_label);
        for (index, line) in self.lines.iter().enumerate() {
            draw_line(&mut scene, &frame, &x, &y, line, Colour::data(index));
        }
        scene
    }
}

impl BarChart {
    /// Draws the chart.
    pub fn draw(&self) -> Scene {
        let top = |value: &Option<(f64, Option<f64>)>| {
            value.map_or(0.0, |(mean, interval)| mean + interval.unwrap_or(0.0))
        };
        let highest = self.groups.iter().flat_map(|group| &group.values).map(top);
        let y = Axis::round(0.0, highest.fold(0.0, f64::max), 5);
        let mut scene = Scene::new(WIDTH, HEIGHT, &self.title);
        // Series without any value keep their colour but do not show in the legend.
        let shown = |index: usize| {
            self.groups.iter().any(|group| group.values.get(index).is_some_and(Option::is_some))
        };
        let labels: Vec<(usize, &str)> = self
            .series
            .iter()
            .enumerate()
            .filter(|(index, _)| shown(*index))
            .map(|(index, label)| (index, label.as_str()))
            .collect();
        let frame = heading(&mut scene, &self.title, &self.subtitle, &labels);
        vertical_axis(&mut scene, &frame, &y, &self.y_label);
        let width = (frame.right - frame.left) / self.groups.len().max(1) as f32;
        for (index, group) in self.groups.iter().enumerate() {
            let left = frame.left + width * index as f32;
            self.draw_group(&mut scene, &frame, &y, group, [left, width]);
        }
        scene.line([frame.left, frame.bottom], [frame.right, frame.bottom], Colour::AXIS, 1.0);
        scene
    }

    fn draw_group(
        &self,
        scene: &mut Scene,
        frame: &Frame,
        y: &Axis,
        group: &Group,
        [left, width]: [f32; 2],
    ) {
        let bar = (width * 0.78 / self.series.len().max(1) as f32).min(56.0);
        let present =
            group.values.iter().enumerate().filter_map(|(k, v)| v.as_ref().map(|v| (k, v)));
        let start = left + (width - bar * present.clone().count() as f32) / 2.0;
        for (place, (index, (mean, interval))) in present.enumerate() {
            let x = start + bar * place as f32;
            let top = frame.y(y, *mean);
            let fill = Colour::data(index);
            let height = (frame.bottom - top).max(0.5);
            scene.shapes.push(Shape::Rect { frame: [x + 1.5, top, bar - 3.0, height], fill });
            let middle = x + bar / 2.0;
            let mut above = top;
            if let Some(interval) = interval.filter(|interval| *interval > 0.0) {
                above = frame.y(y, mean + interval);
                let below = frame.y(y, (mean - interval).max(0.0));
                whisker(scene, middle, above, below);
            }
            let decimals = match *mean {
                mean if mean.fract() == 0.0 || mean >= 10.0 => 0,
                mean if mean >= 1.0 => 1,
                _ => 2,
            };
            let label = grouped(*mean, decimals);
            let style = TextStyle { anchor: Anchor::Middle, ..small(Colour::GREY) };
            scene.text([middle, above - 5.0], &label, style);
        }
        let style = TextStyle { anchor: Anchor::Middle, size: 12.5, ..small(Colour::INK) };
        for (line, text) in (0u8..).zip(broken(&group.label, width, style.size)) {
            let y = frame.bottom + 20.0 + 15.0 * f32::from(line);
            scene.text([left + width / 2.0, y], text, style);
        }
    }
}

/// A label in one line, or in two where it is too wide for its group.
fn broken(label: &str, width: f32, size: f32) -> Vec<&str> {
    if Fonts::load().width(label, size, false) < width {
        return vec![label];
    }
    let middle = label.len() / 2;
    let spaces = label.match_indices(' ').map(|(at, _)| at);
    match spaces.min_by_key(|at| at.abs_diff(middle)) {
        Some(at) => vec![&label[..at], &label[at + 1..]],
        None => vec![label],
    }
}

fn whisker(scene: &mut Scene, x: f32, above: f32, below: f32) {
    scene.line([x, above], [x, below], Colour::INK, 1.2);
    for y in [above, below] {
        scene.line([x - 4.0, y], [x + 4.0, y], Colour::INK, 1.2);
    }
}

fn small(colour: Colour) -> TextStyle {
    TextStyle { size: 11.5, medium: false, colour, anchor: Anchor::Start, upright: false }
}

/// Title, subtitle and legend; what is left below them is the frame of the data.
fn heading(scene: &mut Scene, title: &str, subtitle: &str, labels: &[(usize, &str)]) -> Frame {
    let mut y = 30.0;
    let bold = TextStyle { size: 17.0, medium: true, ..small(Colour::INK) };
    scene.text([LEFT - 48.0, y], title, bold);
    if !subtitle.is_empty() {
        y += 20.0;
        scene.text([LEFT - 48.0, y], subtitle, TextStyle { size: 12.5, ..small(Colour::GREY) });
    }
    y += 12.0;
    if labels.len() > 1 {
        y = legend(scene, labels, y + 12.0) + 4.0;
    }
    Frame { left: LEFT, top: y + 14.0, right: WIDTH - RIGHT, bottom: HEIGHT - BOTTOM }
}

/// The legend from `y` down, broken into rows; returns where it ends.
fn legend(scene: &mut Scene, labels: &[(usize, &str)], mut y: f32) -> f32 {
    const SWATCH: f32 = 18.0;
    let fonts = Fonts::load();
    let style = TextStyle { size: 12.0, ..small(Colour::INK) };
    let mut x = LEFT;
    for (index, label) in labels {
        let width = SWATCH + 7.0 + fonts.width(label, style.size, false) + 20.0;
        if x + width > WIDTH - RIGHT && x > LEFT {
            x = LEFT;
            y += 18.0;
        }
        let fill = Colour::data(*index);
        scene.shapes.push(Shape::Rect { frame: [x, y - 6.0, SWATCH, 4.0], fill });
        scene.text([x + SWATCH + 7.0, y], label, style);
        x += width;
    }
    y
}

fn vertical_axis(scene: &mut Scene, frame: &Frame, axis: &Axis, label: &str) {
    for &tick in &axis.ticks {
        let y = frame.y(axis, tick);
        scene.line([frame.left, y], [frame.right, y], Colour::GRID, 1.0);
        let style = TextStyle { anchor: Anchor::End, ..small(Colour::GREY) };
        scene.text([frame.left - 8.0, y + 4.0], &axis.label(tick), style);
    }
    let middle = f32::midpoint(frame.top, frame.bottom);
    let style =
        TextStyle { anchor: Anchor::Middle, upright: true, size: 12.5, ..small(Colour::GREY) };
    scene.text([20.0, middle], label, style);
}

fn horizontal_axis(scene: &mut Scene, frame: &Frame, axis: &Axis, label: &str) {
    for &tick in &axis.ticks {
        let x = frame.x(axis, tick);
        scene.line([x, frame.top], [x, frame.bottom], Colour::GRID, 1.0);
        scene.line([x, frame.bottom], [x, frame.bottom + 4.0], Colour::AXIS, 1.0);
        let style = TextStyle { anchor: Anchor::Middle, ..small(Colour::GREY) };
        scene.text([x, frame.bottom + 18.0], &axis.label(tick), style);
    }
    scene.line([frame.left, frame.bottom], [frame.right, frame.bottom], Colour::AXIS, 1.0);
    let middle = f32::midpoint(frame.left, frame.right);
    let style = TextStyle { anchor: Anchor::Middle, size: 12.5, ..small(Colour::GREY) };
    scene.text([middle, frame.bottom + 40.0], label, style);
}

fn draw_line(scene: &mut Scene, frame: &Frame, x: &Axis, y: &Axis, line: &Line, colour: Colour) {
    let mut run: Vec<[f32; 2]> = Vec::new();
    let finish = |run: &mut Vec<[f32; 2]>, scene: &mut Scene| {
        let points = thin(&std::mem::take(run));
        match points.as_slice() {
            [] => {}
            [at] => scene.shapes.push(Shape::Dot { at: *at, radius: 2.0, fill: colour }),
            _ => scene.shapes.push(Shape::Path { points, colour, width: 1.6, dash: None }),
        }
    };
    for &(px, py) in &line.points {
        if !py.is_finite() {
            finish(&mut run, scene);
            continue;
        }
        let at = [frame.x(x, px), frame.y(y, py)];
        if let (true, Some(last)) = (line.steps, run.last().copied()) {
            run.push([at[0], last[1]]);
        }
        run.push(at);
    }
    finish(&mut run, scene);
}

/// Keeps of each half unit of width the first, lowest, highest and last point: the picture stays
/// the same, the file small.
fn thin(points: &[[f32; 2]]) -> Vec<[f32; 2]> {
    if points.len() < 2_000 {
        return points.to_vec();
    }
    let column = |point: &[f32; 2]| (point[0] * 2.0) as i32;
    let mut out: Vec<[f32; 2]> = Vec::new();
    for chunk in points.chunk_by(|a, b| column(a) == column(b)) {
        let by_height = |a: &&[f32; 2], b: &&[f32; 2]| a[1].total_cmp(&b[1]);
        let (first, last) = (chunk[0], chunk[chunk.len() - 1]);
        let low = chunk.iter().min_by(by_height).copied().unwrap_or(first);
        let high = chunk.iter().max_by(by_height).copied().unwrap_or(first);
        for point in [first, low, high, last] {
            if out.last() != Some(&point) {
                out.push(point);
            }
        }
    }
    out
}
