//! The data of charts as tables, to be drawn with something else.

use super::chart::{BarChart, LineChart};
use super::heat::HeatMap;
use crate::store::table::{Table, Values};

/// Rows that are gathered.
#[derive(Default)]
struct Rows {
    texts: Vec<Vec<String>>,
    numbers: Vec<Vec<Option<f64>>>,
}

impl Rows {
    fn push(&mut self, texts: &[&str], numbers: &[Option<f64>]) {
        self.texts.push(texts.iter().map(ToString::to_string).collect());
        let finite = |number: &Option<f64>| number.filter(|number| number.is_finite());
        self.numbers.push(numbers.iter().map(finite).collect());
    }

    fn table(self, texts: &[&str], numbers: &[&str]) -> Table {
        let mut table = Table::default();
        for (place, name) in texts.iter().enumerate() {
            let column = self.texts.iter().map(|row| row[place].clone());
            table.push(name, Values::Text(column.collect()));
        }
        for (place, name) in numbers.iter().enumerate() {
            let column = self.numbers.iter().map(|row| row[place]);
            table.push(name, Values::Decimal(column.collect()));
        }
        table
    }
}

impl LineChart {
    /// A row for each point of a line (`y`, and half of its 95 % interval) or band (`low` and `high`).
    pub fn data(&self) -> Table {
        let mut rows = Rows::default();
        for line in &self.lines {
            for (place, (x, y)) in line.points.iter().enumerate() {
                let interval = line.intervals.get(place).copied().flatten();
                let name = self.ticks.iter().find(|(at, _)| at.total_cmp(x).is_eq());
                let name = name.map_or("", |(_, name)| name.as_str());
                rows.push(&[&line.label, name], &[Some(*x), Some(*y), interval, None, None]);
            }
        }
        for band in &self.bands {
            for (x, low, high) in &band.points {
                rows.push(&[&band.label, ""], &[Some(*x), None, None, Some(*low), Some(*high)]);
            }
        }
        rows.table(&["line", "label"], &["x", "y", "ci95", "low", "high"])
    }
}

impl BarChart {
    /// A row for each bar.
    pub fn data(&self) -> Table {
        let mut rows = Rows::default();
        for group in &self.groups {
            for (series, value) in self.series.iter().zip(&group.values) {
                if let Some((value, interval)) = value {
                    rows.push(&[&group.label, series], &[Some(*value), *interval]);
                }
            }
        }
        rows.table(&["group", "bar"], &["value", "ci95"])
    }
}

impl HeatMap {
    /// A row for each cell.
    pub fn data(&self) -> Table {
        let mut rows = Rows::default();
        for (row, values) in self.rows.iter().zip(&self.values) {
            for (column, value) in self.columns.iter().zip(values) {
                rows.push(&[column, row], &[*value]);
            }
        }
        rows.table(&[&self.x_label, &self.y_label], &["value"])
    }
}
