//! Charts: lines over time, and groups of bars.

use super::axis::{Axis, grouped};
use super::font::Fonts;
use super::heading::{Frame, NUMBER_GAP, Sample, heading, in_lines, small, upright_label};
use super::scene::{Anchor, Colour, Scene, Shape, TextStyle};

/// One line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Name in the legend.
    pub label: String,
    /// (x, y); a gap where y is not a number.
    pub points: Vec<(f64, f64)>,
    /// Holds its value until the next point, as a window does.
    pub steps: bool,
    /// Half the width of the confidence interval of each point; empty where there are none. Such
    /// points are marked.
    pub intervals: Vec<Option<f64>>,
}

/// An area between two lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Band {
    /// Name in the legend.
    pub label: String,
    /// (x, low, high); a gap where they are not numbers.
    pub points: Vec<(f64, f64, f64)>,
}

/// Lines over a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// Title; may be empty.
    pub title: String,
    /// What differs from other charts of the same title; may be empty.
    pub subtitle: String,
    /// Label of the horizontal axis, with unit.
    pub x_label: String,
    /// Label of the vertical axis, with unit.
    pub y_label: String,
    /// What of many lies between which bounds, the widest first; drawn below the lines.
    pub bands: Vec<Band>,
    /// The lines.
    pub lines: Vec<Line>,
    /// Names of places on the horizontal axis, in place of numbers.
    pub ticks: Vec<(f64, String)>,
    /// Equal factors are equally far from each other on the horizontal axis; all x are above 0.
    pub by_factors: bool,
    /// Width and height of the picture; as usual if zero.
    pub size: [f32; 2],
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// Title; may be empty.
    pub title: String,
    /// A second line; may be empty.
    pub subtitle: String,
    /// Label of the vertical axis, with unit.
    pub y_label: String,
    /// The bars of a group stand on each other: parts of a whole.
    pub stacked: bool,
    /// Names of the series.
    pub series: Vec<String>,
    /// The groups.
    pub groups: Vec<Group>,
    /// Width and height of the picture; as usual if zero.
    pub size: [f32; 2],
}

/// What is asked for, or the usual width and height.
pub(super) fn suited(size: [f32; 2]) -> [f32; 2] {
    if size[0] > 0.0 { size } else { [WIDTH, HEIGHT] }
}

/// What a picture says of itself to those who do not see it: its title, or else what goes upwards.
pub(super) fn described<'a>(title: &'a str, y_label: &'a str) -> &'a str {
    if title.is_empty() { y_label } else { title }
}

const WIDTH: f32 = 760.0;
const HEIGHT: f32 = 400.0;

impl LineChart {
    /// Draws the chart.
    pub fn draw(&self) -> Scene {
        if self.by_factors {
            return self.with_logarithms().draw();
        }
        let (x, y) = self.axes();
        let [width, height] = suited(self.size);
        let mut scene = Scene::new(width, height, described(&self.title, &self.y_label));
        let bands = self.bands.iter().enumerate().map(|(place, band)| Sample {
            fill: band_colour(place),
            dash: None,
            label: &band.label,
        });
        let lines = self.lines.iter().enumerate().map(|(place, line)| Sample {
            fill: Colour::data(place),
            dash: dash(place),
            label: &line.label,
        });
        let labels: Vec<Sample<'_>> = bands.chain(lines).collect();
        let frame = heading(&mut scene, &self.title, &self.subtitle, &labels).with_axis_numbers(&y);
        for (place, band) in self.bands.iter().enumerate() {
            draw_band(&mut scene, &frame, &x, &y, band, band_colour(place));
        }
        vertical_axis(&mut scene, &frame, &y, &self.y_label);
        horizontal_axis(&mut scene, &frame, &x, &self.x_label, &self.ticks);
        for (index, line) in self.lines.iter().enumerate() {
            draw_line(&mut scene, &frame, &x, &y, line, index);
            draw_intervals(&mut scene, &frame, &x, &y, line, Colour::data(index));
        }
        scene
    }

