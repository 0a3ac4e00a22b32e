//! What stands around the data: title, subtitle, legend, and the name of the vertical axis.

use super::axis::Axis;
use super::font::Fonts;
use super::scene::{Anchor, Colour, Scene, Shape, TextStyle};

const LEFT: f32 = 72.0;
const RIGHT: f32 = 24.0;
const BOTTOM: f32 = 56.0;

/// So far to the right the name of the vertical axis reaches.
const UPRIGHT: f32 = 28.0;
/// Between a number of the vertical axis and the data.
pub(super) const NUMBER_GAP: f32 = 8.0;

/// The rectangle of the data: left, top, right, bottom.
pub(super) struct Frame {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
}

impl Frame {
    /// Leaves room at the left for the numbers of a vertical axis, beside its name.
    pub fn with_axis_numbers(self, axis: &Axis) -> Self {
        let size = small(Colour::GREY).size;
        let wide = |tick: &f64| Fonts::load().width(&axis.label(*tick), size, false);
        let widest = axis.ticks.iter().map(wide).fold(0.0, f32::max);
        Self { left: self.left.max(UPRIGHT + widest + NUMBER_GAP), ..self }
    }

    /// Where a value of the horizontal axis lies.
    pub fn x(&self, axis: &Axis, value: f64) -> f32 {
        self.left + axis.fraction(value) * (self.right - self.left)
    }

    /// Where a value of the vertical axis lies.
    pub fn y(&self, axis: &Axis, value: f64) -> f32 {
        self.bottom - axis.fraction(value) * (self.bottom - self.top)
    }
}

/// How something looks in the data, and what it is called.
pub(super) struct Sample<'a> {
    pub fill: Colour,
    pub dash: Option<[f32; 2]>,
    pub label: &'a str,
}

/// So tall the frame of the data is at least: a picture grows that title and legend would fill.
const LEAST_FRAME: f32 = 100.0;

/// Title, subtitle and legend, each of which may be empty; what is left below them is the frame of the data.
pub(super) fn heading(
    scene: &mut Scene,
    title: &str,
    subtitle: &str,
    labels: &[Sample<'_>],
) -> Frame {
    // Where there is no title, what follows begins at its place.
    let mut y = if title.is_empty() { 10.0 } else { 30.0 };
    let left = LEFT - 48.0;
    let bold = TextStyle { size: 17.0, medium: true, ..small(Colour::INK) };
    let room = scene.width - left - RIGHT;
    let lines = if title.is_empty() { Vec::new() } else { lines_of(title, room, &bold) };
    for (line, text) in lines.iter().enumerate() {
        y += if line > 0 { 21.0 } else { 0.0 };
        scene.text([left, y], text, bold);
    }
    if !subtitle.is_empty() {
        y += 20.0;
        let style = TextStyle { size: 12.5, ..small(Colour::GREY) };
        for (line, text) in lines_of(subtitle, room, &style).iter().enumerate() {
            y += if line > 0 { 16.0 } else { 0.0 };
            scene.text([left, y], text, style);
        }
    }
    y += 12.0;
    if labels.len() > 1 {
        y = legend(scene, labels, y + 12.0) + 4.0;
    }
    let top = y + 14.0;
    scene.grow(top + LEAST_FRAME + BOTTOM);
    let (right, bottom) = (scene.width - RIGHT, scene.height - BOTTOM);
    Frame { left: LEFT, top, right, bottom }
}

/// A text in lines that are no wider than `room`; a word that is wider by itself is broken.
fn lines_of(text: &str, room: f32, style: &TextStyle) -> Vec<String> {
    let fonts = Fonts::load();
    let fits = |text: &str| fonts.width(text, style.size, style.medium) <= room;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if fits(&format!("{line} {word}")) => {
                line.push(' ');
                line.push_str(word);
            }
            _ if fits(word) => lines.push(word.to_owned()),
            _ => {
                let mut line = String::new();
                for letter in word.chars() {
                    if !line.is_empty() && !fits(&format!("{line}{letter}")) {
                        lines.push(std::mem::take(&mut line));
                    }
                    line.push(letter);
                }
                lines.push(line);
            }
        }
    }
    lines
}

