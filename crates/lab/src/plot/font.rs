//! The letters of PNG and PDF plots: Roboto 2.138 (Apache-2.0), cut down to Latin, Greek and Cyrillic letters, digits and
//! signs. What it does not have shows as a question mark.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

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

    /// Hands the outline of every glyph of `text` to `pen`, with the glyph's left edge and scale.
    pub fn outline<P: OutlineBuilder>(
        &self,
        text: &str,
        size: f32,
        medium: bool,
        mut pen: impl FnMut(f32, f32) -> P,
        mut done: impl FnMut(P),
    ) {
        let face = self.face(medium);
        let scale = size / f32::from(face.units_per_em());
        let mut x = 0.0;
        for c in text.chars() {
            let id = glyph(face, c);
            let mut builder = pen(x, scale);
            face.outline_glyph(id, &mut builder);
            done(builder);
            x += advance(face, id) * scale;
        }
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

    /// How many strokes the outline of a text has.
    #[derive(Default)]
    struct Strokes(usize);

    impl OutlineBuilder for Strokes {
        fn move_to(&mut self, _: f32, _: f32) {
            self.0 += 1;
        }
        fn line_to(&mut self, _: f32, _: f32) {}
        fn quad_to(&mut self, _: f32, _: f32, _: f32, _: f32) {}
        fn curve_to(&mut self, _: f32, _: f32, _: f32, _: f32, _: f32, _: f32) {}
        fn close(&mut self) {}
    }

    #[test]
    fn every_letter_of_a_title_is_drawn() {
        let fonts = Fonts::load();
        for medium in [false, true] {
            for letter in "Größe ŁódźΔλЖя½µ→≈漢".chars().filter(|it| !it.is_whitespace())
            {
                let mut strokes = 0;
                let pen = |_, _| Strokes::default();
                fonts.outline(&letter.to_string(), 12.0, medium, pen, |pen| strokes += pen.0);
                assert!(strokes > 0, "{letter} is not there");
            }
        }
    }
}