    /// The same with the logarithms of all x.
    fn with_logarithms(&self) -> Self {
        let mut chart = Self { by_factors: false, ..self.clone() };
        for line in &mut chart.lines {
            line.points.iter_mut().for_each(|point| point.0 = point.0.log10());
        }
        for band in &mut chart.bands {
            band.points.iter_mut().for_each(|point| point.0 = point.0.log10());
        }
        chart.ticks.iter_mut().for_each(|tick| tick.0 = tick.0.log10());
        chart
    }

    /// The axes, over all that is drawn.
    fn axes(&self) -> (Axis, Axis) {
        let mut xs = Vec::new();
        let mut ys = vec![0.0];
        for line in &self.lines {
            for (place, (x, y)) in line.points.iter().enumerate().filter(|(_, it)| it.1.is_finite())
            {
                let interval = line.intervals.get(place).copied().flatten().unwrap_or(0.0);
                xs.push(*x);
                ys.extend([y + interval, (y - interval).max(y.min(0.0))]);
            }
        }
        for (x, low, high) in self.bands.iter().flat_map(|band| &band.points) {
            if low.is_finite() && high.is_finite() {
                xs.push(*x);
                ys.extend([*low, *high]);
            }
        }
        let low = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
        let high = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let x = match (xs.is_empty(), self.ticks.is_empty()) {
            (true, _) => Axis::round(0.0, 1.0, 8),
            (false, true) => Axis::exact(low(&xs).min(0.0), high(&xs), 8),
            (false, false) => {
                // Room on both sides: what is at the edge has a name below it.
                let room = ((high(&xs) - low(&xs)) * 0.06).max(0.01);
                Axis::exact(low(&xs) - room, high(&xs) + room, 8)
            }
        };
        (x, Axis::round(low(&ys), high(&ys), 5))
    }
}

/// Lines of the same colour differ in their dashes.
fn dash(place: usize) -> Option<[f32; 2]> {
    [None, Some([7.0, 3.0]), Some([2.0, 2.5]), Some([12.0, 5.0])][place / Colour::DATA.len() % 4]
}

/// Light and lighter: bands lie over each other.
fn band_colour(place: usize) -> Colour {
    [Colour(0xdc, 0xe9, 0xf4), Colour(0xae, 0xcd, 0xe6)][place % 2]
}

/// An area, one piece for each stretch without a gap.
fn draw_band(scene: &mut Scene, frame: &Frame, x: &Axis, y: &Axis, band: &Band, fill: Colour) {
    for stretch in band.points.split(|(_, low, high)| !(low.is_finite() && high.is_finite())) {
        let above = stretch.iter().map(|(at, _, high)| [frame.x(x, *at), frame.y(y, *high)]);
        let below = stretch.iter().rev().map(|(at, low, _)| [frame.x(x, *at), frame.y(y, *low)]);
        let points: Vec<[f32; 2]> = above.chain(below).collect();
        if points.len() > 2 {
            scene.shapes.push(Shape::Area { points, fill });
        }
    }
}

/// Marks at the points of a line, and whiskers as long as their intervals.
fn draw_intervals(scene: &mut Scene, frame: &Frame, x: &Axis, y: &Axis, line: &Line, fill: Colour) {
    for ((at, value), interval) in line.points.iter().zip(&line.intervals) {
        if !value.is_finite() {
            continue;
        }
        let middle = frame.x(x, *at);
        if let Some(interval) = interval.filter(|interval| *interval > 0.0) {
            // What would reach below the axis ends on it.
            let least = (value - interval).max(y.low);
            let (above, below) = (frame.y(y, value + interval), frame.y(y, least));
            for (from, to) in [
                ([middle, above], [middle, below]),
                ([middle - 4.0, above], [middle + 4.0, above]),
                ([middle - 4.0, below], [middle + 4.0, below]),
            ] {
                scene.line(from, to, fill, 1.2);
            }
        }
        scene.shapes.push(Shape::Dot { at: [middle, frame.y(y, *value)], radius: 3.0, fill });
    }
}

