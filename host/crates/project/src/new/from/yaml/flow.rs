//! Flow collections of YAML, and scalars: what stands on one line, or was joined to one.

use std::str::FromStr as _;

use serde_json::{Number, Value};

use super::{DEEPEST, Kind, Node};

/// Follows a text, character by character, to tell what is quoted in it.
#[derive(Clone, Default)]
pub(super) struct Quotes {
    open: Option<char>,
    is_escaped: bool,
    /// The last character that is no space.
    before: Option<char>,
    /// The quote that the last character has closed.
    closed: Option<char>,
}

impl Quotes {
    /// Whether the next character is in quotes, or one of them. A quote opens at the beginning of a scalar
    /// alone: that of `it's` is a letter.
    pub(super) fn take(&mut self, c: char) -> bool {
        let was_open = self.open.is_some();
        let closed = self.closed.take();
        match self.open {
            Some(_) if std::mem::take(&mut self.is_escaped) => {}
            Some('"') if c == '\\' => self.is_escaped = true,
            Some(open) if open == c => (self.open, self.closed) = (None, Some(c)),
            Some(_) => {}
            None if matches!(c, '"' | '\'')
                && (closed == Some(c) || matches!(self.before, None | Some('[' | '{' | ',' | ':' | '-'))) =>
            {
                self.open = Some(c);
            }
            None => {}
        }
        if c != ' ' {
            self.before = Some(c);
        }
        was_open || self.open.is_some()
    }
}

/// The brackets and quotes that are open in a text that is read piece by piece.
#[derive(Default)]
pub(super) struct Balance {
    depth: i32,
    pub(super) quotes: Quotes,
}

impl Balance {
    pub(super) fn take(&mut self, text: &str) {
        for c in text.chars() {
            match (self.quotes.take(c), c) {
                (false, '[' | '{') => self.depth += 1,
                (false, ']' | '}') => self.depth -= 1,
                _ => {}
            }
        }
    }

    /// Whether a bracket or a quote is not closed.
    pub(super) fn is_open(&self) -> bool {
        self.depth > 0 || self.quotes.open.is_some()
    }
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
                'r' => made.push('\r'),
                '0' => made.push('\0'),
                code @ ('x' | 'u' | 'U') => {
                    let length = [2, 4, 8].get("xuU".find(code)?)?;
                    let digits: String = chars.by_ref().take(*length).map(|(_, digit)| digit).collect();
                    made.push(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)?);
                }
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
