//! The patterns of `case`, `[[` and `${NAME#…}`: `*`, `?`, `[…]`.

/// Whether a pattern stands for all of a text.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // After a mismatch, the last `*` takes one character more.
    let (mut at, mut here, mut star) = (0, 0, None);
    while here < text.len() {
        if let Some(next) = one(&pattern, at, text[here]) {
            (at, here) = (next, here + 1);
        } else if pattern.get(at) == Some(&'*') {
            star = Some((at, here));
            at += 1;
        } else if let Some((star_at, taken)) = star {
            star = Some((star_at, taken + 1));
            (at, here) = (star_at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// Where the pattern goes on behind what stands for one character; `None` if that is another one.
fn one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match *pattern.get(at)? {
        '*' => None,
        '?' => Some(at + 1),
        '[' => set(&pattern[at + 1..], c).map_or_else(
            || (c == '[').then_some(at + 1),
            |(found, len)| found.then_some(at + 1 + len),
        ),
        '\\' if pattern.get(at + 1) == Some(&c) => Some(at + 2),
        other => (other == c).then_some(at + 1),
    }
}

/// Whether a set has a character, and how long it is with its bracket; `None` if it has no end.
fn set(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let inverted = matches!(pattern.first(), Some('!' | '^'));
    let begin = usize::from(inverted);
    let end = begin + 1 + pattern.get(begin + 1..)?.iter().position(|it| *it == ']')?;
    let members = &pattern[begin..end];
    let mut found = members.contains(&c) && c != '-';
    for window in members.windows(3) {
        found |= window[1] == '-' && (window[0]..=window[2]).contains(&c);
    }
    Some((found != inverted, end + 1))
}

/// A text without the shortest beginning that the pattern stands for.
pub(super) fn without_prefix<'a>(text: &'a str, pattern: &str) -> &'a str {
    let cuts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    cuts.into_iter().find(|at| matches(pattern, &text[..*at])).map_or(text, |at| &text[at..])
}

/// A text without the shortest end that the pattern stands for.
pub(super) fn without_suffix<'a>(text: &'a str, pattern: &str) -> &'a str {
    let mut cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    cuts.reverse();
    cuts.into_iter().find(|at| matches(pattern, &text[*at..])).map_or(text, |at| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, found) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a?c", "abc", true),
            ("[0-9]x", "7x", true),
            ("[!0-9]x", "7x", false),
            ("[ab", "[ab", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("*.pkt", "a.b.pkt", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), found, "{pattern} {text}");
        }
        assert_eq!(without_prefix("a/b/c", "*/"), "b/c");
        assert_eq!(without_suffix("a.b.c", ".*"), "a.b");
        assert_eq!(without_suffix("abc", "x"), "abc");
    }

    /// A pattern of many stars is no trap.
    #[test]
    fn many_stars() {
        let pattern = "*a".repeat(30) + "b";
        assert!(!matches(&pattern, &"a".repeat(2_000)));
    }
}
