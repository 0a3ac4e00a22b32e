//! `[parameters]`: names for values, put in where a text says `${name}`.

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

    /// Puts parameters into parameters, until none refers to another.
    fn resolve(
        &self,
        mut parameters: Parameters,
        room: &mut usize,
    ) -> Result<Parameters, Diagnostics> {
        loop {
            let open: Vec<usize> =
                (0..parameters.len()).filter(|at| parameters[*at].1.has_reference()).collect();
            if open.is_empty() {
                return Ok(parameters);
            }
            let known: Parameters = (0..parameters.len())
                .filter(|at| !open.contains(at))
                .map(|at| parameters[at].clone())
                .collect();
            let mut faults = Vec::new();
            let mut settled = false;
            for at in open {
                let mut node = parameters[at].1.clone();
                let mut own = Vec::new();
                self.expand(&mut node, &known, room, &mut own);
                if own.is_empty() {
                    parameters[at].1 = node;
                    settled = true;
                }
                faults.extend(own);
            }
            if settled {
                continue;
            }
            let named = |fault: &Diagnostic| {
                parameters
                    .iter()
                    .any(|(key, _)| fault.message.ends_with(&format!("\"{}\"", key.name)))
            };
            if !faults.iter().all(named) {
                // The others wait for parameters that could not be expanded.
                faults.retain(|fault| !named(fault));
            }
            for fault in faults.iter_mut().filter(|fault| named(fault)) {
                fault.message = "parameters refer to each other in a cycle".into();
                fault.help = None;
            }
            return Err(Diagnostics(faults));
        }
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
            return Err((column + 2, format!("no parameter is called \"{name}\""), help));
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
    }
}
