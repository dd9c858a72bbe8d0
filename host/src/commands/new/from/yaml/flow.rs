//! Flow collections of YAML, and scalars: what stands on one line, or was joined to one.

use std::str::FromStr as _;

use serde_json::{Number, Value};

use super::{DEEPEST, Kind, Node};

/// Whether every bracket of a flow collection is closed.
pub(super) fn is_closed(text: &str) -> bool {
    let (mut depth, mut quote) = (0_i32, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, _) => {}
        }
    }
    depth <= 0
}

/// A quoted text at the beginning, and what follows it; none if it is not closed.
pub(super) fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let body = text.strip_prefix(quote)?;
    let mut made = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if quote == '\'' && body.get(at + 1..).is_some_and(|rest| rest.starts_with('\'')) => {
                chars.next();
                made.push('\'');
            }
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => made.push('\n'),
                't' => made.push('\t'),
                other => made.push(other),
            },
            c if c == quote => return Some((made, body.get(at + c.len_utf8()..)?)),
            c => made.push(c),
        }
    }
    None
}

/// A flow collection that is being read.
pub(super) struct Flow<'a> {
    pub(super) rest: &'a str,
    pub(super) line: usize,
    pub(super) depth: usize,
}

impl Flow<'_> {
    /// A value that ends at one of `ends`.
    pub(super) fn value(&mut self, ends: &str) -> Result<Node, String> {
        self.rest = self.rest.trim_start();
        if self.depth > DEEPEST {
            return Err(format!("{}: more than {DEEPEST} collections in each other", self.line));
        }
        match self.rest.chars().next() {
            Some('[') => self.collection(']'),
            Some('{') => self.collection('}'),
            Some(quote @ ('"' | '\'')) => {
                let (text, rest) = quoted(self.rest, quote)
                    .ok_or_else(|| format!("{}: a quote is not closed", self.line))?;
                self.rest = rest;
                Ok(Node { line: self.line, kind: Kind::Scalar(Value::String(text)) })
            }
            _ => Ok(self.plain(ends)),
        }
    }

    fn collection(&mut self, close: char) -> Result<Node, String> {
        let unclosed = || format!("{}: `{close}` is missing", self.line);
        let (line, unclosed) = (self.line, unclosed());
        self.depth += 1;
        self.rest = self.rest.get(1..).unwrap_or_default();
        let (mut items, mut members) = (Vec::new(), Vec::new());
        loop {
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                break;
            }
            if self.rest.is_empty() {
                return Err(unclosed);
            }
            let first = self.value(if close == '}' { ":,}" } else { ",]" })?;
            if close == ']' {
                items.push(first);
            } else {
                self.rest = self.rest.trim_start();
                let value = match self.rest.strip_prefix(':') {
                    Some(rest) => {
                        self.rest = rest;
                        self.value(",}")?
                    }
                    None => Node { line, kind: Kind::Scalar(Value::Null) },
                };
                members.push((first.text().unwrap_or_default(), value));
            }
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None if self.rest.starts_with(close) => {}
                None => return Err(unclosed),
            }
        }
        self.depth -= 1;
        Ok(Node { line, kind: if close == ']' { Kind::List(items) } else { Kind::Map(members) } })
    }

    /// A plain scalar up to one of `ends`.
    pub(super) fn plain(&mut self, ends: &str) -> Node {
        let end = self.rest.find(|c| ends.contains(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Node { line: self.line, kind: Kind::Scalar(scalar(text.trim())) }
    }
}

/// A plain scalar by what it looks like.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let looks = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    let plain = text.strip_prefix('+').unwrap_or(text);
    match Number::from_str(plain) {
        Ok(number) if looks => Value::Number(number),
        _ => Value::String(text.to_owned()),
    }
}
