//! The patterns of `grep`: literals, `.`, `*`, `^`, `$`, `[…]`, and `\` before any of them.

#[derive(Clone, Debug, PartialEq, Eq)]
enum Atom {
    One(char),
    Any,
    Set { chars: Vec<char>, inverted: bool },
}

/// A pattern; `|` between several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    branches: Vec<Branch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Branch {
    begin: bool,
    end: bool,
    atoms: Vec<(Atom, Times)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Once,
    Any,
    OneOrMore,
}

impl Pattern {
    /// Reads a pattern; `extended` as in `grep -E`.
    pub fn new(text: &str, extended: bool) -> Self {
        let bar = if extended { "|" } else { "\\|" };
        Self { branches: text.split(bar).map(|text| Branch::new(text, extended)).collect() }
    }

    /// Whether it is found in a line.
    pub fn matches(&self, line: &str) -> bool {
        let line: Vec<char> = line.chars().collect();
        self.branches.iter().any(|branch| branch.matches(&line))
    }
}

impl Branch {
    fn new(text: &str, extended: bool) -> Self {
        let (begin, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let ends = text.ends_with('$') && !text.ends_with("\\$");
        let text = if ends { &text[..text.len() - 1] } else { text };
        let mut atoms = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let atom = match c {
                '.' => Atom::Any,
                '\\' => match chars.next() {
                    Some('s') => Atom::Set { chars: vec![' ', '\t'], inverted: false },
                    Some('+') if !extended => {
                        if let Some((_, times)) = atoms.last_mut() {
                            *times = Times::OneOrMore;
                        }
                        continue;
                    }
                    Some(other) => Atom::One(other),
                    None => Atom::One('\\'),
                },
                '*' if !atoms.is_empty() => {
                    if let Some((_, times)) = atoms.last_mut() {
                        *times = Times::Any;
                    }
                    continue;
                }
                '+' if extended && !atoms.is_empty() => {
                    if let Some((_, times)) = atoms.last_mut() {
                        *times = Times::OneOrMore;
                    }
                    continue;
                }
                '[' => set(&mut chars),
                other => Atom::One(other),
            };
            atoms.push((atom, Times::Once));
        }
        Self { begin, end: ends, atoms }
    }

    fn matches(&self, line: &[char]) -> bool {
        let last = if self.begin { 0 } else { line.len() };
        (0..=last).any(|from| self.here(&self.atoms, &line[from..]))
    }

    fn here(&self, atoms: &[(Atom, Times)], line: &[char]) -> bool {
        let Some(((atom, times), rest)) = atoms.split_first() else {
            return !self.end || line.is_empty();
        };
        let fits = |at: usize| line.get(at).is_some_and(|c| atom.matches(*c));
        match times {
            Times::Once => fits(0) && self.here(rest, &line[1..]),
            Times::Any | Times::OneOrMore => {
                let least = usize::from(*times == Times::OneOrMore);
                let most = (0..line.len()).take_while(|at| fits(*at)).count();
                (least..=most).rev().any(|count| self.here(rest, &line[count..]))
            }
        }
    }
}

impl Atom {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::One(one) => *one == c,
            Self::Any => true,
            Self::Set { chars, inverted } => chars.contains(&c) != *inverted,
        }
    }
}

fn set(chars: &mut core::iter::Peekable<core::str::Chars<'_>>) -> Atom {
    let inverted = chars.next_if_eq(&'^').is_some();
    let mut set: Vec<char> = Vec::new();
    let mut first = true;
    while let Some(c) = chars.next() {
        if c == ']' && !first {
            break;
        }
        first = false;
        if chars.peek() == Some(&'-') {
            chars.next();
            match chars.next() {
                Some(']') | None => {
                    set.extend([c, '-']);
                    break;
                }
                Some(end) => set.extend((c..=end).take(256)),
            }
        } else {
            set.push(c);
        }
    }
    Atom::Set { chars: set, inverted }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn what_grep_finds() {
        for (pattern, extended, line, found) in [
            (" 1 ", false, "TcpExtX     1     0.0", true),
            ("^Tcp", false, "TcpExtX", true),
            ("^Ext", false, "TcpExtX", false),
            ("X$", false, "TcpExtX", true),
            ("T.*X", false, "a TcpExtX b", true),
            ("[0-9]*:1F90", false, "0100A8C0:1F90", true),
            ("a\\|b", false, "xbx", true),
            ("a|b", true, "xbx", true),
            ("b+c", true, "abbc", true),
            ("1\\.0", false, "1x0", false),
            ("[^a]b", false, "ab", false),
            ("\\s2", false, "1 2", true),
        ] {
            assert_eq!(Pattern::new(pattern, extended).matches(line), found, "{pattern} in {line}");
        }
    }
}
