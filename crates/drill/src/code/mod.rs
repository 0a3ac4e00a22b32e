//! Code blocks: the part of Python that scripts use.
//!
//! Statements are `assert condition[, message]`, assignments (`=`, `+=`, `-=`, …), `print(…)`,
//! `pass` and `if`/`elif`/`else`. Expressions have numbers, texts, names, tuples, `%` formatting,
//! comparisons in chains, `and`, `or`, `not`, arithmetic and bit operators, and the calls `abs`,
//! `min`, `max`, `int`. There is no loop, no import and no way out: a block can do nothing but
//! compare, and the number of its steps is bounded.

mod eval;
mod parse;
mod token;

pub use eval::{Env, Failure, Value};
pub use parse::parse;

use crate::fault::Pos;

/// A parsed block.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Block {
    /// Its statements.
    pub statements: Vec<Statement>,
}

/// A statement and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Where it begins.
    pub pos: Pos,
    /// Its text, for messages.
    pub text: String,
    /// What it does.
    pub kind: StatementKind,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `assert condition, message`.
    Assert(Expr, Option<Expr>),
    /// `name = value`.
    Assign(String, Expr),
    /// `print(…)`.
    Print(Vec<Expr>),
    /// `pass`, or an expression whose value is ignored.
    Expression(Expr),
    /// `if`, `elif` and `else` with their blocks.
    If(Vec<(Expr, Block)>, Block),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Int(i128),
    /// A number with a fraction, in millionths: fine enough to compare counters with.
    Millionths(i128),
    /// A text.
    Text(String),
    /// `True`, `False`.
    Bool(bool),
    /// `None`.
    None,
    /// A name.
    Name(Pos, String),
    /// `(a, b)`.
    Tuple(Vec<Expr>),
    /// `a < b <= c`.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `a + b`.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// `-a`.
    Negate(Box<Expr>),
    /// `~a`.
    Invert(Box<Expr>),
    /// `not a`.
    Not(Box<Expr>),
    /// `a and b`.
    And(Box<Expr>, Box<Expr>),
    /// `a or b`.
    Or(Box<Expr>, Box<Expr>),
    /// `b if a else c`.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `abs(x)`, `min(a, b)`, `max(a, b)`, `int(x)`.
    Call(Function, Vec<Expr>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    Greater,
    /// `>=`.
    AtLeast,
    /// `in`.
    In,
    /// `not in`.
    NotIn,
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/` and `//`: division of whole numbers, rounded down.
    Divide,
    /// `%`: remainder, or formatting if the left is a text.
    Remainder,
    /// `&`.
    And,
    /// `|`.
    Or,
    /// `^`.
    Xor,
    /// `<<`.
    ShiftLeft,
    /// `>>`.
    ShiftRight,
    /// `**`.
    Power,
}

/// A function that may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `abs`.
    Abs,
    /// `min`.
    Min,
    /// `max`.
    Max,
    /// `int`.
    Int,
}

#[cfg(test)]
mod tests;
