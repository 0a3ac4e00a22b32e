//! `[parameters]`: names for values, put in where a text says `${name}`.

use std::collections::{BTreeMap, VecDeque};

use super::diagnostic::{Diagnostic, Diagnostics, suggest};
use super::doc::{Document, Key, Kind, Node, Origin};
use super::limits::EXPANSION_MAX;

impl Document {
    /// Replaces `${name}` in every text by the parameter's value. A text that is nothing but one
    /// reference takes the parameter's value with its type.
    pub fn substitute(&mut self) -> Result<(), Diagnostics> {
        let parameters = match self.root.get("parameters") {
            Some(Node { kind: Kind::Table(entries), .. }) => entries.clone(),
            _ => return Ok(()),
        };
        let mut faults = Vec::new();
        let mut room = EXPANSION_MAX;
        let parameters = self.resolve(parameters, &mut room)?;
        let mut root = std::mem::replace(
            &mut self.root,
            Node { kind: Kind::Table(Vec::new()), at: Origin::File(0..0) },
        );
        if let Kind::Table(entries) = &mut root.kind {
            for (key, node) in entries {
                if key.name != "parameters" {
                    self.expand(node, &parameters, &mut room, &mut faults);
                }
            }
        }
        self.root = root;
        if faults.is_empty() { Ok(()) } else { Err(Diagnostics(faults)) }
    }

    /// Puts parameters into parameters, each one as soon as all that it refers to have their values.
    fn resolve(
        &self,
        mut parameters: Parameters,
        room: &mut usize,
    ) -> Result<Parameters, Diagnostics> {
        let places: BTreeMap<String, usize> =
            parameters.iter().enumerate().map(|(at, (key, _))| (key.name.clone(), at)).collect();
        let mut waits = vec![0; parameters.len()];
        let mut waiting = vec![Vec::new(); parameters.len()];
        for (at, (_, node)) in parameters.iter().enumerate() {
            for_each_reference(node, &mut |name| {
                if let Some(&of) = places.get(name) {
                    waits[at] += 1;
                    waiting[of].push(at);
                }
            });
        }
        let mut ready: VecDeque<usize> =
            (0..parameters.len()).filter(|at| waits[*at] == 0).collect();
        let mut known = Parameters::new();
        let mut faults = Vec::new();
        while let Some(at) = ready.pop_front() {
            let (key, node) = &mut parameters[at];
            let before = faults.len();
            self.expand(node, &known, room, &mut faults);
            if faults.len() > before {
                continue;
            }
            known.push((key.clone(), node.clone()));
            for &other in &waiting[at] {
                waits[other] -= 1;
                if waits[other] == 0 {
                    ready.push_back(other);
                }
            }
        }
        if known.len() == parameters.len() {
            return Ok(parameters);
        }
        if faults.is_empty() {
            let circle = (0..parameters.len()).filter(|at| waits[*at] > 0).take(CYCLE_SHOWN);
            for at in circle {
                let mut room = EXPANSION_MAX;
                self.expand(&mut parameters[at].1.clone(), &known, &mut room, &mut faults);
            }
            let named = |fault: &&mut Diagnostic| {
                let name = fault.message.split('"').nth(1);
                name.is_some_and(|name| places.contains_key(name))
            };
            for fault in faults.iter_mut().filter(named) {
                fault.message = "parameters refer to each other in a cycle".into();
                fault.help = None;
            }
        }
        Err(Diagnostics(faults))
    }

    fn expand(
        &self,
        node: &mut Node,
        parameters: &[(Key, Node)],
        room: &mut usize,
        faults: &mut Vec<Diagnostic>,
    ) {
        let replaced = match &mut node.kind {
            Kind::List(items) => {
                for item in items {
                    self.expand(item, parameters, room, faults);
                }
                None
            }
            Kind::Table(entries) => {
                for (_, item) in entries {
                    self.expand(item, parameters, room, faults);
                }
                None
            }
            Kind::Text(text) if text.contains("${") => match expand_text(text, parameters, room) {
                Ok(kind) => Some(kind),
                Err((column, message, help)) => {
                    faults.push(self.fault_in_text(&node.at, column, message, help));
                    None
                }
            },
            _ => None,
        };
        if let Some(kind) = replaced {
            node.kind = kind;
        }
    }
}

/// As many parameters of a cycle are named.
const CYCLE_SHOWN: usize = 20;

