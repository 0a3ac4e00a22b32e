//! A drawing as PNG, at twice its size so that it is sharp on any screen.

use std::io::Write;

use tiny_skia::{
    FillRule, LineJoin, Paint, Path, PathBuilder, PathStroker, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};

use super::font::{Fonts, Part};
use super::scene::{Colour, Scene, Shape, TextStyle};

/// What each byte of an opaque white pixel is.
const WHITE: u8 = 255;

/// Pixels per unit of the drawing.
const SCALE: f32 = 2.0;

/// A drawing is made and packed so many rows of pixels at a time, which stay in the caches meanwhile. All of it at once
/// would be memory new to the process, which takes as long to get as to draw on.
const BAND: usize = 80;

/// The bytes of a PNG file; `None` only for a drawing without area.
pub fn png(scene: &Scene) -> Option<Vec<u8>> {
    let [width, height] = [scene.width, scene.height].map(|units| (units * SCALE).ceil() as usize);
    let mut band = Pixmap::new(width as u32, BAND as u32)?;
    let areas = areas(scene);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    // A drawing is opaque, so three bytes a pixel are enough. The fast compression takes a fraction of the default
    // one's time, and lines on a white ground are small anyway.
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    // Most rows are like the one above.
    encoder.set_filter(png::Filter::Up);
    let mut writer = encoder.write_header().ok()?;
    let mut rows = writer.stream_writer().ok()?;
    for top in (0..height).step_by(BAND) {
        band.data_mut().fill(WHITE);
        draw(&mut band, &areas, top as f32);
        let pixels = width * BAND.min(height - top);
        compress(&mut rows, packed(&mut band.data_mut()[..4 * pixels])).ok()?;
    }
    rows.finish().ok()?;
    writer.finish().ok()?;
    Some(file)
}

/// In a function of its own, as [`packed`] is: a larger one has too few registers for a loop over all pixels.
#[inline(never)]
fn compress(rows: &mut impl Write, pixels: &[u8]) -> std::io::Result<()> {
    rows.write_all(pixels)
}

/// Three bytes of each four move together.
#[inline(never)]
fn packed(data: &mut [u8]) -> &[u8] {
    let pixels = data.len() / 4;
    for pixel in 0..pixels {
        // The fourth byte goes along, as all four are one move, and under the next pixel.
        data.copy_within(4 * pixel..4 * pixel + 4, 3 * pixel);
    }
    &data[..3 * pixels]
}

/// Something to fill, in pixels.
type Area = (Path, Colour);

/// Everything in a drawing, first below.
fn areas(scene: &Scene) -> Vec<Area> {
    let fonts = Fonts::load();
    let mut areas = Vec::new();
    // The first shape is the paper, as white as the pixels are.
    scene.shapes.iter().skip(1).for_each(|shape| add_shape(&mut areas, shape, &fonts));
    areas
}

/// Fills what there is of all areas below row `top`.
fn draw(band: &mut Pixmap, areas: &[Area], top: f32) {
    let shift = Transform::from_translate(0.0, -top);
    for (path, colour) in areas {
        let bounds = path.bounds();
        if bounds.bottom() > top && bounds.top() < top + BAND as f32 {
            band.fill_path(path, &paint(*colour), FillRule::Winding, shift, None);
        }
    }
}

/// From units of the drawing to pixels.
fn to_pixels() -> Transform {
    Transform::from_scale(SCALE, SCALE)
}

fn add(areas: &mut Vec<Area>, path: Option<Path>, place: Transform, colour: Colour) {
    areas.extend(path.and_then(|path| path.transform(place)).map(|path| (path, colour)));
}

fn add_shape(areas: &mut Vec<Area>, shape: &Shape, fonts: &Fonts) {
    match shape {
        Shape::Rect { frame: [x, y, width, height], fill } => {
            let rect = Rect::from_xywh(*x, *y, *width, *height);
            add(areas, rect.map(PathBuilder::from_rect), to_pixels(), *fill);
        }
        Shape::Path { points, colour, width, dash } => {
            add_line(areas, points, *colour, *width, *dash);
        }
        Shape::Area { points, fill } => {
            let mut path = joined(points);
            path.close();
            add(areas, path.finish(), to_pixels(), *fill);
        }
        Shape::Dot { at: [x, y], radius, fill } => {
            add(areas, PathBuilder::from_circle(*x, *y, *radius), to_pixels(), *fill);
        }
        Shape::Text { at, text, style } => add_text(areas, *at, text, style, fonts),
    }
}

