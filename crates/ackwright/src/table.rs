//! Tables and texts on the terminal, at most 80 columns wide unless it is known to be wider.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table as Grid, TableStyle,
    Width,
};
use console::{Term, measure_text_width};
use lab::report::Table;

/// The widest table where the terminal's width is unknown.
const WIDTH: u16 = 80;

/// A line below the head, none between rows.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Lays a table out, as wide as the terminal at most, unless a word would have to be broken.
pub fn render(table: &Table) -> String {
    in_width(table, width())
}

/// A text in lines as wide as the terminal at most, unless a word would have to be broken.
pub fn wrapped(text: &str) -> String {
    wrapped_in(text, width())
}

/// A text that belongs to the one above, in lines as wide as the terminal at most.
pub fn indented(text: &str) -> String {
    const INDENT: &str = "    ";
    let lines = wrapped_in(text, width() - INDENT.len() as u16);
    INDENT.to_owned() + &lines.replace('\n', &format!("\n{INDENT}"))
}

fn wrapped_in(text: &str, width: u16) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line)
                if measure_text_width(line) + 1 + measure_text_width(word) <= width.into() =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines.join("\n")
}

/// Columns of the terminal, or else what `COLUMNS` says.
fn width() -> u16 {
    let terminal = Term::stdout().size_checked().map(|(_, columns)| columns);
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    let known = |columns: &u16| *columns >= NARROWEST;
    terminal.filter(known).or_else(|| said().filter(known)).unwrap_or(WIDTH)
}

/// Terminals that say they are narrower than this do not know.
const NARROWEST: u16 = 20;

