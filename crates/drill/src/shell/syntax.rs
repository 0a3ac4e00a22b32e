//! What a shell text is made of.

use crate::fault::Pos;
use std::sync::Arc;

/// A word before expansion.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Word {
    pub parts: Vec<Part>,
    /// Some of it stood in quotes: it is a word even if nothing is in it.
    pub quoted: bool,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub text: Text,
    /// It stood in quotes: what it comes to is not split at blanks.
    pub quoted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Literal(String),
    /// `$NAME`, `${NAME}`, `${NAME:-…}`.
    Variable(String, Option<(Modifier, Box<Word>)>),
    /// `$((…))`.
    Arithmetic(String),
    /// `$(…)`.
    Output(List),
}

/// What stands behind the name in `${NAME…}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modifier {
    /// `:-` and `-`: this, if it is empty.
    Default,
    /// `:=` and `=`: this, if it is empty, from now on.
    Assign,
    /// `:+` and `+`: this, if it is not empty.
    Alternative,
    /// `#` and `##`: without what it begins with.
    Prefix,
    /// `%` and `%%`: without what it ends with.
    Suffix,
    /// `${#NAME}`: its length.
    Length,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    /// 1 output, 2 error, 0 input, 3 both.
    pub stream: u8,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Input(Word),
    /// `<<<` and `<<`: the text itself.
    Here(Word),
    Output {
        word: Word,
        append: bool,
    },
    /// `2>&1`, `1>&2`: where the other stream goes.
    Duplicate,
}

/// Pipelines one after the other.
pub(super) type List = Vec<Pipeline>;

/// Commands joined by `|`, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub commands: Vec<Command>,
    /// `!` in front.
    pub negated: bool,
    pub join: Join,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    Next,
    And,
    Or,
}

/// A command with its redirections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub pos: Pos,
    pub kind: Kind,
    pub redirects: Vec<Redirect>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name and arguments.
    Simple(Vec<Word>),
    /// `if`, `elif`: conditions and what follows from them; `else`.
    If(Vec<(List, List)>, List),
    /// `while`; with `until` the other way round.
    While { until: bool, condition: List, body: List },
    /// `for NAME in WORDS`; without words: the arguments.
    For(String, Option<Vec<Word>>, List),
    /// `for ((…; …; …))`.
    Count([String; 3], List),
    /// `case WORD in PATTERN|PATTERN) … ;; esac`.
    Case(Word, Vec<(Vec<Word>, List)>),
    /// `{ …; }`.
    Group(List),
    /// `( … )`.
    Subshell(List),
    /// `((…))`.
    Arithmetic(String),
    /// `name() { …; }`.
    Function(String, Arc<List>),
}
