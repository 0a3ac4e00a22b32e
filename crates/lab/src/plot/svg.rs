//! A drawing as SVG.

use std::fmt::Write as _;

use super::scene::{Anchor, Colour, Scene, Shape, TextStyle};

/// The SVG text of a drawing.
pub fn svg(scene: &Scene) -> String {
    let mut out = String::new();
    let (width, height) = (number(scene.width), number(scene.height));
    let label = escape(&scene.description);
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{label}\" \
         font-family=\"Roboto, 'Helvetica Neue', Arial, sans-serif\">"
    );
    let _ = writeln!(out, "<title>{label}</title>");
    for shape in &scene.shapes {
        write_shape(&mut out, shape);
    }
    out.push_str("</svg>\n");
    out
}

fn write_shape(out: &mut String, shape: &Shape) {
    let _ = match shape {
        Shape::Rect { frame, fill } => {
            let [x, y, width, height] = frame.map(number);
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
                hex(*fill)
            )
        }
        Shape::Path { points, colour, width, dash } => {
            let mut data = String::new();
            for (index, point) in points.iter().enumerate() {
                let command = if index == 0 { 'M' } else { 'L' };
                let _ = write!(data, "{command}{} {}", number(point[0]), number(point[1]));
            }
            let dash = dash.map_or(String::new(), |[on, off]| {
                format!(" stroke-dasharray=\"{} {}\"", number(on), number(off))
            });
            writeln!(
                out,
                "<path d=\"{data}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" \
                 stroke-linejoin=\"round\"{dash}/>",
                hex(*colour),
                number(*width)
            )
        }
        Shape::Area { points, fill } => {
            let corner = |point: &[f32; 2]| format!("{},{}", number(point[0]), number(point[1]));
            let corners: Vec<String> = points.iter().map(corner).collect();
            writeln!(out, "<polygon points=\"{}\" fill=\"{}\"/>", corners.join(" "), hex(*fill))
        }
        Shape::Dot { at, radius, fill } => writeln!(
            out,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>",
            number(at[0]),
            number(at[1]),
            number(*radius),
            hex(*fill)
        ),
        Shape::Text { at, text, style } => write_text(out, *at, text, style),
    };
}

fn write_text(out: &mut String, at: [f32; 2], text: &str, style: &TextStyle) -> std::fmt::Result {
    let anchor = match style.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let (x, y) = (number(at[0]), number(at[1]));
    let weight = if style.medium { " font-weight=\"500\"" } else { "" };
    let turn =
        if style.upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{}\"\
         {weight}{turn}>{}</text>",
        number(style.size),
        hex(style.colour),
        escape(text)
    )
}

/// At most two decimals, without trailing zeros.
fn number(value: f32) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn hex(colour: Colour) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// Text as XML 1.0 has it: control characters are none of its.
fn escape(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control(), "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
