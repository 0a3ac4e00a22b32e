//! Code blocks at work.

use super::{Block, Comparison, Expr, Function, Operator, Statement, StatementKind};
use crate::fault::{Pos, nearest};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i128),
    /// A number in millionths.
    Millionths(i128),
    /// A text.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// `None`.
    None,
    /// Several values.
    Tuple(Vec<Value>),
}

/// The names that a block knows.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// What the event has looked up: `tcpi_…` and constants.
    pub facts: BTreeMap<&'static str, i128>,
    /// What blocks have assigned; kept from block to block.
    pub assigned: BTreeMap<String, Value>,
    /// What blocks have printed.
    pub printed: Vec<String>,
    steps: u32,
}

/// Why a block stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Where.
    pub pos: Pos,
    /// What went wrong.
    pub what: String,
    /// The statement.
    pub statement: String,
    /// Names of the statement and their values.
    pub values: Vec<(String, String)>,
}

/// A script's blocks together do no more than this many steps.
pub const MAX_STEPS: u32 = 100_000;

type Evaluated<T> = Result<T, String>;

impl Env {
    /// Runs a block. The error is that of the first assertion that fails.
    pub fn run(&mut self, block: &Block) -> Result<(), Failure> {
        for statement in &block.statements {
            self.statement(statement)?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Failure> {
        let result = match &statement.kind {
            StatementKind::Assert(condition, message) => self.assert(condition, message.as_ref()),
            StatementKind::Assign(name, value) => self.eval(value).map(|value| {
                self.assigned.insert(name.clone(), value);
            }),
            StatementKind::Print(list) => self.print(list),
            StatementKind::Expression(expr) => self.eval(expr).map(|_| ()),
            StatementKind::If(arms, otherwise) => return self.branch(statement, arms, otherwise),
        };
        result.map_err(|what| self.failure(statement, what))
    }

    fn branch(
        &mut self,
        statement: &Statement,
        arms: &[(Expr, Block)],
        otherwise: &Block,
    ) -> Result<(), Failure> {
        for (condition, block) in arms {
            match self.eval(condition) {
                Ok(value) if value.is_true() => return self.run(block),
                Ok(_) => {}
                Err(what) => return Err(self.failure(statement, what)),
            }
        }
        self.run(otherwise)
    }

    fn assert(&mut self, condition: &Expr, message: Option<&Expr>) -> Evaluated<()> {
        if self.eval(condition)?.is_true() {
            return Ok(());
        }
        match message {
            Some(message) => Err(format!("assertion failed: {}", self.eval(message)?.show())),
            None => Err("assertion failed".to_owned()),
        }
    }

    fn print(&mut self, list: &[Expr]) -> Evaluated<()> {
        let mut line = Vec::new();
        for expr in list {
            line.push(self.eval(expr)?.show());
        }
        if self.printed.len() < MAX_PRINTED {
            self.printed.push(line.join(" "));
        }
        Ok(())
    }

    fn failure(&mut self, statement: &Statement, what: String) -> Failure {
        let mut names = Vec::new();
        match &statement.kind {
            StatementKind::Assert(condition, _) => names_of(condition, &mut names),
            StatementKind::Assign(_, expr) | StatementKind::Expression(expr) => {
                names_of(expr, &mut names);
            }
            StatementKind::Print(_) | StatementKind::If(..) => {}
        }
        names.dedup();
        let values = names
            .into_iter()
            .filter_map(|name| {
                let value = self.look_up(Pos::default(), &name).ok()?.show();
                Some((name, value))
            })
            .collect();
        Failure { pos: statement.pos, what, statement: statement.text.clone(), values }
    }

    fn look_up(&self, _pos: Pos, name: &str) -> Evaluated<Value> {
        if let Some(value) = self.assigned.get(name) {
            return Ok(value.clone());
        }
        if let Some(value) = self.facts.get(name) {
            return Ok(Value::Int(*value));
        }
        let known: Vec<&str> = self.facts.keys().copied().collect();
        Err(match nearest(name, &known) {
            Some(near) => format!("name `{name}` is not defined; did you mean `{near}`?"),
            None => format!("name `{name}` is not defined"),
        })
    }

    fn eval(&mut self, expr: &Expr) -> Evaluated<Value> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(format!("the code blocks take more than {MAX_STEPS} steps"));
        }
        Ok(match expr {
            Expr::Int(number) => Value::Int(*number),
            Expr::Millionths(number) => Value::Millionths(*number),
            Expr::Text(text) => Value::Text(text.clone()),
            Expr::Bool(truth) => Value::Bool(*truth),
            Expr::None => Value::None,
            Expr::Name(pos, name) => self.look_up(*pos, name)?,
            Expr::Tuple(list) => {
                Value::Tuple(list.iter().map(|it| self.eval(it)).collect::<Evaluated<_>>()?)
            }
            Expr::Compare(first, chain) => self.compare(first, chain)?,
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                binary(*operator, &left, right)?
            }
            Expr::Negate(inner) => match self.eval(inner)?.number()? {
                Number::Integer(number) => {
                    Value::Int(number.checked_neg().ok_or("a number too large")?)
                }
                Number::Millionths(number) => {
                    Value::Millionths(number.checked_neg().ok_or("a number too large")?)
                }
            },
            Expr::Invert(inner) => Value::Int(!self.eval(inner)?.integer()?),
            Expr::Not(inner) => Value::Bool(!self.eval(inner)?.is_true()),
            Expr::And(left, right) => {
                let left = self.eval(left)?;
                if left.is_true() { self.eval(right)? } else { left }
            }
            Expr::Or(left, right) => {
                let left = self.eval(left)?;
                if left.is_true() { left } else { self.eval(right)? }
            }
            Expr::Conditional(condition, yes, no) => {
                if self.eval(condition)?.is_true() {
                    self.eval(yes)?
                } else {
                    self.eval(no)?
                }
            }
            Expr::Call(function, args) => self.call(*function, args)?,
        })
    }

    fn compare(&mut self, first: &Expr, chain: &[(Comparison, Expr)]) -> Evaluated<Value> {
        let mut left = self.eval(first)?;
        for (comparison, right) in chain {
            let right = self.eval(right)?;
            if !compare(*comparison, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn call(&mut self, function: Function, args: &[Expr]) -> Evaluated<Value> {
        let mut values = Vec::new();
        for arg in args {
            values.push(self.eval(arg)?);
        }
        match (function, values.as_slice()) {
            (Function::Abs, [one]) => match one.number()? {
                Number::Integer(number) => {
                    Ok(Value::Int(number.checked_abs().ok_or("a number too large")?))
                }
                Number::Millionths(number) => {
                    Ok(Value::Millionths(number.checked_abs().ok_or("a number too large")?))
                }
            },
            (Function::Int, [one]) => match one.number()? {
                Number::Integer(number) => Ok(Value::Int(number)),
                Number::Millionths(number) => Ok(Value::Int(number / MILLION)),
            },
            (Function::Min | Function::Max, [first, rest @ ..]) => {
                let mut best = first.clone();
                let wanted =
                    if function == Function::Min { Comparison::Less } else { Comparison::Greater };
                for value in rest {
                    if compare(wanted, value, &best)? {
                        best = value.clone();
                    }
                }
                Ok(best)
            }
            _ => Err("wrong number of arguments".to_owned()),
        }
    }
}

enum Number {
    Integer(i128),
    Millionths(i128),
}

impl Number {
    fn millionths(&self) -> Evaluated<i128> {
        match self {
            Self::Integer(number) => {
                number.checked_mul(MILLION).ok_or_else(|| "a number too large".to_owned())
            }
            Self::Millionths(number) => Ok(*number),
        }
    }
}

impl Value {
    /// Whether Python takes it for true.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Int(number) | Self::Millionths(number) => *number != 0,
            Self::Text(text) => !text.is_empty(),
            Self::Bool(truth) => *truth,
            Self::None => false,
            Self::Tuple(list) => !list.is_empty(),
        }
    }

    /// As `print` shows it.
    pub fn show(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::Millionths(number) => {
                let fraction = format!("{:06}", (number % MILLION).abs());
                let fraction = fraction.trim_end_matches('0');
                let sign = if *number < 0 && number / MILLION == 0 { "-" } else { "" };
                let fraction = if fraction.is_empty() { "0" } else { fraction };
                format!("{sign}{}.{fraction}", number / MILLION)
            }
            Self::Text(text) => text.clone(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::None => "None".to_owned(),
            Self::Tuple(list) => {
                let list: Vec<String> = list.iter().map(Self::show).collect();
                format!("({})", list.join(", "))
            }
        }
    }

    fn number(&self) -> Evaluated<Number> {
        match self {
            Self::Int(number) => Ok(Number::Integer(*number)),
            Self::Bool(truth) => Ok(Number::Integer(i128::from(*truth))),
            Self::Millionths(number) => Ok(Number::Millionths(*number)),
            other => Err(format!("`{}` is not a number", other.show())),
        }
    }

    fn integer(&self) -> Evaluated<i128> {
        match self.number()? {
            Number::Integer(number) => Ok(number),
            Number::Millionths(_) => Err(format!("`{}` is not a whole number", self.show())),
        }
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Evaluated<bool> {
    use core::cmp::Ordering;
    if let Comparison::In | Comparison::NotIn = comparison {
        let Value::Tuple(list) = right else { return Err("`in` needs a tuple".to_owned()) };
        let mut found = false;
        for value in list {
            found |= compare(Comparison::Equal, left, value)?;
        }
        return Ok(found == (comparison == Comparison::In));
    }
    let ordering = match (left.number(), right.number()) {
        (Ok(left), Ok(right)) => left.millionths()?.cmp(&right.millionths()?),
        _ => match (left, right) {
            (Value::Text(left), Value::Text(right)) => left.cmp(right),
            _ if comparison == Comparison::Equal => return Ok(left == right),
            _ if comparison == Comparison::NotEqual => return Ok(left != right),
            _ => return Err(format!("cannot compare {} with {}", left.show(), right.show())),
        },
    };
    Ok(match comparison {
        Comparison::Equal => ordering == Ordering::Equal,
        Comparison::NotEqual => ordering != Ordering::Equal,
        Comparison::Less => ordering == Ordering::Less,
        Comparison::AtMost => ordering != Ordering::Greater,
        Comparison::Greater => ordering == Ordering::Greater,
        Comparison::AtLeast => ordering != Ordering::Less,
        Comparison::In | Comparison::NotIn => unreachable!("seen above"),
    })
}

fn binary(operator: Operator, left: &Value, right: Value) -> Evaluated<Value> {
    if let (Operator::Remainder, Value::Text(format)) = (operator, left) {
        return format_text(format, right).map(Value::Text);
    }
    if let (Operator::Add, Value::Text(left), Value::Text(right)) = (operator, left, &right) {
        return Ok(Value::Text(format!("{left}{right}")));
    }
    if let (Number::Integer(left), Number::Integer(right)) = (left.number()?, right.number()?) {
        return as_integer(operator, left, right)
            .map(Value::Int)
            .ok_or_else(|| "division by zero, or a number too large".to_owned());
    }
    let (left, right) = (left.number()?.millionths()?, right.number()?.millionths()?);
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right).map(|it| it / MILLION),
        Operator::Divide => left.checked_mul(MILLION).and_then(|it| it.checked_div(right)),
        _ => return Err("this operator needs whole numbers".to_owned()),
    };
    let wrong = || "division by zero, or a number too large".to_owned();
    result.map(Value::Millionths).ok_or_else(wrong)
}

