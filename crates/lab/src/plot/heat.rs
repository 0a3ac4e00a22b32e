//! Heat maps: a value for each pair of two things, as a colour and a number.

use super::axis::grouped;
use super::chart::{described, suited};
use super::font::Fonts;
use super::heading::{heading, small, upright_label};
use super::scene::{Anchor, Colour, Scene, Shape, TextStyle};

/// Values in a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// Title; may be empty.
    pub title: String,
    /// A second line; may be empty.
    pub subtitle: String,
    /// What goes from left to right.
    pub x_label: String,
    /// What goes from below upwards.
    pub y_label: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The names of the rows, the first below.
    pub rows: Vec<String>,
    /// The values, row by row.
    pub values: Vec<Vec<Option<f64>>>,
    /// Width and height of the picture; as usual if zero.
    pub size: [f32; 2],
}

/// Low and high: a scale of one hue, from light to dark, that keeps its order in grey.
const LOW: Colour = Colour(0xf1, 0xf6, 0xfa);
const HIGH: Colour = Colour(0x00, 0x4c, 0x7f);

impl HeatMap {
    /// Draws it.
    pub fn draw(&self) -> Scene {
        let [width, height] = suited(self.size);
        let mut scene = Scene::new(width, height, described(&self.title, &self.y_label));
        let known = || self.values.iter().flatten().flatten();
        let low = known().copied().fold(f64::INFINITY, f64::min);
        let high = known().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut subtitle = self.subtitle.clone();
        if high > low {
            let between = if subtitle.is_empty() { "" } else { "; " };
            let range =
                format!("{between}from {} (light) to {} (dark)", written(low), written(high));
            subtitle.push_str(&range);
        }
        let mut frame = heading(&mut scene, &self.title, &subtitle, &[]);
        let fonts = Fonts::load();
        let style = TextStyle { anchor: Anchor::Middle, size: 12.5, ..small(Colour::INK) };
        let names = self.rows.iter().map(|name| fonts.width(name, style.size, false));
        frame.left = 44.0 + names.fold(0.0, f32::max);
        let width = (frame.right - frame.left) / self.columns.len().max(1) as f32;
        let height = (frame.bottom - frame.top) / self.rows.len().max(1) as f32;
        for (row, values) in self.values.iter().enumerate() {
            let top = frame.bottom - height * (row + 1) as f32;
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let left = frame.left + width * column as f32;
                let place = if high > low { (value - low) / (high - low) } else { 0.5 };
                let cell = [left + 1.0, top + 1.0, width - 2.0, height - 2.0];
                scene.shapes.push(Shape::Rect { frame: cell, fill: mixed(place) });
                let text = written(*value);
                let colour = if place > 0.55 { Colour::WHITE } else { Colour::INK };
                if fonts.width(&text, 12.0, false) < width - 4.0 && height > 14.0 {
                    let at = [left + width / 2.0, top + height / 2.0 + 4.0];
                    scene.text(at, &text, TextStyle { size: 12.0, colour, ..style });
                }
            }
        }
        // Names that would run into each other are left out.
        let mut free = f32::INFINITY;
        for (row, name) in self.rows.iter().enumerate() {
            let base = frame.bottom - height * (row as f32 + 0.5) + 4.0;
            if base < free {
                let side = TextStyle { anchor: Anchor::End, ..style };
                scene.text([frame.left - 8.0, base], name, side);
                free = base - style.size;
            }
        }
        let mut free = f32::NEG_INFINITY;
        for (column, name) in self.columns.iter().enumerate() {
            let middle = frame.left + width * (column as f32 + 0.5);
            let half = fonts.width(name, style.size, false) / 2.0;
            if middle - half > free {
                scene.text([middle, frame.bottom + 18.0], name, style);
                free = middle + half + 4.0;
            }
        }
        let grey = TextStyle { colour: Colour::GREY, ..style };
        let middle = f32::midpoint(frame.left, frame.right);
        scene.text([middle, frame.bottom + 40.0], &self.x_label, grey);
        upright_label(&mut scene, [frame.top, frame.bottom], &self.y_label);
        scene
    }
}

/// A value as its cell has it.
fn written(value: f64) -> String {
    if value >= 10_000.0 { grouped(value, 0) } else { crate::report::number(value) }
}

/// Between [`LOW`] and [`HIGH`].
fn mixed(place: f64) -> Colour {
    let part = |low: u8, high: u8| {
        (f64::from(low) + (f64::from(high) - f64::from(low)) * place.clamp(0.0, 1.0)).round() as u8
    };
    Colour(part(LOW.0, HIGH.0), part(LOW.1, HIGH.1), part(LOW.2, HIGH.2))
}
