//! The letters of PNG and PDF plots: Roboto 2.138 (Apache-2.0), cut down to Latin, Greek and Cyrillic letters, digits and
//! signs. What it does not have shows as a question mark.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::scene::TextStyle;

/// The two weights, parsed.
pub struct Fonts {
    regular: Face<'static>,
    medium: Face<'static>,
}

impl Fonts {
    /// Parses the built-in fonts.
    pub fn load() -> Self {
        let parse = |bytes| Face::parse(bytes, 0).expect("the built-in font is well-formed");
        Self { regular: parse(REGULAR), medium: parse(MEDIUM) }
    }

    fn face(&self, medium: bool) -> &Face<'static> {
        if medium { &self.medium } else { &self.regular }
    }

    /// Width of `text` at `size`.
    pub fn width(&self, text: &str, size: f32, medium: bool) -> f32 {
        let face = self.face(medium);
        let scale = size / f32::from(face.units_per_em());
        text.chars().map(|c| advance(face, glyph(face, c)) * scale).sum()
    }

    /// Hands the outlines of all glyphs of `text` to `part`, the first of them from `left` on.
    pub fn outline(&self, text: &str, style: &TextStyle, left: f32, part: impl FnMut(Part)) {
        let face = self.face(style.medium);
        let scale = style.size / f32::from(face.units_per_em());
        let mut x = 0.0;
        let mut pen = Pen { part, x, scale };
        for c in text.chars() {
            let id = glyph(face, c);
            pen.x = x + left;
            face.outline_glyph(id, &mut pen);
            x += advance(face, id) * scale;
        }
    }
}

/// A part of an outline, in units of the drawing, downwards; the last point is where it leads.
pub enum Part {
    /// To where the next part begins.
    Move([f32; 2]),
    /// A straight line.
    Line([f32; 2]),
    /// A quadratic curve.
    Quad([[f32; 2]; 2]),
    /// A cubic curve.
    Curve([[f32; 2]; 3]),
    /// Back to where the outline began.
    Close,
}

/// Turns outlines of glyphs, upwards and in units of the font, into parts.
struct Pen<P> {
    part: P,
    x: f32,
    scale: f32,
}

impl<P> Pen<P> {
    fn point(&self, x: f32, y: f32) -> [f32; 2] {
        [self.x + x * self.scale, -y * self.scale]
    }
}

impl<P: FnMut(Part)> OutlineBuilder for Pen<P> {
    fn move_to(&mut self, x: f32, y: f32) {
        let to = self.point(x, y);
        (self.part)(Part::Move(to));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.point(x, y);
        (self.part)(Part::Line(to));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let points = [self.point(x1, y1), self.point(x, y)];
        (self.part)(Part::Quad(points));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let points = [self.point(x1, y1), self.point(x2, y2), self.point(x, y)];
        (self.part)(Part::Curve(points));
    }

    fn close(&mut self) {
        (self.part)(Part::Close);
    }
}

/// The glyph of a character; a question mark for one that is missing, so that nothing vanishes unseen.
fn glyph(face: &Face<'_>, c: char) -> GlyphId {
    face.glyph_index(c).or_else(|| face.glyph_index('?')).unwrap_or(GlyphId(0))
}

fn advance(face: &Face<'_>, id: GlyphId) -> f32 {
    f32::from(face.glyph_hor_advance(id).unwrap_or(0))
}

const REGULAR: &[u8] = include_bytes!("../../assets/Roboto-Regular.ttf");
const MEDIUM: &[u8] = include_bytes!("../../assets/Roboto-Medium.ttf");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::scene::{Anchor, Colour};

    #[test]
    fn every_letter_of_a_title_is_drawn() {
        let fonts = Fonts::load();
        for medium in [false, true] {
            for letter in "Größe ŁódźΔλЖя½µ→≈漢".chars().filter(|it| !it.is_whitespace())
            {
                let colour = Colour(0, 0, 0);
                let style =
                    TextStyle { size: 12.0, medium, colour, anchor: Anchor::Start, upright: false };
                let mut strokes = 0;
                let count = |part| strokes += usize::from(matches!(part, Part::Move(_)));
                fonts.outline(&letter.to_string(), &style, 0.0, count);
                assert!(strokes > 0, "{letter} is not there");
            }
        }
    }
}