fn as_integer(operator: Operator, left: i128, right: i128) -> Option<i128> {
    match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => {
            let quotient = left.checked_div(right)?;
            let inexact = left.checked_rem(right)? != 0;
            Some(if inexact && (left < 0) != (right < 0) { quotient - 1 } else { quotient })
        }
        Operator::Remainder => {
            let rest = left.checked_rem(right)?;
            Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
        }
        Operator::And => Some(left & right),
        Operator::Or => Some(left | right),
        Operator::Xor => Some(left ^ right),
        Operator::ShiftLeft => {
            let shift = u32::try_from(right).ok().filter(|shift| *shift < 64)?;
            left.checked_mul(1_i128 << shift)
        }
        Operator::ShiftRight => {
            let shift = u32::try_from(right).ok().filter(|shift| *shift < 128)?;
            Some(left >> shift)
        }
        Operator::Power => left.checked_pow(u32::try_from(right).ok()?),
    }
}

/// `'cwnd=%d' % cwnd`.
fn format_text(format: &str, values: Value) -> Evaluated<String> {
    let values = match values {
        Value::Tuple(list) => list,
        one => vec![one],
    };
    let mut values = values.into_iter();
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let kind = loop {
            match chars.next() {
                Some('0'..='9' | '.' | '-' | '+' | ' ' | '#' | 'l') => {}
                Some(kind) => break kind,
                None => return Err("the format ends after `%`".to_owned()),
            }
        };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or("not enough values for the format")?;
        match kind {
            'd' | 'i' | 'u' => match value.number()? {
                Number::Integer(number) => out.push_str(&number.to_string()),
                Number::Millionths(number) => out.push_str(&(number / MILLION).to_string()),
            },
            'x' => {
                let _ = write!(out, "{:x}", value.integer()?);
            }
            's' | 'r' | 'f' | 'g' => out.push_str(&value.show()),
            other => return Err(format!("`%{other}` is not a format")),
        }
    }
    Ok(out)
}

fn names_of(expr: &Expr, names: &mut Vec<String>) {
    match expr {
        Expr::Name(_, name) => names.push(name.clone()),
        Expr::Tuple(list) | Expr::Call(_, list) => list.iter().for_each(|it| names_of(it, names)),
        Expr::Compare(first, chain) => {
            names_of(first, names);
            for (_, it) in chain {
                names_of(it, names);
            }
        }
        Expr::Binary(_, left, right) | Expr::And(left, right) | Expr::Or(left, right) => {
            names_of(left, names);
            names_of(right, names);
        }
        Expr::Negate(inner) | Expr::Invert(inner) | Expr::Not(inner) => names_of(inner, names),
        Expr::Conditional(one, two, three) => {
            for it in [one, two, three] {
                names_of(it, names);
            }
        }
        Expr::Int(_) | Expr::Millionths(_) | Expr::Text(_) | Expr::Bool(_) | Expr::None => {}
    }
}

const MILLION: i128 = 1_000_000;
const MAX_PRINTED: usize = 1_000;
