//! Plots in SVG, PNG and PDF, from one description, and their data.

mod axis;
mod chart;
mod data;
mod font;
mod heading;
mod heat;
mod pdf;
mod png;
mod scene;
mod svg;

pub use axis::{grouped, prefix};
pub use chart::{Band, BarChart, Group, Line, LineChart};
pub use heat::HeatMap;
pub use pdf::pdf;
pub use png::png;
pub use scene::{Anchor, Colour, Scene, Shape, TextStyle};
pub use svg::svg;

/// How wide a text is at a size, in units of a drawing.
pub fn text_width(text: &str, size: f32) -> f32 {
    font::Fonts::load().width(text, size, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> LineChart {
        let wave = |phase: f64| {
            (0..500).map(|i| (f64::from(i) / 10.0, 400.0 + phase * f64::from(i % 97))).collect()
        };
        LineChart {
            title: "Throughput".into(),
            subtitle: "a < b & \"c\"".into(),
            x_label: "time [s]".into(),
            y_label: "throughput [Mbit/s]".into(),
            lines: vec![
                Line { label: "rack".into(), points: wave(1.0), ..Line::default() },
                Line {
                    label: "linux-2.6.22".into(),
                    points: wave(-2.0),
                    steps: true,
                    ..Line::default()
                },
            ],
            ..LineChart::default()
        }
    }

    #[test]
    fn both_forms_come_from_one_scene() {
        let scene = sample().draw();
        let text = svg(&scene);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("a &lt; b &amp; &quot;c&quot;"));
        for word in ["Throughput", "time [s]", "throughput [Mbit/s]", "rack", "linux-2.6.22"] {
            assert!(text.contains(word), "{word} is missing");
        }
        let bytes = png(&scene).expect("a picture");
        assert_eq!(&bytes[1..4], b"PNG");
        let page = pdf(&scene);
        assert!(page.starts_with(b"%PDF-1.7") && page.ends_with(b"%%EOF"));
    }

    #[test]
    fn empty_and_odd_data_still_draw() {
        let odd = [vec![], vec![(1.0, 5.0)], vec![(0.0, f64::NAN), (1.0, 2.0), (2.0, f64::NAN)]];
        for points in odd {
            let line = Line { label: "x".into(), points, ..Line::default() };
            let scene = LineChart { lines: vec![line], ..sample() }.draw();
            assert!(!svg(&scene).contains("NaN"));
            assert!(png(&scene).is_some());
        }
    }

    #[test]
    fn many_points_are_thinned_but_extremes_stay() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        points[50_000].1 = 9.0;
        let line = Line { label: "x".into(), points, ..Line::default() };
        let scene = LineChart { lines: vec![line], ..sample() }.draw();
        let mut path = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Path { points, width, .. } if *width > 1.5 => Some(points),
            _ => None,
        });
        let kept = path.next_back().expect("the line");
        assert!(kept.len() < 6_000, "{} points", kept.len());
        let top = kept.iter().map(|p| p[1]).fold(f32::INFINITY, f32::min);
        assert!(top < 200.0, "the peak is still there");
    }
}