/// Calls `visit` with each name that a text of `node` refers to.
fn for_each_reference<'a>(node: &'a Node, visit: &mut impl FnMut(&'a str)) {
    match &node.kind {
        Kind::List(items) => items.iter().for_each(|item| for_each_reference(item, visit)),
        Kind::Table(entries) => {
            for (_, item) in entries {
                for_each_reference(item, visit);
            }
        }
        Kind::Text(text) => {
            let names = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
            names.for_each(|(name, _)| visit(name));
        }
        _ => {}
    }
}

/// Names and values, in the order of the file.
type Parameters = Vec<(Key, Node)>;

/// Why a text could not be expanded: column, message, help.
type ExpandError = (usize, String, Option<String>);

/// Puts parameters in; `room` is how many bytes they may still add.
fn expand_text(
    text: &str,
    parameters: &[(Key, Node)],
    room: &mut usize,
) -> Result<Kind, ExpandError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let column = text[..text.len() - rest.len() + start].chars().count();
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else {
            return Err((column, "\"${\" without \"}\"".into(), None));
        };
        let name = &after[..end];
        let Some((_, node)) = parameters.iter().find(|(key, _)| key.name == name) else {
            let help = suggest(name, parameters.iter().map(|(key, _)| key.name.as_str()));
            let help = match help {
                Some(nearest) if nearest.ends_with('?') => nearest,
                known => {
                    let known = known.map_or(String::new(), |known| format!("{known}; "));
                    format!(
                        "{known}a new one needs a value in [parameters], also where a sweep sets it"
                    )
                }
            };
            return Err((column + 2, format!("no parameter is called \"{name}\""), Some(help)));
        };
        let Some(left) = room.checked_sub(node.size()) else {
            let message =
                format!("the substituted parameters take more than {} MB", EXPANSION_MAX >> 20);
            return Err((column, message, Some("use shorter parameters, or fewer of them".into())));
        };
        *room = left;
        if start == 0 && rest.len() == text.len() && end + 3 == text.len() {
            return Ok(node.kind.clone());
        }
        out.push_str(&rest[..start]);
        out.push_str(&node.plain());
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(Kind::Text(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_refer_to_parameters() {
        let parse = |text: &str| {
            let mut doc = Document::parse("t.toml", text).unwrap();
            doc.substitute().map(|()| doc.root.get("x").unwrap().plain())
        };
        let chain = "x = \"${c}\"\n[parameters]\nc = \"min ${b}\"\nb = \"${a}\"\na = 7\n";
        assert_eq!(parse(chain).unwrap(), "min 7");
        let circle = "x = \"${a}\"\n[parameters]\na = \"${b}\"\nb = \"${a}\"\n";
        let fault = parse(circle).unwrap_err().0.remove(0);
        assert_eq!(fault.message, "parameters refer to each other in a cycle");
        assert_eq!(fault.position, Some((3, 8)));
        // In any order, however many, and what waits takes no room meanwhile.
        let many = |link: &dyn Fn(u32) -> String| (0..5_000).map(link).collect::<String>();
        let long = many(&|at| format!("a{at} = \"${{big}}${{a{}}}\"\n", at + 1));
        let text = format!("x = \"${{a0}}\"\n[parameters]\n{long}a5000 = 1\nbig = \"\"\n");
        assert_eq!(parse(&text).unwrap(), "1");
        let big = format!("b = \"{}\"\nc = \"${{b}}${{a0}}\"\n", "k".repeat(1 << 20));
        let chain = many(&|at| format!("a{at} = \"${{a{}}}\"\n", at + 1));
        let text = format!("x = \"${{a0}}\"\n[parameters]\n{big}{chain}a5000 = 1\n");
        assert_eq!(parse(&text).unwrap(), "1");
        let unknown = "x = 1\n[parameters]\na = \"${bb}\"\nb = \"k\"\n";
        let fault = parse(unknown).unwrap_err().0.remove(0);
        assert_eq!(fault.message, "no parameter is called \"bb\"");
    }

    #[test]
    fn an_unknown_parameter_is_named_at_its_column() {
        let mut doc =
            Document::parse("t.toml", "[parameters]\nburst = 1\n[x]\ny = \"a ${brust}\"\n")
                .unwrap();
        let faults = doc.substitute().unwrap_err();
        assert_eq!(faults.0[0].position, Some((4, 10)));
        assert_eq!(faults.0[0].help.as_deref(), Some("did you mean \"burst\"?"));
        let mut doc =
            Document::parse("t.toml", "[parameters]\nburst = 1\n[x]\ny = \"${queue}\"\n").unwrap();
        let faults = doc.substitute().unwrap_err();
        let told =
            "valid: burst; a new one needs a value in [parameters], also where a sweep sets it";
        assert_eq!(faults.0[0].help.as_deref(), Some(told));
    }
}
