//! A drawing as a list of shapes, before it becomes SVG or PNG.

/// A colour, 8 bits each of red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Where a text's reference point lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its start.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

impl Anchor {
    /// How far to the right of the reference point a text of this width begins.
    pub(super) fn shift(self, width: f32) -> f32 {
        match self {
            Self::Start => 0.0,
            Self::Middle => -width / 2.0,
            Self::End => -width,
        }
    }
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextStyle {
    /// Height of the letters' em square, in units of the drawing.
    pub size: f32,
    /// Heavier strokes, for titles.
    pub medium: bool,
    /// Colour.
    pub colour: Colour,
    /// Where the reference point lies.
    pub anchor: Anchor,
    /// Turned a quarter to the left, for the label of a vertical axis.
    pub upright: bool,
}

/// Something to draw. Coordinates grow to the right and downwards.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle.
    Rect {
        /// Left, top, width, height.
        frame: [f32; 4],
        /// Fill.
        fill: Colour,
    },
    /// A line through points.
    Path {
        /// The points.
        points: Vec<[f32; 2]>,
        /// Colour.
        colour: Colour,
        /// Width.
        width: f32,
        /// Lengths of dash and gap; `None` is an unbroken line.
        dash: Option<[f32; 2]>,
    },
    /// A filled area within points.
    Area {
        /// The points around it.
        points: Vec<[f32; 2]>,
        /// Fill.
        fill: Colour,
    },
    /// A filled circle.
    Dot {
        /// Middle.
        at: [f32; 2],
        /// Radius.
        radius: f32,
        /// Fill.
        fill: Colour,
    },
    /// Writing; the reference point is on the base line.
    Text {
        /// Reference point.
        at: [f32; 2],
        /// What is written.
        text: String,
        /// How.
        style: TextStyle,
    },
}

/// A drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Width in units.
    pub width: f32,
    /// Height in units.
    pub height: f32,
    /// What is drawn, first below: the first of all is the white paper.
    pub shapes: Vec<Shape>,
    /// What the picture shows, for those who cannot see it.
    pub description: String,
}

impl Scene {
    /// An empty white drawing.
    pub fn new(width: f32, height: f32, description: &str) -> Self {
        let background = Shape::Rect { frame: [0.0, 0.0, width, height], fill: Colour::WHITE };
        Self { width, height, shapes: vec![background], description: description.into() }
    }

    /// Makes the drawing taller, if it is not so tall yet.
    pub fn grow(&mut self, height: f32) {
        if height > self.height {
            self.height = height;
            if let Some(Shape::Rect { frame, .. }) = self.shapes.first_mut() {
                frame[3] = height;
            }
        }
    }

    /// Adds a straight line.
    pub fn line(&mut self, from: [f32; 2], to: [f32; 2], colour: Colour, width: f32) {
        self.shapes.push(Shape::Path { points: vec![from, to], colour, width, dash: None });
    }

    /// Adds writing.
    pub fn text(&mut self, at: [f32; 2], text: &str, style: TextStyle) {
        self.shapes.push(Shape::Text { at, text: text.into(), style });
    }
}

impl Colour {
    /// Paper.
    pub const WHITE: Self = Self(255, 255, 255);
    /// Titles.
    pub const INK: Self = Self(0x22, 0x26, 0x2b);
    /// Labels of axes.
    pub const GREY: Self = Self(0x5b, 0x64, 0x6e);
    /// Axes.
    pub const AXIS: Self = Self(0x9a, 0xa3, 0xad);
    /// Grid.
    pub const GRID: Self = Self(0xe4, 0xe8, 0xec);

    /// Colours of data that stay apart for colour-blind readers (after Okabe and Ito).
    pub const DATA: [Self; 8] = [
        Self(0x00, 0x72, 0xb2),
        Self(0xd5, 0x5e, 0x00),
        Self(0x00, 0x9e, 0x73),
        Self(0xcc, 0x79, 0xa7),
        Self(0xe6, 0x9f, 0x00),
        Self(0x56, 0xb4, 0xe9),
        Self(0x7a, 0x5c, 0x3e),
        Self(0x6b, 0x6b, 0x6b),
    ];

    /// The colour of data series number `index`.
    pub fn data(index: usize) -> Self {
        Self::DATA[index % Self::DATA.len()]
    }
}