impl BarChart {
    /// Draws the chart.
    pub fn draw(&self) -> Scene {
        let top = |value: &Option<(f64, Option<f64>)>| {
            value.map_or(0.0, |(mean, interval)| mean + interval.unwrap_or(0.0))
        };
        let highest = |group: &Group| -> f64 {
            let tops = group.values.iter().map(top);
            if self.stacked { tops.sum() } else { tops.fold(0.0, f64::max) }
        };
        let y = Axis::round(0.0, self.groups.iter().map(highest).fold(0.0, f64::max), 5);
        let [width, height] = suited(self.size);
        let mut scene = Scene::new(width, height, described(&self.title, &self.y_label));
        // Series without any value keep their colour but do not show in the legend.
        let shown = |index: usize| {
            self.groups.iter().any(|group| group.values.get(index).is_some_and(Option::is_some))
        };
        let labels: Vec<Sample<'_>> = self
            .series
            .iter()
            .enumerate()
            .filter(|(index, _)| shown(*index))
            .map(|(index, label)| Sample { fill: Colour::data(index), dash: None, label })
            .collect();
        let frame = heading(&mut scene, &self.title, &self.subtitle, &labels).with_axis_numbers(&y);
        vertical_axis(&mut scene, &frame, &y, &self.y_label);
        let width = (frame.right - frame.left) / self.groups.len().max(1) as f32;
        for (index, group) in self.groups.iter().enumerate() {
            let left = frame.left + width * index as f32;
            if self.stacked {
                draw_stack(&mut scene, &frame, &y, group, [left, width]);
            } else {
                self.draw_group(&mut scene, &frame, &y, group, [left, width]);
            }
        }
        let names: Vec<&str> = self.groups.iter().map(|group| group.label.as_str()).collect();
        group_names(&mut scene, &frame, &names, width);
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
        let gap = (bar * 0.25).min(3.0);
        // Where numbers stand already: left, right, base line.
        let mut written: Vec<[f32; 3]> = Vec::new();
        let present =
            group.values.iter().enumerate().filter_map(|(k, v)| v.as_ref().map(|v| (k, v)));
        let start = left + (width - bar * present.clone().count() as f32) / 2.0;
        for (place, (index, (mean, interval))) in present.enumerate() {
            let x = start + bar * place as f32;
            let top = frame.y(y, *mean);
            let fill = Colour::data(index);
            let height = (frame.bottom - top).max(0.5);
            let block = [x + gap / 2.0, top, bar - gap, height];
            scene.shapes.push(Shape::Rect { frame: block, fill });
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
            // One that would run into its neighbour is left to the table beside the picture.
            let long = Fonts::load().width(&label, style.size, false);
            let [left, right, base] = [middle - long / 2.0, middle + long / 2.0, above - 5.0];
            let meets =
                |it: &[f32; 3]| left < it[1] && it[0] < right && (base - it[2]).abs() < style.size;
            if long < bar + 6.0 && !written.iter().any(meets) {
                scene.text([middle, base], &label, style);
                written.push([left, right, base]);
            }
        }
    }
}

/// The parts of a whole, the first below.
fn draw_stack(scene: &mut Scene, frame: &Frame, y: &Axis, group: &Group, [left, width]: [f32; 2]) {
    let bar = (width * 0.7).min(72.0);
    let mut sum = 0.0;
    for (index, value) in group.values.iter().enumerate() {
        let Some((value, _)) = value.filter(|(value, _)| *value > 0.0) else { continue };
        let (low, high) = (frame.y(y, sum), frame.y(y, sum + value));
        let x = left + (width - bar) / 2.0;
        let fill = Colour::data(index);
        scene.shapes.push(Shape::Rect { frame: [x, high, bar, low - high], fill });
        sum += value;
    }
}

/// Groups that are so wide have all their names, in as many lines as there is room for, and shortened if need be.
const NAMED: f32 = 44.0;
const NAME_LINES: usize = 3;

