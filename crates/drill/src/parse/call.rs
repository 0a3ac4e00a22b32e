//! System calls and their arguments.

use super::{Parsed, Parser};
use crate::ast::{
    CallSpec, Cmsg, EpollEvent, EpollMember, Expr, ExprKind, ExtendedError, MsgHdr, PollFd,
};
use crate::fault::Fault;
use crate::lex::Kind;
use core::net::SocketAddr;

impl Parser {
    /// `...0.2 accept(3, ..., ...) = 4 ERRNO (note)`.
    pub(super) fn call(&mut self) -> Parsed<CallSpec> {
        let end = if self.peek().kind == Kind::Ellipsis {
            self.next();
            Some(self.moment()?)
        } else {
            None
        };
        let (pos, name) = self.any_word("the name of a system call")?;
        self.expect('(')?;
        let mut args = Vec::new();
        if !self.eat(')') {
            args = self.expressions(0)?;
            self.expect(')')?;
        }
        self.expect('=')?;
        let result = self.expression(0)?;
        let mut errno = None;
        if let Kind::Word(word) = &self.peek().kind {
            let word = word.clone();
            errno = Some((self.next().pos, word));
        }
        if self.eat('(') {
            self.note()?;
        }
        Ok(CallSpec { pos, end, name, args, result, errno })
    }

    /// Words for people, up to the closing parenthesis.
    fn note(&mut self) -> Parsed<()> {
        while !self.eat(')') {
            if matches!(self.peek().kind, Kind::End | Kind::Command(_)) {
                return Err(self.expected("`)`"));
            }
            self.next();
        }
        Ok(())
    }

    fn expressions(&mut self, depth: u32) -> Parsed<Vec<Expr>> {
        let mut list = vec![self.expression(depth)?];
        while self.eat(',') {
            list.push(self.expression(depth)?);
        }
        Ok(list)
    }

    fn expression(&mut self, depth: u32) -> Parsed<Expr> {
        if depth > MAX_DEPTH {
            return Err(self.expected("fewer nested brackets"));
        }
        let first = self.operand(depth)?;
        if !self.eat('|') {
            return Ok(first);
        }
        let pos = first.pos;
        let mut terms = vec![first, self.operand(depth + 1)?];
        while self.eat('|') {
            terms.push(self.operand(depth + 1)?);
        }
        Ok(Expr { pos, kind: ExprKind::Or(terms) })
    }

    fn operand(&mut self, depth: u32) -> Parsed<Expr> {
        let token = self.peek().clone();
        let pos = token.pos;
        let kind = match token.kind {
            Kind::Ellipsis => {
                self.next();
                ExprKind::Ellipsis
            }
            Kind::Int(number) | Kind::Hex(number) => {
                self.next();
                ExprKind::Int(number)
            }
            Kind::Str(_) => self.text(),
            Kind::Char('[') => {
                self.next();
                if self.eat(']') {
                    ExprKind::List(Vec::new())
                } else {
                    let list = self.expressions(depth + 1)?;
                    self.expect(']')?;
                    ExprKind::List(list)
                }
            }
            Kind::Char('{') => {
                self.next();
                let kind = self.braces(depth + 1)?;
                self.expect('}')?;
                kind
            }
            Kind::Word(word) if word == "inet_addr" || word == "inet6_addr" => {
                self.next();
                self.expect('(')?;
                let text = self.quoted_text("an address in quotes")?;
                self.expect(')')?;
                let wrong = || Fault::new(pos, format!("`{text}` is not an address"), "");
                if word == "inet_addr" {
                    ExprKind::InAddr(text.parse().map_err(|_| wrong())?)
                } else {
                    ExprKind::In6Addr(text.parse().map_err(|_| wrong())?)
                }
            }
            Kind::Word(word) => {
                self.next();
                if self.eat('=') {
                    ExprKind::Assign(word, Box::new(self.expression(depth + 1)?))
                } else {
                    ExprKind::Word(word)
                }
            }
            _ => return Err(self.expected("an argument")),
        };
        Ok(Expr { pos, kind })
    }