/// The legend from `y` down, broken into rows; returns where it ends.
fn legend(scene: &mut Scene, labels: &[Sample<'_>], mut y: f32) -> f32 {
    const SWATCH: f32 = 18.0;
    let fonts = Fonts::load();
    let style = TextStyle { size: 12.0, ..small(Colour::INK) };
    let mut x = LEFT;
    for &Sample { fill, dash, label } in labels {
        let label = shortened(label, scene.width - RIGHT - LEFT - SWATCH - 7.0, &style);
        let width = SWATCH + 7.0 + fonts.width(&label, style.size, false) + 20.0;
        if x + width > scene.width - RIGHT && x > LEFT {
            x = LEFT;
            y += 18.0;
        }
        if dash.is_some() {
            let points = vec![[x, y - 4.0], [x + SWATCH, y - 4.0]];
            scene.shapes.push(Shape::Path { points, colour: fill, width: 3.0, dash });
        } else {
            scene.shapes.push(Shape::Rect { frame: [x, y - 6.0, SWATCH, 4.0], fill });
        }
        scene.text([x + SWATCH + 7.0, y], &label, style);
        x += width;
    }
    y
}

/// A text in `count` lines at most that are no wider than `room`; what is too much goes from its end, and is marked.
pub(super) fn in_lines(text: &str, room: f32, count: usize, style: &TextStyle) -> Vec<String> {
    let mut lines = lines_of(text, room, style);
    if lines.len() > count {
        lines.truncate(count);
        let fits = |text: &str| Fonts::load().width(text, style.size, style.medium) <= room;
        let mut last = lines.pop().unwrap_or_default();
        while !fits(&format!("{last}…")) && last.pop().is_some() {}
        lines.push(format!("{}…", last.trim_end()));
    }
    lines
}

/// A text that is no wider than `room`: what is too much goes from its end, and is marked.
fn shortened(text: &str, room: f32, style: &TextStyle) -> String {
    let fonts = Fonts::load();
    let fits = |text: &str| fonts.width(text, style.size, style.medium) <= room;
    if fits(text) {
        return text.into();
    }
    let mut short: String = text.into();
    while short.pop().is_some() && !fits(&format!("{short}…")) {}
    format!("{short}…")
}

/// The name of the vertical axis, in smaller letters where it would not have room.
pub(super) fn upright_label(scene: &mut Scene, [top, bottom]: [f32; 2], label: &str) {
    let middle = f32::midpoint(top, bottom);
    let room = 2.0 * middle.min(scene.height - middle) - 12.0;
    let long = Fonts::load().width(label, 12.5, false);
    let size = if long > room { (12.5 * room / long).max(6.0) } else { 12.5 };
    let style = TextStyle { anchor: Anchor::Middle, upright: true, size, ..small(Colour::GREY) };
    scene.text([20.0, middle], label, style);
}

/// Small letters.
pub(super) fn small(colour: Colour) -> TextStyle {
    TextStyle { size: 11.5, medium: false, colour, anchor: Anchor::Start, upright: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: TextStyle = TextStyle {
        size: 17.0,
        medium: true,
        colour: Colour::INK,
        anchor: Anchor::Start,
        upright: false,
    };

    #[test]
    fn no_line_of_a_text_is_wider_than_its_room() {
        let text = format!("a title of many words and {} of one that is long", "x".repeat(90));
        for room in [120.0, 300.0, 700.0] {
            let lines = lines_of(&text, room, &STYLE);
            let widest = |line: &String| Fonts::load().width(line, STYLE.size, STYLE.medium);
            assert!(lines.iter().map(widest).all(|wide| wide <= room), "{lines:?}");
            let letters = |text: &str| text.replace(' ', "");
            assert_eq!(letters(&lines.concat()), letters(&text));
        }
        let short = shortened(&text, 100.0, &STYLE);
        assert!(short.starts_with("a title") && short.ends_with('…'), "{short}");
    }

    #[test]
    fn a_name_has_no_more_lines_than_there_is_room_for() {
        let wide = |line: &String| Fonts::load().width(line, STYLE.size, STYLE.medium);
        assert_eq!(in_lines("pfifo limit 1000", 60.0, 3, &STYLE), ["pfifo", "limit", "1000"]);
        let long = in_lines("cake bandwidth 10mbit ack-filter nat", 90.0, 2, &STYLE);
        assert!(long.len() == 2 && long[1].ends_with('…'), "{long:?}");
        assert!(long.iter().all(|line| wide(line) <= 90.0), "{long:?}");
    }

    #[test]
    fn numbers_and_name_of_the_vertical_axis_do_not_meet() {
        for high in [8.0, 80_000.0, 5e9] {
            let mut scene = Scene::new(600.0, 400.0, "");
            let axis = Axis::round(0.0, high, 4);
            let frame = heading(&mut scene, "t", "", &[]).with_axis_numbers(&axis);
            let number = Fonts::load().width(&axis.label(axis.high), 11.5, false);
            assert!(frame.left - NUMBER_GAP - number >= UPRIGHT, "{high}: {}", frame.left);
        }
    }

    #[test]
    fn what_has_no_title_begins_with_its_subtitle() {
        let drawn = |title: &str, subtitle: &str| {
            let mut scene = Scene::new(400.0, 300.0, "");
            let top = heading(&mut scene, title, subtitle, &[]).top;
            let texts = scene.shapes.iter().filter(|shape| matches!(shape, Shape::Text { .. }));
            (texts.count(), top)
        };
        assert_eq!(drawn("Throughput", "seed 1"), (2, 76.0));
        assert_eq!(drawn("", "seed 1"), (1, 56.0));
        assert_eq!(drawn("", ""), (0, 36.0));
    }

    #[test]
    fn the_data_has_room_below_any_heading() {
        let label = "a line with a name of its own";
        let labels: Vec<Sample<'_>> =
            (0..32).map(|_| Sample { fill: Colour::INK, dash: None, label }).collect();
        let mut scene = Scene::new(200.0, 200.0, "");
        let frame = heading(&mut scene, "A title in several lines", "of which too", &labels);
        assert!(frame.bottom - frame.top >= LEAST_FRAME, "{}", frame.bottom - frame.top);
        assert!((scene.height - frame.bottom - BOTTOM).abs() < 1e-3, "{}", scene.height);
        let Shape::Rect { frame: paper, .. } = scene.shapes[0] else { panic!("a background") };
        assert!((paper[3] - scene.height).abs() < 1e-3, "{paper:?}");
    }
}
