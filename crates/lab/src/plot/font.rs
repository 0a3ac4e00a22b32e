//! The letters of PNG plots: Roboto (Apache-2.0), cut down to the characters that plots use.

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

/// The glyph of a character; a missing one shows as the font's empty box.
fn glyph(face: &Face<'_>, c: char) -> GlyphId {
    face.glyph_index(c).unwrap_or(GlyphId(0))
}

fn advance(face: &Face<'_>, id: GlyphId) -> f32 {
    f32::from(face.glyph_hor_advance(id).unwrap_or(0))
}

const REGULAR: &[u8] = include_bytes!("../../assets/Roboto-Regular.ttf");
const MEDIUM: &[u8] = include_bytes!("../../assets/Roboto-Medium.ttf");
