//! Values as they are written: the readers that the configuration and the orders of the operator share.
//!
//! Place in the flow: `config` reads flags, variables and the file with them, `rollout` and `server` the
//! parameters of an order.
//! In:   a [`RawValue`]. Flags, variables and parameters come as text, so every reader takes text, and what
//!       TOML has a type of its own for besides.
//! Out:  the meaning, or a [`Diagnostic`] that says what to write instead.
//! Invariant: readers look at the value only; whether a file exists is for others to see.

mod ratio;
mod read;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use toml::Value;

pub use self::ratio::Ratio;
pub use self::read::{
    Reader, choice, count, duration, number, or, ratio, share, share_above_zero, size, switch, text,
};

/// Reads one variable of the environment; `None` if it is unset.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A value and how it came here.
pub struct RawValue<'a> {
    /// As it was written.
    pub value: Cow<'a, Value>,
    /// The folder that relative paths start from.
    pub base: &'a Path,
    /// Where it stands.
    pub origin: Origin,
    /// The environment of the host.
    pub env: Env<'a>,
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A flag, the parameter of an order, or a row's default.
    Flag,
    /// A variable of the environment.
    Variable,
    /// The config file.
    File,
}

/// The meaning of a value, or what is wrong with it.
pub type ParseResult<T> = Result<T, Diagnostic>;

impl RawValue<'_> {
    /// Text without any surroundings: a parameter, a default.
    pub fn of(text: &str) -> RawValue<'static> {
        let value = Cow::Owned(Value::String(text.to_owned()));
        RawValue { value, base: Path::new(""), origin: Origin::Flag, env: &|_| None }
    }

    /// That the value has another type than `what`.
    pub fn mistyped(&self, what: &str, hint: impl Into<Hint>) -> Diagnostic {
        Diagnostic::new(format!("expected {what}, found {}", with_article(self.value.type_str())), hint)
    }

    /// The items of a list; a single value is a list of one.
    pub fn items(&self) -> &[Value] {
        self.value.as_array().map_or(std::slice::from_ref(&self.value), Vec::as_slice)
    }
}

/// A scalar as the user wrote it, in backticks.
impl fmt::Display for RawValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.value {
            Value::String(text) => write!(f, "`{text}`"),
            other => write!(f, "`{other}`"),
        }
    }
}

/// The defect of a value, without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The defect.
    pub message: String,
    /// The hint.
    pub hint: Hint,
}

/// The hint for a wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Write this: `a whole number from 1 to 64`.
    Write(String),
    /// A sentence of its own.
    Other(String),
}

impl Diagnostic {
    /// A diagnostic of this message and hint.
    pub fn new(message: impl Into<String>, hint: impl Into<Hint>) -> Diagnostic {
        Diagnostic { message: message.into(), hint: hint.into() }
    }

    /// The same about the parameter of an order, which has no place but its name.
    pub fn of_parameter(&self, name: &str, value: &str) -> String {
        match &self.hint {
            Hint::Write(expected) => format!("`{name}={value}`: expected {expected}"),
            Hint::Other(hint) => format!("`{name}={value}`: {}; {hint}", self.message),
        }
    }
}

impl<T: Into<String>> From<T> for Hint {
    fn from(text: T) -> Hint {
        Hint::Other(text.into())
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::Write(expected) => write!(f, "write {expected}"),
            Hint::Other(hint) => f.write_str(hint),
        }
    }
}

/// `` `a`, `b` or `c` ``, with `or` as the conjunction.
pub fn list<'a>(words: impl IntoIterator<Item = &'a str>, conjunction: &str) -> String {
    let mut words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} {conjunction} {last}", words.join(", ")),
        None => String::new(),
    }
}

/// `an integer`, `a string`.
pub fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {noun}")
}