fn add_line(
    areas: &mut Vec<Area>,
    points: &[[f32; 2]],
    colour: Colour,
    width: f32,
    dash: Option<[f32; 2]>,
) {
    let stroke = Stroke { width, line_join: LineJoin::Round, ..Stroke::default() };
    let dash = dash.and_then(|[on, off]| StrokeDash::new(vec![on, off], 0.0));
    let fineness = PathStroker::compute_resolution_scale(&to_pixels());
    for piece in pieces(points, dash.is_some()) {
        let line = joined(piece).finish();
        let line = match &dash {
            Some(dash) => line.and_then(|line| line.dash(dash, fineness)),
            None => line,
        };
        add(areas, line.and_then(|line| line.stroke(&stroke, fineness)), to_pixels(), colour);
    }
}

fn add_text(areas: &mut Vec<Area>, at: [f32; 2], text: &str, style: &TextStyle, fonts: &Fonts) {
    let width = fonts.width(text, style.size, style.medium);
    let turn = if style.upright { -90.0 } else { 0.0 };
    let place = Transform::from_translate(style.anchor.shift(width), 0.0)
        .post_rotate(turn)
        .post_translate(at[0], at[1])
        .post_concat(to_pixels());
    // All letters together: each path takes longer to begin than a letter to fill.
    let mut path = PathBuilder::new();
    fonts.outline(text, style, 0.0, |part| match part {
        Part::Move([x, y]) => path.move_to(x, y),
        Part::Line([x, y]) => path.line_to(x, y),
        Part::Quad([a, to]) => path.quad_to(a[0], a[1], to[0], to[1]),
        Part::Curve([a, b, to]) => path.cubic_to(a[0], a[1], b[0], b[1], to[0], to[1]),
        Part::Close => path.close(),
    });
    add(areas, path.finish(), place, style.colour);
}

/// A path from point to point.
fn joined(points: &[[f32; 2]]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (index, [x, y]) in points.iter().enumerate() {
        if index == 0 { path.move_to(*x, *y) } else { path.line_to(*x, *y) }
    }
    path
}

/// A line is drawn in pieces of so many points, of which few bands see more than a few: each row of pixels looks at
/// all edges of what it sees.
const PIECE: usize = 64;

/// The pieces of a line, or all of it if it is dashed. Each ends with the stretch with which the next one begins, so
/// that the corner between the two is round as well.
fn pieces(points: &[[f32; 2]], is_dashed: bool) -> impl Iterator<Item = &[[f32; 2]]> {
    let step = if is_dashed { points.len() } else { PIECE };
    let starts = (0..points.len().saturating_sub(1)).step_by(step.max(1));
    starts.map(move |start| &points[start..points.len().min(start + step + 2)])
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(colour.0, colour.1, colour.2, 255);
    paint.anti_alias = true;
    paint
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three bytes a pixel, row by row, and how many pixels a row has.
    fn decoded(file: &[u8]) -> (Vec<u8>, usize) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let frame = reader.next_frame(&mut pixels).expect("a picture");
        assert_eq!(frame.color_type, png::ColorType::Rgb);
        (pixels, frame.width as usize)
    }

    #[test]
    fn what_crosses_bands_is_whole() {
        let mut scene = Scene::new(30.0, 101.0, "lines");
        scene.line([10.0, 5.0], [10.0, 96.0], Colour(255, 0, 0), 2.0);
        let (pixels, width) = decoded(&png(&scene).expect("a file"));
        assert_eq!((width, pixels.len()), (60, 3 * 60 * 202), "the last band is not full");
        for (row, pixels) in pixels.chunks(3 * width).enumerate() {
            let is_line = (10..192).contains(&row);
            for (column, pixel) in pixels.chunks(3).enumerate() {
                let is_red = is_line && (18..22).contains(&column);
                assert_eq!(pixel, if is_red { [255, 0, 0] } else { [255; 3] }, "{row}, {column}");
            }
        }
    }

    #[test]
    fn pieces_are_one_line() {
        let points: Vec<[f32; 2]> = (0..1_000_u16).map(|at| [f32::from(at), 0.0]).collect();
        for count in [2, 3, PIECE, PIECE + 1, PIECE + 2, 1_000] {
            let ends: Vec<_> = pieces(&points[..count], false)
                .map(|piece| (piece[0][0] as usize, piece[piece.len() - 1][0] as usize))
                .collect();
            assert_eq!((ends[0].0, ends[ends.len() - 1].1), (0, count - 1));
            let meet = ends.windows(2).all(|two| two[0].1 == (two[1].0 + 1).min(count - 1));
            assert!(meet, "each ends with the first stretch of the next: {ends:?}");
            assert_eq!(pieces(&points[..count], true).count(), 1, "dashes go on");
        }
        assert_eq!(pieces(&points[..1], false).count(), 0);
    }
}
