//! A drawing as PDF: one page, letters as outlines.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::{Content, Filter, Finish as _, Pdf, Rect, Ref, TextStr};
use ttf_parser::OutlineBuilder;

use super::font::Fonts;
use super::scene::{Anchor, Colour, Scene, Shape, TextStyle};

/// Points (1/72 inch) for each unit of the drawing, which is a pixel of 1/96 inch.
const SCALE: f32 = 0.75;

/// The bytes of a PDF file.
pub fn pdf(scene: &Scene) -> Vec<u8> {
    let [catalog, pages, page, content, info] = [1, 2, 3, 4, 5].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut one = pdf.page(page);
    let (width, height) = (scene.width * SCALE, scene.height * SCALE);
    one.media_box(Rect::new(0.0, 0.0, width, height)).parent(pages).contents(content);
    one.resources();
    one.finish();
    pdf.document_info(info).title(TextStr(&scene.description)).producer(TextStr("ackwright"));
    let mut drawn = Content::new();
    // From above downwards, as everywhere in a drawing.
    drawn.transform([SCALE, 0.0, 0.0, -SCALE, 0.0, height]);
    let fonts = Fonts::load();
    for shape in &scene.shapes {
        draw(&mut drawn, shape, &fonts);
    }
    pdf.stream(content, &compressed(&drawn.finish())).filter(Filter::FlateDecode);
    pdf.finish()
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

fn draw(out: &mut Content, shape: &Shape, fonts: &Fonts) {
    match shape {
        Shape::Rect { frame: [x, y, width, height], fill } => {
            colour(out, *fill);
            out.rect(*x, *y, *width, *height).fill_nonzero();
        }
        Shape::Path { points, colour: Colour(r, g, b), width, dash } => {
            let [r, g, b] = [r, g, b].map(|part| f32::from(*part) / 255.0);
            out.set_stroke_rgb(r, g, b).set_line_width(*width);
            out.set_line_join(pdf_writer::types::LineJoinStyle::RoundJoin);
            out.set_dash_pattern(dash.iter().flatten().copied(), 0.0);
            around(out, points);
            out.stroke();
        }
        Shape::Area { points, fill } => {
            colour(out, *fill);
            around(out, points);
            out.close_path().fill_nonzero();
        }
        Shape::Dot { at: [x, y], radius, fill } => {
            colour(out, *fill);
            // Four Bezier curves, off a circle by less than a thousandth.
            let (r, k) = (*radius, *radius * 0.552_284_8);
            out.move_to(x + r, *y);
            out.cubic_to(x + r, y + k, x + k, y + r, *x, y + r);
            out.cubic_to(x - k, y + r, x - r, y + k, x - r, *y);
            out.cubic_to(x - r, y - k, x - k, y - r, *x, y - r);
            out.cubic_to(x + k, y - r, x + r, y - k, x + r, *y);
            out.fill_nonzero();
        }
        Shape::Text { at, text, style } => write(out, *at, text, style, fonts),
    }
}

fn colour(out: &mut Content, Colour(r, g, b): Colour) {
    let [r, g, b] = [r, g, b].map(|part| f32::from(part) / 255.0);
    out.set_fill_rgb(r, g, b);
}

fn around(out: &mut Content, points: &[[f32; 2]]) {
    for (index, [x, y]) in points.iter().enumerate() {
        if index == 0 {
            out.move_to(*x, *y)
        } else {
            out.line_to(*x, *y)
        };
    }
}

fn write(out: &mut Content, at: [f32; 2], text: &str, style: &TextStyle, fonts: &Fonts) {
    let width = fonts.width(text, style.size, style.medium);
    let shift = match style.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    };
    colour(out, style.colour);
    out.save_state();
    if style.upright {
        out.transform([0.0, -1.0, 1.0, 0.0, at[0], at[1]]);
    } else {
        out.transform([1.0, 0.0, 0.0, 1.0, at[0], at[1]]);
    }
    let mut glyphs = Vec::new();
    let pen = |x: f32, scale: f32| Pen { parts: Vec::new(), x: x + shift, scale, at: (0.0, 0.0) };
    fonts.outline(text, style.size, style.medium, pen, |pen| glyphs.extend(pen.parts));
    let any = !glyphs.is_empty();
    for part in glyphs {
        match part {
            Part::Move(x, y) => out.move_to(x, y),
            Part::Line(x, y) => out.line_to(x, y),
            Part::Curve(a, b, c, d, x, y) => out.cubic_to(a, b, c, d, x, y),
            Part::Close => out.close_path(),
        };
    }
    if any {
        out.fill_nonzero();
    }
    out.restore_state();
}

/// A part of an outline, downwards.
enum Part {
    Move(f32, f32),
    Line(f32, f32),
    Curve(f32, f32, f32, f32, f32, f32),
    Close,
}

/// Turns a glyph's outline (upwards, in font units) into parts.
struct Pen {
    parts: Vec<Part>,
    x: f32,
    scale: f32,
    at: (f32, f32),
}

impl Pen {
    fn point(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.at = self.point(x, y);
        self.parts.push(Part::Move(self.at.0, self.at.1));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.at = self.point(x, y);
        self.parts.push(Part::Line(self.at.0, self.at.1));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((ax, ay), (cx, cy), (x, y)) = (self.at, self.point(x1, y1), self.point(x, y));
        let toward = |from: f32, to: f32| from + (to - from) * 2.0 / 3.0;
        let (b, d) = ((toward(ax, cx), toward(ay, cy)), (toward(x, cx), toward(y, cy)));
        self.parts.push(Part::Curve(b.0, b.1, d.0, d.1, x, y));
        self.at = (x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (a, b, to) = (self.point(x1, y1), self.point(x2, y2), self.point(x, y));
        self.parts.push(Part::Curve(a.0, a.1, b.0, b.1, to.0, to.1));
        self.at = to;
    }

    fn close(&mut self) {
        self.parts.push(Part::Close);
    }
}