/// The names below groups: in one line or two, else in three; of narrow groups each second, third … only.
fn group_names(scene: &mut Scene, frame: &Frame, names: &[&str], width: f32) {
    let style = TextStyle { anchor: Anchor::Middle, size: 12.5, ..small(Colour::INK) };
    let fonts = Fonts::load();
    let widest = |every: usize| {
        let lines = names.iter().flat_map(|name| broken(name, width * every as f32, style.size));
        lines.map(|line| fonts.width(line, style.size, false)).fold(0.0, f32::max)
    };
    let fits = |every: &usize| widest(*every) < width * *every as f32 - 4.0;
    let every = (1..=names.len()).find(fits).unwrap_or(names.len().max(1));
    let middle = |place: usize| frame.left + width * (place as f32 + 0.5);
    let y = |line: u8| frame.bottom + 20.0 + 15.0 * f32::from(line);
    if every > 1 && width >= NAMED {
        let room = width - 4.0;
        let style = TextStyle { size: size_of_words(names, room), ..style };
        for (place, name) in names.iter().enumerate() {
            for (line, text) in (0..).zip(in_lines(name, room, NAME_LINES, &style)) {
                scene.text([middle(place), y(line)], &text, style);
            }
        }
        return;
    }
    for (place, name) in names.iter().enumerate().step_by(every) {
        for (line, text) in (0..).zip(broken(name, width * every as f32, style.size)) {
            scene.text([middle(place), y(line)], text, style);
        }
    }
}

/// The size of letters at which the longest word has room, if it need not be too small for that.
fn size_of_words(names: &[&str], room: f32) -> f32 {
    let fonts = Fonts::load();
    let words = names.iter().flat_map(|name| name.split(' '));
    let widest = words.map(|word| fonts.width(word, 12.5, false)).fold(0.0, f32::max);
    (12.5 * room / widest.max(room)).max(9.0)
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

pub(super) fn vertical_axis(scene: &mut Scene, frame: &Frame, axis: &Axis, label: &str) {
    for &tick in &axis.ticks {
        let y = frame.y(axis, tick);
        scene.line([frame.left, y], [frame.right, y], Colour::GRID, 1.0);
        let style = TextStyle { anchor: Anchor::End, ..small(Colour::GREY) };
        scene.text([frame.left - NUMBER_GAP, y + 4.0], &axis.label(tick), style);
    }
    upright_label(scene, [frame.top, frame.bottom], label);
}

fn horizontal_axis(
    scene: &mut Scene,
    frame: &Frame,
    axis: &Axis,
    label: &str,
    named: &[(f64, String)],
) {
    let numbers = axis.ticks.iter().map(|tick| (*tick, axis.label(*tick)));
    let ticks: Vec<(f64, String)> =
        if named.is_empty() { numbers.collect() } else { named.to_vec() };
    let style = TextStyle { anchor: Anchor::Middle, ..small(Colour::GREY) };
    let fonts = Fonts::load();
    let mut free = f32::NEG_INFINITY;
    for (tick, name) in &ticks {
        let x = frame.x(axis, *tick);
        scene.line([x, frame.top], [x, frame.bottom], Colour::GRID, 1.0);
        scene.line([x, frame.bottom], [x, frame.bottom + 4.0], Colour::AXIS, 1.0);
        let half = fonts.width(name, style.size, false) / 2.0;
        // Names that would run into each other are left out.
        if x - half > free {
            scene.text([x, frame.bottom + 18.0], name, style);
            free = x + half + 6.0;
        }
    }
    scene.line([frame.left, frame.bottom], [frame.right, frame.bottom], Colour::AXIS, 1.0);
    let middle = f32::midpoint(frame.left, frame.right);
    let style = TextStyle { anchor: Anchor::Middle, size: 12.5, ..small(Colour::GREY) };
    scene.text([middle, frame.bottom + 40.0], label, style);
}

/// Line number `place` of its chart.
fn draw_line(scene: &mut Scene, frame: &Frame, x: &Axis, y: &Axis, line: &Line, place: usize) {
    let (colour, dash) = (Colour::data(place), dash(place));
    let mut run: Vec<[f32; 2]> = Vec::new();
    let finish = |run: &mut Vec<[f32; 2]>, scene: &mut Scene| {
        let points = thin(&std::mem::take(run));
        match points.as_slice() {
            [] => {}
            [at] => scene.shapes.push(Shape::Dot { at: *at, radius: 2.0, fill: colour }),
            _ => scene.shapes.push(Shape::Path { points, colour, width: 1.6, dash }),
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

/// Keeps of each unit of width, which is less than a line has, the first, lowest, highest and last point: the
/// picture stays the same, the file small.
fn thin(points: &[[f32; 2]]) -> Vec<[f32; 2]> {
    if points.len() < 2_000 {
        return points.to_vec();
    }
    let column = |point: &[f32; 2]| point[0] as i32;
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