/// The table, or several below each other if its columns do not fit side by side: each begins with the columns that name
/// the rows.
fn in_width(table: &Table, width: u16) -> String {
    let parts = columns_that_fit(table, width);
    if parts.len() == 1 {
        return grid_in_width(table, width);
    }
    let parts = parts.into_iter().map(|columns| {
        let pick =
            |row: &Vec<String>| columns.iter().filter_map(|at| row.get(*at).cloned()).collect();
        let part = Table {
            head: pick(&table.head),
            rows: table.rows.iter().map(pick).collect(),
            numeric: columns.iter().map(|at| table.numeric.get(*at) == Some(&true)).collect(),
        };
        grid_in_width(&part, width)
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// The columns of each part of a table: all of them in one if that fits, or if no part would.
fn columns_that_fit(table: &Table, width: u16) -> Vec<Vec<usize>> {
    let words = longest_words(table);
    let room = |columns: &[usize]| columns.iter().map(|at| words[*at] + 1).sum::<u16>();
    let all: Vec<usize> = (0..words.len()).collect();
    // Of a sweep over several axes all of them name a row; one alone does where there is no room for more.
    let names = table.numeric.iter().take_while(|numeric| !**numeric).count();
    let keys =
        [names, 1].into_iter().filter(|names| (1..words.len()).contains(names)).find(|names| {
            let widest = words[*names..].iter().max().unwrap_or(&0);
            room(&all[..*names]) + widest < width
        });
    let Some(keys) = keys.filter(|_| room(&all) > width) else { return vec![all] };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for (at, word) in words.iter().enumerate().skip(keys) {
        match parts.last_mut() {
            Some(part) if room(part) + word < width => part.push(at),
            _ => parts.push(all[..keys].iter().copied().chain([at]).collect()),
        }
    }
    parts
}

fn grid_in_width(table: &Table, width: u16) -> String {
    let mut grid = Grid::new();
    let (padding, words) = widths(table, width);
    let least: u16 = words.iter().map(|word| word + padding.0 + padding.1 + 1).sum();
    grid.load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(least))
        .set_header(Row::from(table.head.clone()));
    for row in &table.rows {
        grid.add_row(Row::from(row.clone()));
    }
    for (index, word) in words.iter().enumerate() {
        if let Some(column) = grid.column_mut(index) {
            let least = Width::Fixed(word + padding.0 + padding.1);
            column.set_padding(padding);
            column.set_constraint(ColumnConstraint::LowerBoundary(least));
        }
    }
    for (index, numeric) in table.numeric.iter().enumerate() {
        if let (true, Some(column)) = (numeric, grid.column_mut(index)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = grid.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The width of the longest word of each column: lines break between words.
fn longest_words(table: &Table) -> Vec<u16> {
    let longest = |index: usize| {
        let cells = table.rows.iter().chain([&table.head]).filter_map(|row| row.get(index));
        let words = cells.flat_map(|cell| cell.split_whitespace());
        words.map(measure_text_width).max().unwrap_or(0) as u16
    };
    (0..table.head.len()).map(longest).collect()
}

/// Blanks before and behind a cell, and the longest word of each column.
fn widths(table: &Table, width: u16) -> ((u16, u16), Vec<u16>) {
    let widest = longest_words(table);
    let words: u16 = widest.iter().sum();
    let columns = widest.len() as u16;
    // Blanks on both sides of a cell, or only behind it, or none; and one between columns.
    let fits = |(before, behind): &(u16, u16)| words + columns * (before + behind + 1) <= width;
    let padding = [(1, 1), (0, 1)].into_iter().find(fits).unwrap_or((0, 0));
    (padding, widest)
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
        let text = in_width(&table, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("431.4 ± 3.2"));
        // A port, however long, is never cut; nor is a wide terminal left unused.
        let long = Table { rows: vec![vec!["x".repeat(90), "1".into()]], ..table.clone() };
        assert!(in_width(&long, 80).contains(&"x".repeat(90)));
        let wide = in_width(&table, 160);
        assert!(wide.contains("a metric with a rather long name [Mbit/s]"), "{wide}");
    }

    #[test]
    fn a_table_with_many_columns_continues_below() {
        let of = |columns: usize| Table {
            head: (0..columns).map(|at| format!("metric-{at:02}")).collect(),
            rows: vec![(0..columns).map(|at| format!("{at}")).collect(); 2],
            numeric: (0..columns).map(|at| at > 0).collect(),
        };
        for columns in 2..40 {
            let text = in_width(&of(columns), 80);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            for at in 0..columns {
                assert!(text.contains(&format!("metric-{at:02}")), "{text}");
            }
            let parts = text.split("\n\n").count();
            assert_eq!(parts > 1, columns > 8, "{text}");
            assert_eq!(text.matches("metric-00").count(), parts);
        }
    }

    /// Each part of a sweep over two axes says which point a row is of; where both do not fit, the first does.
    #[test]
    fn every_part_names_its_rows() {
        let metrics = (0..9).map(|at| format!("metric-{at:02}"));
        let table = Table {
            head: ["cc", "queue"].map(String::from).into_iter().chain(metrics).collect(),
            rows: vec![
                ["cubic", "fq_codel"].into_iter().chain(["1"; 9]).map(String::from).collect();
                2
            ],
            numeric: [false, false].into_iter().chain([true; 9]).collect(),
        };
        for width in [40, 60, 80] {
            let text = in_width(&table, width);
            let parts: Vec<&str> = text.split("\n\n").collect();
            assert!(parts.len() > 1, "{text}");
            for part in parts {
                assert_eq!(part.matches("cubic").count(), 2, "{text}");
                assert_eq!(part.matches("fq_codel").count(), 2, "{text}");
            }
        }
        let text = in_width(&table, 20);
        assert_eq!(text.matches("fq_codel").count(), 2, "{text}");
        assert_eq!(text.matches("cubic").count(), 2 * text.split("\n\n").count(), "{text}");
    }

    #[test]
    fn letters_of_two_columns_are_counted_as_two() {
        let word = "拥塞控制算法";
        let table = Table {
            head: vec!["case".into(), "value".into()],
            rows: vec![vec![format!("{word} and some more words"), "1".into()]],
            numeric: vec![false, true],
        };
        for width in 20..40 {
            assert!(in_width(&table, width).contains(word), "{}", in_width(&table, width));
        }
    }

    #[test]
    fn a_text_is_as_wide_as_the_terminal_at_most() {
        let text = "a title that is rather long: 3 runs per row";
        assert_eq!(wrapped_in(text, 80), text);
        assert_eq!(wrapped_in(text, 20), "a title that is\nrather long: 3 runs\nper row");
    }

    #[test]
    fn words_stay_whole_where_they_fit() {
        let head = ["case", "metric", "published", "kernel", "measured", "ratio", "unit", "agrees"];
        let row =
            ["10g-dctcp", "throughput stddev", "105.9", "9.633", "9.509", "0.99", "Mbit/s", "yes"];
        let table = Table {
            head: head.map(String::from).to_vec(),
            rows: vec![row.map(String::from).to_vec(); 3],
            numeric: vec![false, false, true, true, true, true, false, false],
        };
        let text = in_width(&table, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for word in head.iter().chain(&row[2..]).chain(&["10g-dctcp", "throughput", "stddev"]) {
            assert!(text.contains(word), "{word} is broken:\n{text}");
        }
    }
}
