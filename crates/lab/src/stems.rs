//! Names of files made from names of flows, points and metrics.

use std::collections::{BTreeMap, BTreeSet};

/// Characters of a part of a file's name.
const STEM_MAX: usize = 72;

/// A text as a part of a file's name: letters, digits, `-`, `_` and `.`, not first, and no more than
/// 72 of them.
pub fn file_stem(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let clean = text.chars().take(STEM_MAX).map(|c| if fits(c) { c } else { '_' });
    let clean: String = clean.collect();
    match clean.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => clean,
    }
}

/// What a metric's name is as a part of a file's name: words joined by `-`, `%` as `percent`.
pub(crate) fn metric_stem(metric: &str) -> String {
    file_stem(&metric.replace('%', "percent").replace(' ', "-"))
}

/// The names of files made from `texts`, all different, whatever the file system thinks of capitals:
/// of those that would be equal, all but the first have a number behind them.
pub fn distinct_stems<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    let texts: Vec<&str> = texts.into_iter().collect();
    // What needs no change keeps its name, whoever comes first.
    let exact: BTreeSet<String> = texts
        .iter()
        .filter(|text| file_stem(text) == **text)
        .map(|text| text.to_ascii_lowercase())
        .collect();
    texts
        .iter()
        .map(|text| {
            let stem = file_stem(text);
            let own = stem == *text;
            let free = |name: &String, taken: &BTreeSet<String>| {
                let lower = name.to_ascii_lowercase();
                !taken.contains(&lower) && (own && *name == stem || !exact.contains(&lower))
            };
            let tried = next.entry(stem.to_ascii_lowercase()).or_insert(1);
            let numbered = (*tried + 1..).map(|number| format!("{stem}.{number}"));
            let mut names = std::iter::once(stem.clone()).chain(numbered);
            let name = names.find(|name| free(name, &taken)).expect("numbers do not end");
            // Equal names need not look for a number from the beginning each.
            *tried += u32::from(name != stem);
            taken.insert(name.to_ascii_lowercase());
            name
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_of_files_are_told_apart() {
        let names = |texts: &[&str]| distinct_stems(texts.iter().copied());
        assert_eq!(names(&["a b", "a_b", "A_B"]), ["a_b.2", "a_b", "A_B.3"].map(String::from));
        assert_eq!(names(&["größer", "gräßer", "grün"]), ["gr__er", "gr__er.2", "gr_n"]);
        assert_eq!(names(&["x.2", "x y", "x/y", "x.2"]), ["x.2", "x_y", "x_y.2", "x.2.2"]);
        assert_eq!(names(&["..", ".hidden"]), ["_.", "_hidden"]);
        let long = ["x".repeat(300), "x".repeat(400)];
        let long = names(&[&long[0], &long[1]]);
        assert!(long[0] != long[1] && long.iter().all(|name| name.len() < 80), "{long:?}");
    }

    #[test]
    fn a_metric_becomes_a_name_that_a_shell_and_an_address_take_as_it_is() {
        assert_eq!(metric_stem("queue 95 %"), "queue-95-percent");
        assert_eq!(
            metric_stem("switch.out queue length 99.9 %"),
            "switch.out-queue-length-99.9-percent"
        );
    }
}
