//! Words into commands: lists, pipelines, `if`, `for`, `while`, `case`, functions.

use super::syntax::{Command, Join, Kind, List, Pipeline, Text, Word};
use super::words::{Reader, literal};
use crate::fault::Fault;
use std::sync::Arc;

/// Words that end a list where a command could begin.
const ENDS: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];

impl Reader {
    /// Pipelines up to the end of the text, or to a word that ends a list.
    pub fn list(&mut self) -> Result<List, Fault> {
        let mut list = Vec::new();
        loop {
            self.blanks();
            if self.starts(";;") {
                return Ok(list);
            }
            if self.eat("\n") || self.eat(";") {
                continue;
            }
            let ended = self.peek().is_none_or(|c| c == ')')
                || self.word_ahead().is_some_and(|word| ENDS.contains(&word.as_str()));
            if ended {
                return Ok(list);
            }
            list.push(self.pipeline()?);
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, Fault> {
        let mut negated = false;
        while self.eat_keyword("!") {
            negated = !negated;
        }
        let mut commands = vec![self.command()?];
        loop {
            self.blanks();
            if self.starts("||") || !self.eat("|") {
                break;
            }
            self.eat("&");
            self.lines();
            commands.push(self.command()?);
        }
        let join = if self.eat("&&") {
            self.lines();
            Join::And
        } else if self.eat("||") {
            self.lines();
            Join::Or
        } else {
            if self.starts("&") {
                return Err(Fault::new(self.pos, "a command in the background", "drop the `&`"));
            }
            Join::Next
        };
        Ok(Pipeline { commands, negated, join })
    }

    /// Takes a word of the shell's own, if it comes next.
    fn eat_keyword(&mut self, word: &str) -> bool {
        self.blanks();
        self.word_ahead().as_deref() == Some(word) && self.eat(word)
    }

    fn expect_keyword(&mut self, word: &str) -> Result<(), Fault> {
        self.lines();
        while self.eat(";") {
            self.lines();
        }
        if self.eat_keyword(word) {
            return Ok(());
        }
        let found = self.word_ahead().unwrap_or_else(|| "the end".to_owned());
        Err(Fault::new(self.pos, format!("expected `{word}`"), format!("found `{found}`")))
    }

    fn command(&mut self) -> Result<Command, Fault> {
        self.blanks();
        let pos = self.pos;
        self.nest()?;
        let kind = self.compound()?;
        self.unnest();
        let Some(kind) = kind else { return self.simple() };
        let mut redirects = Vec::new();
        loop {
            self.blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(Command { pos, kind, redirects }),
            }
        }
    }

    /// A command that begins with a word of the shell's own; `None` if another one comes next.
    fn compound(&mut self) -> Result<Option<Kind>, Fault> {
        let pos = self.pos;
        if self.eat("((") {
            return Ok(Some(Kind::Arithmetic(self.arithmetic(pos)?)));
        }
        if self.eat("(") {
            let list = self.list()?;
            if !self.eat(")") {
                return Err(Fault::new(pos, "no `)` follows", ""));
            }
            return Ok(Some(Kind::Subshell(list)));
        }
        let Some(word) = self.word_ahead() else { return Ok(None) };
        Ok(Some(match word.as_str() {
            "{" => {
                self.eat("{");
                let list = self.list()?;
                self.expect_keyword("}")?;
                Kind::Group(list)
            }
            "if" => {
                self.eat("if");
                self.if_command()?
            }
            "while" | "until" => {
                self.eat(&word);
                let condition = self.list()?;
                Kind::While { until: word == "until", condition, body: self.do_done()? }
            }
            "for" => {
                self.eat("for");
                self.for_command()?
            }
            "case" => {
                self.eat("case");
                self.case_command()?
            }
            "function" => {
                self.eat("function");
                self.blanks();
                let name = self.function_name();
                self.blanks();
                self.eat("()");
                self.function(name)?
            }
            "[[" => {
                self.eat("[[");
                Kind::Simple(self.double_brackets()?)
            }
            "select" | "coproc" | "time" => {
                let why = format!("`{word}` of the shell is not interpreted");
                return Err(Fault::no_meaning(pos, why));
            }
            _ if word.chars().all(is_name) && self.starts(&format!("{word}()")) => {
                self.eat(&word);
                self.eat("()");
                self.function(word)?
            }
            _ => return Ok(None),
        }))
    }

    fn function_name(&mut self) -> String {
        let word = self.word_ahead().unwrap_or_default();
        self.eat(&word);
        word
    }

    fn function(&mut self, name: String) -> Result<Kind, Fault> {
        self.lines();
        let pos = self.pos;
        if !self.eat("{") {
            return Err(Fault::new(pos, format!("the body of {name}() is missing"), "{ …; }"));
        }
        let body = self.list()?;
        self.expect_keyword("}")?;
        Ok(Kind::Function(name, Arc::new(body)))
    }

    fn if_command(&mut self) -> Result<Kind, Fault> {
        let mut branches = Vec::new();
        loop {
            let condition = self.list()?;
            self.expect_keyword("then")?;
            branches.push((condition, self.list()?));
            if self.eat_keyword("elif") {
                continue;
            }
            let otherwise = if self.eat_keyword("else") { self.list()? } else { Vec::new() };
            self.expect_keyword("fi")?;
            return Ok(Kind::If(branches, otherwise));
        }
    }

    fn do_done(&mut self) -> Result<List, Fault> {
        self.expect_keyword("do")?;
        let body = self.list()?;
        self.expect_keyword("done")?;
        Ok(body)
    }

    fn for_command(&mut self) -> Result<Kind, Fault> {
        self.blanks();
        let pos = self.pos;
        if self.eat("((") {
            let text = self.arithmetic(pos)?;
            let parts: Vec<String> = text.split(';').map(str::to_owned).collect();
            let Ok(parts) = <[String; 3]>::try_from(parts) else {
                return Err(Fault::new(pos, "expected `((…; …; …))`", ""));
            };
            return Ok(Kind::Count(parts, self.do_done()?));
        }
        let name = self.name();
        if name.is_empty() {
            return Err(Fault::new(pos, "the name of a variable is missing", "for NAME in …"));
        }
        self.lines();
        let words = if self.eat_keyword("in") {
            let mut words = Vec::new();
            loop {
                self.blanks();
                if matches!(self.peek(), None | Some('\n' | ';' | '|' | '&' | ')')) {
                    break;
                }
                words.push(self.word()?);
            }
            Some(words)
        } else {
            None
        };
        Ok(Kind::For(name, words, self.do_done()?))
    }

    fn case_command(&mut self) -> Result<Kind, Fault> {
        self.blanks();
        let word = self.word()?;
        self.expect_keyword("in")?;
        let mut arms = Vec::new();
        loop {
            self.lines();
            if self.eat_keyword("esac") {
                return Ok(Kind::Case(word, arms));
            }
            self.eat("(");
            let mut patterns = Vec::new();
            loop {
                self.blanks();
                patterns.push(self.word()?);
                self.blanks();
                if self.eat(")") {
                    break;
                }
                if !self.eat("|") {
                    return Err(Fault::new(self.pos, "expected `)` behind a pattern", ""));
                }
            }
            arms.push((patterns, self.list()?));
            self.lines();
            if !self.eat(";;") {
                self.expect_keyword("esac")?;
                return Ok(Kind::Case(word, arms));
            }
        }
    }

    /// `[[ … ]]` as words: its operators are words as well.
    fn double_brackets(&mut self) -> Result<Vec<Word>, Fault> {
        let begin = self.pos;
        let plain =
            |text: &str| Word { parts: vec![literal(text.to_owned(), false)], quoted: false };
        let mut words = vec![plain("[[")];
        'words: loop {
            self.lines();
            for operator in ["&&", "||", "(", ")", "<", ">"] {
                if self.eat(operator) {
                    words.push(plain(operator));
                    continue 'words;
                }
            }
            if self.peek().is_none() {
                return Err(Fault::new(begin, "no `]]` follows", ""));
            }
            let word = self.word()?;
            let last = matches!(word.parts.as_slice(), [part]
                if !part.quoted && part.text == Text::Literal("]]".to_owned()));
            words.push(word);
            if last {
                return Ok(words);
            }
        }
    }

    /// A name and its arguments, with redirections anywhere among them.
    fn simple(&mut self) -> Result<Command, Fault> {
        let pos = self.pos;
        let (mut words, mut redirects) = (Vec::new(), Vec::new());
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '|' | '&' | ')') => break,
                Some('(') => {
                    return Err(Fault::new(self.pos, "unexpected `(`", "quote it: `\\(`"));
                }
                _ => words.push(self.word()?),
            }
        }
        if words.is_empty() && redirects.is_empty() {
            return Err(Fault::new(pos, "a command is missing", ""));
        }
        Ok(Command { pos, kind: Kind::Simple(words), redirects })
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}
