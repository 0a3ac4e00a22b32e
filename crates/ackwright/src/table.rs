//! Tables on the terminal, at most 80 columns wide unless it is known to be wider.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Row, Table as Grid, TableStyle};
use lab::report::Table;

/// The widest table where the terminal's width is unknown.
const WIDTH: u16 = 80;

/// A line below the head, none between rows.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Lays a table out.
pub fn render(table: &Table) -> String {
    let mut grid = Grid::new();
    grid.load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(Row::from(table.head.clone()));
    for row in &table.rows {
        grid.add_row(Row::from(row.clone()));
    }
    for (index, numeric) in table.numeric.iter().enumerate() {
        if let (true, Some(column)) = (numeric, grid.column_mut(index)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = grid.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_in_eighty_columns() {
        let table = Table {
            head: vec!["case".into(), "a metric with a rather long name [Mbit/s]".into()],
            rows: vec![vec!["x".repeat(60), "431.4 ± 3.2".into()]],
            numeric: vec![false, true],
        };
        let text = render(&table);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("431.4 ± 3.2"));
    }
}
