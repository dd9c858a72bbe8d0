//! Two JSON documents side by side.
//!
//! The order of an object's keys makes no difference; a key that comes twice is compared as often. Lists are
//! compared element by element. Numbers are the same if they are close enough ([`Bounds::tolerance`]); whole
//! numbers, of any length, if they are equal.
//!
//! Both documents are read at the same pace. Only where keys come in another order the rest of that object is
//! looked up.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Difference, MOST, VALUE};
use crate::endpoint::config::Bounds;
use crate::json::cursor::{Cursor, Kind, Raw};
use crate::json::path::{Path, Step};
use crate::pipeline::debug;

/// Deepest nesting that is looked into; below it text is compared. No stack runs out.
const DEEPEST: usize = 128;

/// Compares two documents.
pub(super) fn compare<'a>(
    mut old: Cursor<'a>,
    mut new: Cursor<'a>,
    bounds: &Bounds,
    found: &mut Vec<Difference>,
) {
    Walk { bounds, path: Path::default(), found }.value(&mut old, &mut new);
}

struct Walk<'a, 'b> {
    bounds: &'b Bounds,
    path: Path<'a>,
    found: &'b mut Vec<Difference>,
}

impl<'a> Walk<'a, '_> {
    /// Goes past one value of both, and into them as far as they are alike.
    fn value(&mut self, old: &mut Cursor<'a>, new: &mut Cursor<'a>) {
        if self.is_over() || self.path.is_named_by(&self.bounds.ignore) {
            old.skip();
            new.skip();
            return;
        }
        let (kind, other) = (old.kind(), new.kind());
        match kind {
            Kind::Object if other == kind && self.path.depth() < DEEPEST => self.objects(old, new),
            Kind::Array if other == kind && self.path.depth() < DEEPEST => self.arrays(old, new),
            _ => {
                let (old, new) = (old.skip(), new.skip());
                let is_same = kind == other
                    && match kind {
                        Kind::Number => numbers(old.text(), new.text(), self.bounds),
                        Kind::String => old.string() == new.string(),
                        _ => old == new,
                    };
                if !is_same {
                    self.found.push(Difference::became(&self.path, shown(old), shown(new)));
                }
            }
        }
    }

    fn arrays(&mut self, old: &mut Cursor<'a>, new: &mut Cursor<'a>) {
        old.enter();
        new.enter();
        let before = self.found.len();
        let mut length = 0;
        let (longer, longer_by) = loop {
            match (old.element(), new.element()) {
                (true, true) => {
                    self.step(Step::Index(length), old, new);
                    length += 1;
                }
                (false, false) => return,
                (true, false) => break (true, rest(old)),
                (false, true) => break (false, rest(new)),
            }
        };
        let (old, new) = if longer { (length + longer_by, length) } else { (length, length + longer_by) };
        // First of all: it explains the others.
        let elements = |count: usize| format!("{count} {}", if count == 1 { "element" } else { "elements" });
        self.found.insert(before, Difference::became(&self.path, elements(old), elements(new)));
    }

    fn objects(&mut self, old: &mut Cursor<'a>, new: &mut Cursor<'a>) {
        old.enter();
        new.enter();
        loop {
            match (old.key(), new.key()) {
                (Some(one), Some(other)) if one.string() == other.string() => {
                    self.step(Step::Key(one.string()), old, new);
                }
                (None, None) => return,
                (one, other) => return self.members(members(one, old), members(other, new)),
            }
        }
    }

    /// Members in any order: each with the one of the same key.
    fn members(&mut self, mut old: Vec<Member<'a>>, mut new: Vec<Member<'a>>) {
        // Stable: of equal keys the first stays first.
        old.sort_by(|one, other| one.0.cmp(&other.0));
        new.sort_by(|one, other| one.0.cmp(&other.0));
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, _)), Some((other, _))) => one.cmp(other),
            };
            let before = old.next_if(|_| order.is_le());
            let after = new.next_if(|_| order.is_ge());
            match (before, after) {
                (Some((key, before)), Some((_, after))) => {
                    self.step(Step::Key(key), &mut Cursor::of(before), &mut Cursor::of(after));
                }
                (Some((key, before)), None) => self.lone(key, |shown| format!("{shown} is gone"), before),
                (None, Some((key, after))) => self.lone(key, |shown| format!("{shown} is new"), after),
                (None, None) => return,
            }
        }
    }

    fn lone(&mut self, key: Cow<'a, str>, change: fn(String) -> String, value: Raw<'a>) {
        self.path.push(Step::Key(key));
        if !self.is_over() && !self.path.is_named_by(&self.bounds.ignore) {
            self.found.push(Difference::at(&self.path, change(shown(value))));
        }
        self.path.pop();
    }

    fn step(&mut self, step: Step<'a>, old: &mut Cursor<'a>, new: &mut Cursor<'a>) {
        self.path.push(step);
        self.value(old, new);
        self.path.pop();
    }

    fn is_over(&self) -> bool {
        self.found.len() >= MOST
    }
}

/// A key and its value.
type Member<'a> = (Cow<'a, str>, Raw<'a>);

/// The members from `key` on, whose value is next.
fn members<'a>(key: Option<Raw<'a>>, cursor: &mut Cursor<'a>) -> Vec<Member<'a>> {
    let mut members = Vec::new();
    let mut next = key;
    while let Some(key) = next {
        members.push((key.string(), cursor.skip()));
        next = cursor.key();
    }
    members
}

/// How many elements follow, the one that is next included.
fn rest(cursor: &mut Cursor<'_>) -> usize {
    let mut count = 1;
    cursor.skip();
    while cursor.element() {
        cursor.skip();
        count += 1;
    }
    count
}

fn numbers(old: &str, new: &str, bounds: &Bounds) -> bool {
    if old == new {
        return true;
    }
    let is_whole = |text: &str| text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    if is_whole(old) && is_whole(new) {
        // JSON has no leading zeroes, so different digits are different numbers. But for this one.
        return [old, new].iter().all(|text| matches!(*text, "0" | "-0"));
    }
    match (old.parse(), new.parse()) {
        (Ok(old), Ok(new)) => bounds.are_close(old, new),
        _ => false,
    }
}

fn shown(value: Raw<'_>) -> String {
    debug::cut(value.text(), VALUE)
}
