//! A drawing as PNG, at twice its size so that it is sharp on any screen.

use std::cell::Cell;

use tiny_skia::{
    FillRule, IntSize, LineJoin, Paint, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

use super::font::Fonts;
use super::scene::{Anchor, Colour, Scene, Shape, TextStyle};

/// What each byte of an opaque white pixel is.
const WHITE: u8 = 255;

/// Pixels per unit of the drawing.
const SCALE: f32 = 2.0;

/// The bytes of a PNG file; `None` only for a drawing without area.
pub fn png(scene: &Scene) -> Option<Vec<u8>> {
    let size = IntSize::from_wh(
        (scene.width * SCALE).ceil() as u32,
        (scene.height * SCALE).ceil() as u32,
    )?;
    // The drawings of a run are made one after the other, in the same memory: to get it anew from the
    // system, which clears it, would take as long as drawing.
    let mut data = BUFFER.take();
    data.clear();
    data.resize(size.width() as usize * size.height() as usize * 4, WHITE);
    let mut pixels = Pixmap::from_vec(data, size)?;
    let fonts = Fonts::load();
    // The first is the paper, as white as the pixels are.
    for shape in scene.shapes.iter().skip(1) {
        draw(&mut pixels, shape, &fonts);
    }
    let mut data = pixels.take();
    let file = encode(&mut data, size);
    BUFFER.set(data);
    file
}

thread_local! {
    /// What the latest drawing was made in.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A drawing is opaque, so three bytes a pixel are enough: they move together. The fast compression takes a fraction of
/// the default one's time, and lines on a white ground are small anyway.
fn encode(data: &mut [u8], size: IntSize) -> Option<Vec<u8>> {
    let pixels = data.len() / 4;
    for pixel in 0..pixels {
        // The fourth byte goes along, as all four are one move, and under the next pixel.
        data.copy_within(4 * pixel..4 * pixel + 4, 3 * pixel);
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size.width(), size.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    // Most rows are like the one above.
    encoder.set_filter(png::Filter::Up);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&data[..3 * pixels]).ok()?;
    writer.finish().ok()?;
    Some(file)
}

fn draw(pixels: &mut Pixmap, shape: &Shape, fonts: &Fonts) {
    let scale = Transform::from_scale(SCALE, SCALE);
    match shape {
        Shape::Rect { frame: [x, y, width, height], fill } => {
            if let Some(rect) = Rect::from_xywh(*x, *y, *width, *height) {
                pixels.fill_rect(rect, &paint(*fill), scale, None);
            }
        }
        Shape::Path { points, colour, width, dash } => {
            let stroke = Stroke {
                width: *width,
                line_join: LineJoin::Round,
                dash: dash.and_then(|[on, off]| StrokeDash::new(vec![on, off], 0.0)),
                ..Stroke::default()
            };
            for piece in pieces(points, stroke.dash.is_some()) {
                if let Some(path) = joined(piece).finish() {
                    pixels.stroke_path(&path, &paint(*colour), &stroke, scale, None);
                }
            }
        }
        Shape::Area { points, fill } => {
            let mut path = joined(points);
            path.close();
            if let Some(path) = path.finish() {
                pixels.fill_path(&path, &paint(*fill), FillRule::Winding, scale, None);
            }
        }
        Shape::Dot { at: [x, y], radius, fill } => {
            if let Some(path) = PathBuilder::from_circle(*x, *y, *radius) {
                pixels.fill_path(&path, &paint(*fill), FillRule::Winding, scale, None);
            }
        }
        Shape::Text { at, text, style } => draw_text(pixels, *at, text, style, fonts),
    }
}

/// A path from point to point.
fn joined(points: &[[f32; 2]]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (index, [x, y]) in points.iter().enumerate() {
        if index == 0 { path.move_to(*x, *y) } else { path.line_to(*x, *y) }
    }
    path
}

/// A line is drawn in pieces of so many points: the edges of a long one would need more memory than the drawing, and
/// each row of pixels would look at all those that cross it.
const PIECE: usize = 256;

/// The pieces of a line, or all of it if it is dashed. Each ends with the stretch with which the next one begins, so
/// that the corner between the two is round as well.
fn pieces(points: &[[f32; 2]], is_dashed: bool) -> impl Iterator<Item = &[[f32; 2]]> {
    let step = if is_dashed { points.len() } else { PIECE };
    let starts = (0..points.len().saturating_sub(1)).step_by(step.max(1));
    starts.map(move |start| &points[start..points.len().min(start + step + 2)])
}

fn draw_text(pixels: &mut Pixmap, at: [f32; 2], text: &str, style: &TextStyle, fonts: &Fonts) {
    let width = fonts.width(text, style.size, style.medium);
    let shift = match style.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    };
    let turn = if style.upright { -90.0 } else { 0.0 };
    let place = Transform::from_translate(shift, 0.0)
        .post_rotate(turn)
        .post_translate(at[0], at[1])
        .post_scale(SCALE, SCALE);
    // All letters together: each path takes longer to begin than a letter to fill.
    let path = Cell::new(PathBuilder::new());
    let pen = |x, scale| Pen { path: path.take(), x, scale };
    fonts.outline(text, style.size, style.medium, pen, |pen| path.set(pen.path));
    if let Some(path) = path.into_inner().finish() {
        pixels.fill_path(&path, &paint(style.colour), FillRule::Winding, place, None);
    }
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(colour.0, colour.1, colour.2, 255);
    paint.anti_alias = true;
    paint
}

/// Turns a glyph's outline (upwards, in font units) into a path (downwards, in drawing units).
struct Pen {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl Pen {
    fn point(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.point(x1, y1), self.point(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) =
            (self.point(x1, y1), self.point(x2, y2), self.point(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
