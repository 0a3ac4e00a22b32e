//! Time series, cut down to what a screen can show.
//!
//! A picture of `pixels` columns cannot show more than the least and the greatest value of each
//! column. So a span with more samples is cut into that many parts of equal time, and each gives both, in the
//! order in which they came: no peak is ever left out. A span with fewer samples is given as it is.

use lab::results::Series;
use serde_json::{Map, Value as Json, json};

/// Pixels that a picture has at most.
pub const PIXELS_MAX: usize = 8_192;

/// A part of a series: times in ns, and as many values for each requested column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesSlice {
    /// Sample times, or the beginnings and middles of the parts.
    pub time_ns: Vec<i64>,
    /// Values by column.
    pub columns: Vec<(String, Vec<Option<i64>>)>,
    /// These are the samples themselves.
    pub exact: bool,
    /// How many samples lie in the span.
    pub samples: usize,
}

/// The samples from `from` to `to`, one more on each side so that lines reach the border.
pub fn cut(series: &Series, columns: &[&str], from: i64, to: i64, pixels: usize) -> SeriesSlice {
    let time = &series.time_ns;
    let begin = time.partition_point(|at| *at < from).saturating_sub(1);
    let end = (time.partition_point(|at| *at <= to) + 1).min(time.len()).max(begin);
    let wanted = series
        .columns
        .iter()
        .filter(|column| columns.is_empty() || columns.contains(&column.name.as_str()));
    let samples = end - begin;
    let pixels = pixels.clamp(1, PIXELS_MAX);
    if samples <= 2 * pixels {
        let columns = wanted
            .map(|column| (column.name.clone(), column.values.range(begin..end).collect()))
            .collect();
        return SeriesSlice { time_ns: time[begin..end].to_vec(), columns, exact: true, samples };
    }
    let parts = parts(&time[begin..end], pixels);
    let mut time_ns = Vec::with_capacity(2 * parts.len());
    for part in &parts {
        let inside = &time[begin + part.start..begin + part.end];
        time_ns.extend([inside[0], inside[inside.len() / 2].max(inside[0] + 1)]);
    }
    let columns = wanted
        .map(|column| {
            let values: Vec<_> = column.values.range(begin..end).collect();
            (
                column.name.clone(),
                parts.iter().flat_map(|part| both(&values[part.clone()])).collect(),
            )
        })
        .collect();
    SeriesSlice { time_ns, columns, exact: false, samples }
}

/// Spans of samples of equal time, none empty.
fn parts(time: &[i64], pixels: usize) -> Vec<std::ops::Range<usize>> {
    let (first, last) = (time[0], time[time.len() - 1]);
    let width = ((last - first) as u64 / pixels as u64).max(1);
    let mut parts = Vec::with_capacity(pixels + 1);
    let mut start = 0;
    while start < time.len() {
        let place = (time[start] - first) as u64 / width;
        let border = first + ((place + 1) * width) as i64;
        let length = time[start..].partition_point(|at| *at < border);
        parts.push(start..start + length.max(1));
        start += length.max(1);
    }
    parts
}

/// The least and the greatest, in the order in which they came.
fn both(values: &[Option<i64>]) -> [Option<i64>; 2] {
    let mut least: Option<(i64, usize)> = None;
    let mut most: Option<(i64, usize)> = None;
    for (place, value) in values.iter().enumerate() {
        let Some(value) = *value else { continue };
        if least.is_none_or(|(known, _)| value < known) {
            least = Some((value, place));
        }
        if most.is_none_or(|(known, _)| value > known) {
            most = Some((value, place));
        }
    }
    match (least, most) {
        (Some((least, at)), Some((most, other))) if at <= other => [Some(least), Some(most)],
        (Some((least, _)), Some((most, _))) => [Some(most), Some(least)],
        _ => [None, None],
    }
}

impl SeriesSlice {
    /// As JSON; times in seconds.
    pub fn to_json(&self) -> Json {
        let time: Vec<f64> = self.time_ns.iter().map(|at| *at as f64 / 1e9).collect();
        let columns: Map<String, Json> =
            self.columns.iter().map(|(name, values)| (name.clone(), json!(values))).collect();
        json!({"time": time, "columns": columns, "exact": self.exact, "samples": self.samples})
    }
}

/// The mean of a column in each of at most `parts` spans of equal length in samples.
pub fn binned_means(series: &Series, column: &str, parts: usize) -> Vec<Option<i64>> {
    let Some(column) = series.column(column) else { return Vec::new() };
    let each = column.values.len().div_ceil(parts.max(1)).max(1);
    let mean = |part: &[Option<i64>]| {
        let (sum, count) = part
            .iter()
            .flatten()
            .fold((0i128, 0i128), |(sum, count), value| (sum + i128::from(*value), count + 1));
        (count > 0).then(|| ((sum + count / 2).div_euclid(count)) as i64)
    };
    column.values.iter().collect::<Vec<_>>().chunks(each).map(mean).collect()
}

/// The times at which the spans of [`binned_means`] end.
pub fn ends(series: &Series, parts: usize) -> Vec<i64> {
    let each = series.time_ns.len().div_ceil(parts.max(1)).max(1);
    series.time_ns.chunks(each).filter_map(|part| part.last().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::results::Column;

    fn series(values: Vec<Option<i64>>) -> Series {
        Series {
            name: "port-a.b".into(),
            time_ns: (0..values.len() as i64).map(|at| (at + 1) * 1_000).collect(),
            columns: vec![Column { name: "queue_packets".into(), values: values.into() }],
        }
    }

    #[test]
    fn few_samples_are_given_as_they_are() {
        let of = series(vec![Some(3), None, Some(5), Some(7)]);
        let cut = cut(&of, &[], 2_000, 3_000, 10);
        assert!(cut.exact);
        // One more on each side.
        assert_eq!(cut.time_ns, [1_000, 2_000, 3_000, 4_000]);
        assert_eq!(cut.columns[0].1, [Some(3), None, Some(5), Some(7)]);
    }

    #[test]
    fn no_peak_is_lost_among_a_million_samples() {
        let count = 1_000_000;
        let values: Vec<Option<i64>> = (0..count)
            .map(|at| match at {
                777_777 => Some(1_000_000),
                123_456 => Some(-5),
                _ => Some(at % 97),
            })
            .collect();
        let of = series(values);
        let cut = cut(&of, &["queue_packets"], i64::MIN, i64::MAX, 1_000);
        assert!(!cut.exact);
        assert!(cut.time_ns.len() <= 2 * 1_002, "{}", cut.time_ns.len());
        assert!(cut.time_ns.is_sorted());
        let values: Vec<i64> = cut.columns[0].1.iter().flatten().copied().collect();
        assert_eq!(values.iter().max(), Some(&1_000_000));
        assert_eq!(values.iter().min(), Some(&-5));
        // Where the peak is drawn is where it was, to a pixel.
        let place = cut.columns[0].1.iter().position(|it| *it == Some(1_000_000)).unwrap();
        assert!((cut.time_ns[place] - 777_778_000).abs() < 1_000_000_000 / 900);
    }

    #[test]
    fn means_have_the_sum_of_what_they_stand_for() {
        let of = series((0..1_000).map(Some).collect());
        let means = binned_means(&of, "queue_packets", 100);
        assert_eq!(means.len(), 100);
        assert_eq!(ends(&of, 100).len(), 100);
        assert_eq!(means[0], Some(5));
    }
}
