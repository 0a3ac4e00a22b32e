//! A drawing as PDF: one page, letters as outlines.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::{Content, Filter, Finish as _, Pdf, Rect, Ref, TextStr};

use super::font::{Fonts, Part};
use super::scene::{Colour, Scene, Shape, TextStyle};

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
    let left = style.anchor.shift(width);
    colour(out, style.colour);
    out.save_state();
    if style.upright {
        out.transform([0.0, -1.0, 1.0, 0.0, at[0], at[1]]);
    } else {
        out.transform([1.0, 0.0, 0.0, 1.0, at[0], at[1]]);
    }
    let (mut any, mut here) = (false, [0.0; 2]);
    fonts.outline(text, style, left, |part| {
        any = true;
        match part {
            Part::Move([x, y]) => out.move_to(x, y),
            Part::Line([x, y]) => out.line_to(x, y),
            Part::Quad([through, to]) => {
                let [a, b] = [here, to].map(|end| toward(end, through));
                out.cubic_to(a[0], a[1], b[0], b[1], to[0], to[1])
            }
            Part::Curve([a, b, to]) => out.cubic_to(a[0], a[1], b[0], b[1], to[0], to[1]),
            Part::Close => out.close_path(),
        };
        if let Part::Move(to) | Part::Line(to) | Part::Quad([.., to]) | Part::Curve([.., to]) = part
        {
            here = to;
        }
    });
    if any {
        out.fill_nonzero();
    }
    out.restore_state();
}

/// Two thirds of the way: where a quadratic curve through `through` has its cubic control point.
fn toward(from: [f32; 2], through: [f32; 2]) -> [f32; 2] {
    [0, 1].map(|axis| from[axis] + (through[axis] - from[axis]) * 2.0 / 3.0)
}