    /// Texts side by side are one.
    fn text(&mut self) -> ExprKind {
        let mut whole = Vec::new();
        while let Kind::Str(bytes) = &self.peek().kind {
            whole.extend_from_slice(bytes);
            self.next();
        }
        if self.peek().kind == Kind::Ellipsis {
            self.next();
        }
        ExprKind::Str(whole)
    }

    fn quoted_text(&mut self, what: &str) -> Parsed<String> {
        let token = self.next();
        match token.kind {
            Kind::Str(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            _ => Err(Self::expected_at(&token, what)),
        }
    }

    /// A structure; its first word says which.
    fn braces(&mut self, depth: u32) -> Parsed<ExprKind> {
        let first = match &self.peek().kind {
            Kind::Word(word) => word.clone(),
            Kind::Ellipsis if *self.peek_at(1) == Kind::Char(',') => {
                self.next();
                self.expect(',')?;
                return Ok(ExprKind::Iovec(self.integer("a length")?));
            }
            Kind::Char('(') => return Ok(ExprKind::Mpls(self.mpls_stack()?)),
            _ => String::new(),
        };
        match first.as_str() {
            "sa_family" => self.socket_address(),
            "msg_name" => self.message_header(depth),
            "fd" => self.poll_fd(depth),
            "onoff" => self.linger(),
            "cmsg_level" => self.control_message(depth),
            "scm_sec" => self.scm_timestamping(),
            "ee_errno" => self.extended_error(depth),
            "events" => self.epoll_event(depth),
            "flags" | "Flags" => Ok(ExprKind::Gre(self.gre_fields()?)),
            _ => Ok(ExprKind::Braces(self.expressions(depth)?)),
        }
    }

    fn integer(&mut self, what: &str) -> Parsed<i64> {
        let token = self.next();
        match token.kind {
            Kind::Int(number) | Kind::Hex(number) => Ok(number),
            _ => Err(Self::expected_at(&token, what)),
        }
    }

    /// `name = value`.
    fn field(&mut self, name: &str, depth: u32) -> Parsed<Expr> {
        self.expect_word(name)?;
        self.expect('=')?;
        self.expression(depth)
    }

    fn socket_address(&mut self) -> Parsed<ExprKind> {
        self.expect_word("sa_family")?;
        self.expect('=')?;
        let (pos, family) = self.any_word("AF_INET or AF_INET6")?;
        self.expect(',')?;
        self.expect_word("sin_port")?;
        self.expect('=')?;
        self.expect_word("htons")?;
        self.expect('(')?;
        let port = self.number("port", 0xffff)? as u16;
        self.expect(')')?;
        self.expect(',')?;
        self.expect_word("sin_addr")?;
        self.expect('=')?;
        self.expect_word("inet_addr")?;
        self.expect('(')?;
        let text = self.quoted_text("an address in quotes")?;
        self.expect(')')?;
        let address = match family.as_str() {
            "AF_INET" => text.parse().map(core::net::IpAddr::V4).ok(),
            "AF_INET6" => text.parse().map(core::net::IpAddr::V6).ok(),
            _ => {
                return Err(Fault::unknown(pos, "family", &family, &["AF_INET", "AF_INET6"]));
            }
        };
        match address {
            Some(address) => Ok(ExprKind::SockAddr(SocketAddr::new(address, port))),
            None => Err(Fault::new(pos, format!("`{text}` is not an address of {family}"), "")),
        }
    }

    fn message_header(&mut self, depth: u32) -> Parsed<ExprKind> {
        self.expect_word("msg_name")?;
        self.expect('(')?;
        self.ellipsis()?;
        self.expect(')')?;
        self.expect('=')?;
        self.ellipsis()?;
        self.expect(',')?;
        self.expect_word("msg_iov")?;
        self.expect('(')?;
        let iov_len = self.integer("the number of pieces")?;
        self.expect(')')?;
        self.expect('=')?;
        let iov = self.list(depth)?;
        self.expect(',')?;
        let flags = self.field("msg_flags", depth)?;
        let mut control = Vec::new();
        if self.eat(',') {
            self.expect_word("msg_control")?;
            self.expect('=')?;
            control = self.list(depth)?;
        }
        Ok(ExprKind::MsgHdr(Box::new(MsgHdr { iov_len, iov, flags, control })))
    }

    fn ellipsis(&mut self) -> Parsed<()> {
        match self.next() {
            crate::lex::Token { kind: Kind::Ellipsis, .. } => Ok(()),
            token => Err(Self::expected_at(&token, "`...`")),
        }
    }

    fn list(&mut self, depth: u32) -> Parsed<Vec<Expr>> {
        self.expect('[')?;
        if self.eat(']') {
            return Ok(Vec::new());
        }
        let list = self.expressions(depth + 1)?;
        self.expect(']')?;
        Ok(list)
    }

    fn poll_fd(&mut self, depth: u32) -> Parsed<ExprKind> {
        let fd = self.field("fd", depth)?;
        self.expect(',')?;
        let events = self.field("events", depth)?;
        let revents = if self.eat(',') { Some(self.field("revents", depth)?) } else { None };
        Ok(ExprKind::PollFd(Box::new(PollFd { fd, events, revents })))
    }

    fn linger(&mut self) -> Parsed<ExprKind> {
        self.expect_word("onoff")?;
        self.expect('=')?;
        let on = self.integer("0 or 1")?;
        self.expect(',')?;
        self.expect_word("linger")?;
        self.expect('=')?;
        Ok(ExprKind::Linger(on as i32, self.integer("seconds")? as i32))
    }

    fn control_message(&mut self, depth: u32) -> Parsed<ExprKind> {
        let level = self.field("cmsg_level", depth)?;
        self.expect(',')?;
        let kind = self.field("cmsg_type", depth)?;
        self.expect(',')?;
        let data = self.field("cmsg_data", depth)?;
        Ok(ExprKind::Cmsg(Box::new(Cmsg { level, kind, data })))
    }

    fn scm_timestamping(&mut self) -> Parsed<ExprKind> {
        self.expect_word("scm_sec")?;
        self.expect('=')?;
        let sec = self.integer("seconds")?;
        self.expect(',')?;
        self.expect_word("scm_nsec")?;
        self.expect('=')?;
        Ok(ExprKind::ScmTimestamping(sec, self.integer("nanoseconds")?))
    }

    fn extended_error(&mut self, depth: u32) -> Parsed<ExprKind> {
        let errno = self.field("ee_errno", depth)?;
        let mut rest = Vec::new();
        for name in ["ee_origin", "ee_type", "ee_code", "ee_info", "ee_data"] {
            self.expect(',')?;
            rest.push(self.field(name, depth)?);
        }
        let rest: [Expr; 5] = rest.try_into().expect("five fields were read");
        let [origin, kind, code, info, data] = rest;
        let fields = [errno, origin, kind, code, info, data];
        Ok(ExprKind::ExtendedError(Box::new(ExtendedError { fields })))
    }

    fn epoll_event(&mut self, depth: u32) -> Parsed<ExprKind> {
        let events = self.field("events", depth)?;
        self.expect(',')?;
        let (pos, name) = self.any_word("`fd`, `ptr`, `u32` or `u64`")?;
        let member = match name.as_str() {
            "fd" => EpollMember::Fd,
            "ptr" => EpollMember::Ptr,
            "u32" => EpollMember::U32,
            "u64" => EpollMember::U64,
            _ => {
                let known = ["fd", "ptr", "u32", "u64"];
                return Err(Fault::unknown(pos, "member of epoll_data", &name, &known));
            }
        };
        self.expect('=')?;
        let data = self.expression(depth)?;
        Ok(ExprKind::EpollEvent(Box::new(EpollEvent { events, member, data })))
    }
}

/// Brackets are nested no deeper.
const MAX_DEPTH: u32 = 32;
