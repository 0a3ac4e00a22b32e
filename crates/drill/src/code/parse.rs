//! Tokens of a code block into statements.

use super::token::{Kind, Token, tokens};
use super::{Block, Comparison, Expr, Function, Operator, Statement, StatementKind};
use crate::fault::{Fault, Pos};

/// The statements of a block whose text begins at `pos` (the `%{` included).
pub fn parse(text: &str, pos: Pos) -> Result<Block, Fault> {
    let begin = Pos { line: pos.line, column: pos.column + 2 };
    let mut parser = Parser { text, tokens: tokens(text, begin)?, at: 0, depth: 0, joined: 0 };
    let block = parser.statements(&Kind::End)?;
    Ok(block)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    /// Operators between two operands of the statement so far: each makes its tree one deeper.
    joined: u32,
}

type Parsed<T> = Result<T, Fault>;

impl Parser<'_> {
    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn pos(&self) -> Pos {
        self.tokens[self.at].pos
    }

    fn next(&mut self) -> Kind {
        let kind = self.tokens[self.at].kind.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        kind
    }

    fn eat(&mut self, op: &str) -> bool {
        let found = matches!(self.peek(), Kind::Op(it) if *it == op);
        if found {
            self.next();
        }
        found
    }

    fn eat_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Kind::Name(it) if it == name);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, op: &str) -> Parsed<()> {
        if self.eat(op) { Ok(()) } else { Err(self.unexpected(&format!("`{op}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        let found = match self.peek() {
            Kind::Int(number) => format!("`{number}`"),
            Kind::Millionths(_) => "a number".to_owned(),
            Kind::Text(text) => format!("text '{text}'"),
            Kind::Name(name) => format!("`{name}`"),
            Kind::Op(op) => format!("`{op}`"),
            Kind::Newline => "the end of the line".to_owned(),
            Kind::Indent => "a deeper indentation".to_owned(),
            Kind::Dedent => "the end of an indented block".to_owned(),
            Kind::End => "the end of the block".to_owned(),
        };
        Fault::new(self.pos(), format!("unexpected {found}"), format!("expected {wanted}"))
    }

    fn statements(&mut self, until: &Kind) -> Parsed<Block> {
        let mut statements = Vec::new();
        loop {
            while *self.peek() == Kind::Newline || self.eat(";") {
                if *self.peek() == Kind::Newline {
                    self.next();
                }
            }
            if self.peek() == until {
                return Ok(Block { statements });
            }
            if *self.peek() == Kind::End {
                return Err(self.unexpected("a statement"));
            }
            statements.push(self.statement()?);
        }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let (pos, begin) = (self.pos(), self.tokens[self.at].at);
        self.joined = 0;
        let kind = self.statement_kind()?;
        if !matches!(kind, StatementKind::If(..))
            && !matches!(self.peek(), Kind::Newline | Kind::End | Kind::Op(";"))
        {
            return Err(self.unexpected("the end of the statement"));
        }
        let end = self.tokens[self.at].at.max(begin);
        let text = self.text.get(begin..end).unwrap_or_default().trim().to_owned();
        Ok(Statement { pos, text, kind })
    }

    fn statement_kind(&mut self) -> Parsed<StatementKind> {
        if self.eat_name("assert") {
            let condition = self.expression()?;
            let message = if self.eat(",") { Some(self.tuple_or_expression()?) } else { None };
            return Ok(StatementKind::Assert(condition, message));
        }
        if self.eat_name("pass") {
            return Ok(StatementKind::Expression(Expr::None));
        }
        if self.eat_name("if") {
            return self.if_statement();
        }
        if let Kind::Name(name) = self.peek() {
            let name = name.clone();
            if FORBIDDEN.contains(&name.as_str()) {
                let why = format!("`{name}` of Python is not interpreted");
                return Err(Fault::no_meaning(self.pos(), why));
            }
            if let Some(assigned) = self.assignment(&name)? {
                return Ok(assigned);
            }
            if name == "print" {
                self.next();
                return Ok(StatementKind::Print(self.printed()?));
            }
        }
        Ok(StatementKind::Expression(self.tuple_or_expression()?))
    }

    /// `name = value` or `name += value`; `None`, and nothing read, if it is neither.
    fn assignment(&mut self, name: &str) -> Parsed<Option<StatementKind>> {
        let Kind::Op(op) = self.tokens[self.at + 1].kind else { return Ok(None) };
        let operator = match op {
            "=" => None,
            "+=" => Some(Operator::Add),
            "-=" => Some(Operator::Subtract),
            "*=" => Some(Operator::Multiply),
            "%=" => Some(Operator::Remainder),
            "&=" => Some(Operator::And),
            "|=" => Some(Operator::Or),
            _ => return Ok(None),
        };
        let pos = self.pos();
        self.next();
        self.next();
        let value = self.tuple_or_expression()?;
        let value = match operator {
            None => value,
            Some(operator) => {
                let old = Expr::Name(pos, name.to_owned());
                Expr::Binary(operator, Box::new(old), Box::new(value))
            }
        };
        Ok(Some(StatementKind::Assign(name.to_owned(), value)))
    }

    /// What `print` prints: `print(a, b)`, or `print a` as in Python 2.
    fn printed(&mut self) -> Parsed<Vec<Expr>> {
        if matches!(self.peek(), Kind::Newline | Kind::End | Kind::Op(";")) {
            return Ok(Vec::new());
        }
        match self.tuple_or_expression()? {
            Expr::Tuple(list) => Ok(list),
            one => Ok(vec![one]),
        }
    }

    fn if_statement(&mut self) -> Parsed<StatementKind> {
        let mut arms = Vec::new();
        let condition = self.expression()?;
        self.expect(":")?;
        arms.push((condition, self.suite()?));
        loop {
            while *self.peek() == Kind::Newline {
                self.next();
            }
            if self.eat_name("elif") {
                let condition = self.expression()?;
                self.expect(":")?;
                arms.push((condition, self.suite()?));
            } else if self.eat_name("else") {
                self.expect(":")?;
                let otherwise = self.suite()?;
                return Ok(StatementKind::If(arms, otherwise));
            } else {
                return Ok(StatementKind::If(arms, Block::default()));
            }
        }
    }

    /// The block behind a colon: the rest of the line, or indented lines.
    fn suite(&mut self) -> Parsed<Block> {
        self.deeper()?;
        let block = if *self.peek() == Kind::Newline {
            self.next();
            if *self.peek() != Kind::Indent {
                return Err(self.unexpected("an indented line"));
            }
            self.next();
            let block = self.statements(&Kind::Dedent)?;
            self.next();
            block
        } else {
            let mut statements = vec![self.statement()?];
            while self.eat(";") && !matches!(self.peek(), Kind::Newline | Kind::End) {
                statements.push(self.statement()?);
            }
            Block { statements }
        };
        self.depth -= 1;
        Ok(block)
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.unexpected("less nesting")) } else { Ok(()) }
    }

    fn join(&mut self) -> Parsed<()> {
        self.joined += 1;
        if self.joined > MAX_JOINED { Err(self.unexpected("fewer operators")) } else { Ok(()) }
    }

    fn tuple_or_expression(&mut self) -> Parsed<Expr> {
        let first = self.expression()?;
        if !matches!(self.peek(), Kind::Op(",")) {
            return Ok(first);
        }
        let mut list = vec![first];
        while self.eat(",") {
            if matches!(self.peek(), Kind::Newline | Kind::End | Kind::Op(";" | ")")) {
                break;
            }
            list.push(self.expression()?);
        }
        Ok(Expr::Tuple(list))
    }

    fn expression(&mut self) -> Parsed<Expr> {
        self.deeper()?;
        let value = self.disjunction()?;
        let value = if self.eat_name("if") {
            let condition = self.disjunction()?;
            if !self.eat_name("else") {
                return Err(self.unexpected("`else`"));
            }
            let otherwise = self.expression()?;
            Expr::Conditional(Box::new(condition), Box::new(value), Box::new(otherwise))
        } else {
            value
        };
        self.depth -= 1;
        Ok(value)
    }

    fn disjunction(&mut self) -> Parsed<Expr> {
        let mut left = self.conjunction()?;
        while self.eat_name("or") {
            self.join()?;
            left = Expr::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Parsed<Expr> {
        let mut left = self.negation()?;
        while self.eat_name("and") {
            self.join()?;
            left = Expr::And(Box::new(left), Box::new(self.negation()?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Parsed<Expr> {
        if self.eat_name("not") {
            self.deeper()?;
            let value = Expr::Not(Box::new(self.negation()?));
            self.depth -= 1;
            return Ok(value);
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Parsed<Expr> {
        let left = self.binary(0)?;
        let mut chain = Vec::new();
        while let Some(comparison) = self.comparison_sign() {
            chain.push((comparison, self.binary(0)?));
        }
        Ok(if chain.is_empty() { left } else { Expr::Compare(Box::new(left), chain) })
    }

    fn comparison_sign(&mut self) -> Option<Comparison> {
        let signs = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        for (sign, comparison) in signs {
            if self.eat(sign) {
                return Some(comparison);
            }
        }
        if self.eat_name("in") {
            return Some(Comparison::In);
        }
        let not_in = matches!(self.peek(), Kind::Name(name) if name == "not")
            && matches!(&self.tokens[self.at + 1].kind, Kind::Name(name) if name == "in");
        if not_in {
            self.next();
            self.next();
            return Some(Comparison::NotIn);
        }
        None
    }

    /// Operators by precedence, loosest first.
    fn binary(&mut self, level: usize) -> Parsed<Expr> {
        const LEVELS: [&[(&str, Operator)]; 6] = [
            &[("|", Operator::Or)],
            &[("^", Operator::Xor)],
            &[("&", Operator::And)],
            &[("<<", Operator::ShiftLeft), (">>", Operator::ShiftRight)],
            &[("+", Operator::Add), ("-", Operator::Subtract)],
            &[
                ("*", Operator::Multiply),
                ("//", Operator::Divide),
                ("/", Operator::Divide),
                ("%", Operator::Remainder),
            ],
        ];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        'next: loop {
            for (sign, operator) in *operators {
                if self.eat(sign) {
                    self.join()?;
                    let right = self.binary(level + 1)?;
                    left = Expr::Binary(*operator, Box::new(left), Box::new(right));
                    continue 'next;
                }
            }
            return Ok(left);
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.deeper()?;
        let value = if self.eat("-") {
            Expr::Negate(Box::new(self.unary()?))
        } else if self.eat("~") {
            Expr::Invert(Box::new(self.unary()?))
        } else if self.eat("+") {
            self.unary()?
        } else {
            let base = self.primary()?;
            if self.eat("**") {
                Expr::Binary(Operator::Power, Box::new(base), Box::new(self.unary()?))
            } else {
                base
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let pos = self.pos();
        match self.peek().clone() {
            Kind::Int(number) => {
                self.next();
                Ok(Expr::Int(number))
            }
            Kind::Millionths(number) => {
                self.next();
                Ok(Expr::Millionths(number))
            }
            Kind::Text(mut whole) => {
                self.next();
                while let Kind::Text(more) = self.peek() {
                    whole.push_str(&more.clone());
                    self.next();
                }
                Ok(Expr::Text(whole))
            }
            Kind::Op("(") => {
                self.next();
                if self.eat(")") {
                    return Ok(Expr::Tuple(Vec::new()));
                }
                let inner = self.tuple_or_expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Kind::Op("[") => {
                self.next();
                let mut list = Vec::new();
                while !self.eat("]") {
                    list.push(self.expression()?);
                    if !self.eat(",") {
                        self.expect("]")?;
                        break;
                    }
                }
                Ok(Expr::Tuple(list))
            }
            Kind::Name(name) => {
                self.next();
                self.named(pos, name)
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    fn named(&mut self, pos: Pos, name: String) -> Parsed<Expr> {
        if !matches!(self.peek(), Kind::Op("(")) {
            return Ok(match name.as_str() {
                "True" => Expr::Bool(true),
                "False" => Expr::Bool(false),
                "None" => Expr::None,
                _ if FORBIDDEN.contains(&name.as_str()) => {
                    let why = format!("`{name}` of Python is not interpreted");
                    return Err(Fault::no_meaning(pos, why));
                }
                _ => Expr::Name(pos, name),
            });
        }
        let function = match name.as_str() {
            "abs" => Function::Abs,
            "min" => Function::Min,
            "max" => Function::Max,
            "int" => Function::Int,
            _ if PYTHONS.contains(&name.as_str()) => {
                let why = format!("{name}() of Python is not interpreted");
                return Err(Fault::no_meaning(pos, why));
            }
            _ => return Err(Fault::unknown(pos, "function", &name, &["abs", "min", "max", "int"])),
        };
        self.next();
        let mut args = Vec::new();
        while !self.eat(")") {
            args.push(self.expression()?);
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(Expr::Call(function, args))
    }
}

/// Python has these words, code blocks do not.
const FORBIDDEN: [&str; 16] = [
    "while", "for", "import", "from", "def", "class", "lambda", "return", "try", "with", "exec",
    "eval", "open", "global", "del", "raise",
];

/// Python has these functions, code blocks do not.
const PYTHONS: [&str; 24] = [
    "len",
    "range",
    "sum",
    "any",
    "all",
    "str",
    "float",
    "round",
    "hex",
    "bin",
    "ord",
    "chr",
    "list",
    "tuple",
    "dict",
    "set",
    "sorted",
    "reversed",
    "zip",
    "map",
    "filter",
    "isinstance",
    "type",
    "repr",
];

/// Nested no deeper.
const MAX_DEPTH: u32 = 64;
/// So many operators join operands of one statement.
const MAX_JOINED: u32 = 256;
