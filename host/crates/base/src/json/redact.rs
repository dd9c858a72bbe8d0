//! A JSON document without what a pattern names.
//!
//! Place in the flow: before anything of a request is kept that the operator does not want kept.
//! Invariant: what comes out holds nothing of a named value; a key is known however it is written (`"\u0061"`
//! is `a`).

use super::cursor::{Cursor, Kind};
use super::path::{Path, Pattern, Step};

/// `body` with `null` in the place of every value that `patterns` name; `None` if it is not JSON,
/// [special](super::special) numbers aside, so that it is unknown where in it they are.
pub fn redacted(body: &[u8], patterns: &[Pattern]) -> Option<Vec<u8>> {
    let mut cursor = Cursor::lenient(body)?;
    let Some(deepest) = Pattern::deepest(patterns) else { return Some(body.to_vec()) };
    let mut redactor = Redactor { patterns, deepest, path: Path::default(), out: String::new() };
    redactor.value(&mut cursor);
    Some(redactor.out.into_bytes())
}

struct Redactor<'a> {
    patterns: &'a [Pattern],
    /// Nothing deeper is named, so nothing recurses deeper.
    deepest: usize,
    path: Path<'a>,
    out: String,
}

impl<'a> Redactor<'a> {
    fn value(&mut self, cursor: &mut Cursor<'a>) {
        if self.path.is_named_by(self.patterns) {
            cursor.skip();
            self.out.push_str("null");
            return;
        }
        let kind = cursor.kind();
        let is_deep = self.path.depth() >= self.deepest;
        match kind {
            Kind::Object if !is_deep => {
                cursor.enter();
                let mut mark = '{';
                while let Some(key) = cursor.key() {
                    self.out.push(mark);
                    self.out.push_str(key.text());
                    self.out.push(':');
                    mark = ',';
                    self.step(cursor, Step::Key(key.string()));
                }
                self.out.push_str(if mark == '{' { "{}" } else { "}" });
            }
            Kind::Array if !is_deep => {
                cursor.enter();
                let mut index = 0;
                self.out.push('[');
                while cursor.element() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.step(cursor, Step::Index(index));
                    index += 1;
                }
                self.out.push(']');
            }
            _ => self.out.push_str(cursor.skip().text()),
        }
    }

    fn step(&mut self, cursor: &mut Cursor<'a>, step: Step<'a>) {
        self.path.push(step);
        self.value(cursor);
        self.path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_values_are_gone_and_nothing_else() {
        for (body, patterns, expected) in [
            (r#"{"a":1,"b":"x"}"#, &["/b"][..], Some(r#"{"a":1,"b":null}"#)),
            (r#"{"a":1}"#, &["/b"], Some(r#"{"a":1}"#)),
            (r#"{"\u0062":{"deep":["x"]}}"#, &["/b"], Some(r#"{"\u0062":null}"#)),
            (r#"{"b":1,"b":2}"#, &["/b"], Some(r#"{"b":null,"b":null}"#)),
            (r#"[{"k":1,"s":2},{"s":[3]}]"#, &["/*/s"], Some(r#"[{"k":1,"s":null},{"s":null}]"#)),
            (r#"{"a":{"b":{"c":1}},"d":2}"#, &["/a/b", "/d"], Some(r#"{"a":{"b":null},"d":null}"#)),
            (r#"[1, 2,  3]"#, &["/1"], Some("[1,null,3]")),
            (r#"{"a":{ "b" : 1 }}"#, &["/x"], Some(r#"{"a":{ "b" : 1 }}"#)),
            ("{}", &["/a"], Some("{}")),
            ("[]", &["/a/b"], Some("[]")),
            (r#"{"a":1}"#, &["x-header"], Some(r#"{"a":1}"#)),
            (r#"{"a":[NaN, -Infinity],"s":Infinity}"#, &["/s"], Some(r#"{"a":[NaN, -Infinity],"s":null}"#)),
            ("\u{feff}{\"a\":1}", &["/a"], Some(r#"{"a":null}"#)),
            ("secret", &["/a"], None),
        ] {
            let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect();
            let out = redacted(body.as_bytes(), &patterns);
            assert_eq!(out.as_deref().map(String::from_utf8_lossy).as_deref(), expected, "{body}");
        }
    }
}
