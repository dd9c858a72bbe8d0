//! YAML, as far as configurations of model servers use it, with the line of every value.
//!
//! In:  a text. Out: mappings, lists and scalars. Read are block and flow collections, plain, quoted and
//! block scalars, comments and
//!      the first document; anchors, tags and complex keys are not, and refused with their line.
//! Invariant: nothing recurses deeper than `DEEPEST`.

mod flow;

use serde_json::{Map, Value};

use self::flow::{Balance, Flow, Quotes, quoted};

/// Collections in each other.
const DEEPEST: usize = 32;

/// A value, and the line that it begins on, from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

/// The kinds of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Null, a boolean, a number or a text.
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The member of a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.members().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The member at the end of a path of keys, if it is there and is not null.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Node> {
        let found = path.iter().try_fold(self, |node, key| node.get(key))?;
        (found.kind != Kind::Scalar(Value::Null)).then_some(found)
    }

    pub(super) fn members(&self) -> &[(String, Node)] {
        match &self.kind {
            Kind::Map(members) => members,
            _ => &[],
        }
    }

    pub(super) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// A scalar as text; none of a null or a collection.
    pub(super) fn text(&self) -> Option<String> {
        match &self.kind {
            Kind::Scalar(Value::String(text)) => Some(text.clone()),
            Kind::Scalar(Value::Null) | Kind::List(_) | Kind::Map(_) => None,
            Kind::Scalar(other) => Some(other.to_string()),
        }
    }

    /// The number at the end of a path, which may stand in quotes; a whole one, rounded up.
    pub(super) fn number(&self, path: &[&str]) -> Option<u64> {
        let number: f64 = self.text_at(path)?.trim().parse().ok()?;
        (0.0..1e15).contains(&number).then_some(number.ceil() as u64)
    }

    /// The text at the end of a path.
    pub(super) fn text_at(&self, path: &[&str]) -> Option<String> {
        self.at(path)?.text()
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::List(items) => items.iter().map(Node::json).collect(),
            Kind::Map(members) => Value::Object(
                members.iter().map(|(key, node)| (key.clone(), node.json())).collect::<Map<_, _>>(),
            ),
        }
    }
}

/// A line without what it is indented by.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Reads the first document of a text.
///
/// # Errors
/// A line, and what is wrong with it.
pub(super) fn read(text: &str) -> Result<Node, String> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if matches!(line.trim_end(), "---" | "...") {
            if lines.iter().any(|line: &Line<'_>| !is_blank(line.text)) {
                break;
            }
            lines.clear();
            continue;
        }
        // A directive stands before the document.
        if line.starts_with('%') && lines.iter().all(|line: &Line<'_>| is_blank(line.text)) {
            continue;
        }
        let text = line.trim_start_matches(' ');
        if text.starts_with('\t') {
            return Err(format!("{}: indented by a tab", at + 1));
        }
        lines.push(Line { number: at + 1, indent: line.len() - text.len(), text: text.trim_end() });
    }
    let mut reader = Reader { lines, at: 0 };
    let node = reader.block(0, 0)?;
    match reader.peek() {
        Some(line) => Err(format!("{}: `{}` is not indented as what is above it", line.number, line.text)),
        None => Ok(node),
    }
}

fn is_blank(text: &str) -> bool {
    text.is_empty() || text.starts_with('#')
}

struct Reader<'a> {
    lines: Vec<Line<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next line that says something.
    fn peek(&mut self) -> Option<&Line<'a>> {
        while self.lines.get(self.at).is_some_and(|line| is_blank(line.text)) {
            self.at += 1;
        }
        self.lines.get(self.at)
    }

    /// The collection or scalar whose lines are indented by at least `least`.
    fn block(&mut self, least: usize, depth: usize) -> Result<Node, String> {
        let before = self.at;
        let (number, indent, text) = match self.peek() {
            Some(line) if line.indent >= least => (line.number, line.indent, line.text),
            _ => return Ok(Node { line: before, kind: Kind::Scalar(Value::Null) }),
        };
        if depth > DEEPEST {
            return Err(format!("{number}: more than {DEEPEST} collections in each other"));
        }
        let mut items = Vec::new();
        let mut members: Vec<(String, Node)> = Vec::new();
        while let Some((line, text)) =
            self.peek().filter(|it| it.indent == indent).map(|it| (it.number, it.text))
        {
            if let Some(rest) = item(text).filter(|_| members.is_empty()) {
                // What follows the dash is a block of its own, indented by where it begins.
                let inner = indent + text.len() - rest.len();
                if rest.is_empty() || is_blank(rest) {
                    self.at += 1;
                    items.push(self.block(indent + 1, depth + 1)?);
                } else if key(rest).is_some() || item(rest).is_some() {
                    if let Some(current) = self.lines.get_mut(self.at) {
                        (current.indent, current.text) = (inner, rest);
                    }
                    items.push(self.block(inner, depth + 1)?);
                } else {
                    self.at += 1;
                    items.push(self.value(rest, line, indent, depth)?);
                }
            } else if let Some((name, rest)) = key(text).filter(|_| items.is_empty()) {
                if members.iter().any(|(other, _)| *other == name) {
                    return Err(format!("{line}: `{name}` is there twice"));
                }
                self.at += 1;
                let node = if is_blank(rest) {
                    // A list may stand where its key does.
                    let is_list =
                        self.peek().is_some_and(|it| it.indent == indent && item(it.text).is_some());
                    let mut node = self.block(indent + usize::from(!is_list), depth + 1)?;
                    node.line = line;
                    node
                } else {
                    self.value(rest, line, indent, depth)?
                };
                members.push((name, node));
            } else if items.is_empty() && members.is_empty() {
                self.at += 1;
                return self.value(text, line, least.saturating_sub(1), depth);
            } else if !items.is_empty() && key(text).is_some() {
                // The list stood where its key does.
                break;
            } else {
                return Err(format!("{line}: `{text}` is neither a key nor an item as those above it"));
            }
        }
        let kind = if items.is_empty() { Kind::Map(members) } else { Kind::List(items) };
        if kind == Kind::Map(Vec::new()) {
            return Err(format!("{number}: `{text}` cannot be read"));
        }
        Ok(Node { line: number, kind })
    }

    /// A value that begins on the line of its key or dash, whose own lines are indented by more than
    /// `indent`.
    fn value(&mut self, text: &str, line: usize, indent: usize, depth: usize) -> Result<Node, String> {
        if text.starts_with(['&', '*', '!']) {
            return Err(format!(
                "{line}: `{text}`: anchors and tags are not read\n  hint: write the value itself"
            ));
        }
        if text.starts_with(['|', '>']) {
            return Ok(Node { line, kind: Kind::Scalar(Value::String(self.literal(text, indent))) });
        }
        let mut whole = without_comment(text, Quotes::default()).to_owned();
        let is_flow = whole.starts_with(['[', '{']);
        let mut balance = Balance::default();
        balance.take(&whole);
        let is_plain = !whole.starts_with(['[', '{', '"', '\'']);
        // Further lines of a flow collection, of a quoted text, of a plain one.
        loop {
            let more = match self.lines.get(self.at) {
                Some(next) if !is_plain && balance.is_open() => next.text,
                Some(next) if is_plain && !is_blank(next.text) && next.indent > indent => next.text,
                _ => break,
            };
            let more = format!(" {}", without_comment(more, balance.quotes.clone()));
            self.at += 1;
            balance.take(&more);
            whole.push_str(&more);
        }
        let mut flow = Flow { rest: whole.trim(), line, depth };
        let node = if is_flow || whole.starts_with(['"', '\'']) { flow.value("")? } else { flow.plain("") };
        if !flow.rest.trim().is_empty() {
            return Err(format!("{line}: `{}` is left over", flow.rest.trim()));
        }
        Ok(node)
    }

    /// The lines of a block scalar, `|` or `>`.
    fn literal(&mut self, style: &str, indent: usize) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut own = None;
        while let Some(line) = self.lines.get(self.at) {
            if !line.text.is_empty() && line.indent <= indent {
                break;
            }
            if !line.text.is_empty() {
                own = own.or(Some(line.indent));
            }
            let deeper = line.indent.saturating_sub(own.unwrap_or(line.indent));
            lines.push(format!("{}{}", " ".repeat(deeper), line.text));
            self.at += 1;
        }
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        let text = lines.join(if style.starts_with('>') { " " } else { "\n" });
        if style.contains('-') { text } else { text + "\n" }
    }
}

/// The text after the dash of an item.
fn item(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('-')?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start())
}

/// A key and what follows its colon.
fn key(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (name, rest) = quoted(text, quote)?;
        let rest = rest.trim_start().strip_prefix(':')?;
        return Some((name, rest.trim_start()));
    }
    if text.starts_with(['[', '{', '#', '|', '>', '&', '*', '!']) {
        return None;
    }
    let end = text.match_indices(':').find(|(at, _)| {
        let after = text.get(at + 1..).unwrap_or_default();
        after.is_empty() || after.starts_with(' ')
    })?;
    let (name, rest) = text.split_at_checked(end.0)?;
    // A comment has colons too.
    if name.contains(" #") {
        return None;
    }
    Some((name.trim_end().to_owned(), rest.strip_prefix(':')?.trim_start()))
}

/// A text up to the comment behind it; `quotes`, those that are open before it.
fn without_comment(text: &str, mut quotes: Quotes) -> &str {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if !quotes.take(c) && c == '#' && before == ' ' {
            return text.get(..at).unwrap_or(text).trim_end();
        }
        before = c;
    }
    text.trim_end()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_configurations_have_is_read() {
        let text = r#"
# a comment
model_name: "a: b"   # of the model
resources: {cpu: "1", use_gpu: false, list: [1, 2.5, 'x,y']}
empty:
secrets: {}
requirements:
- numpy==1.2 # pinned
- torch
nested:
  - name: one
    path: s3://bucket/a#b
  -
    name: two
  - - 1
    - 2
long: |
  first
    second

folded: >-
  a
  b
flow: [
  # k=1
  [{ "role": "system" }],
  ]
plain: some words
  go on
url: http://127.0.0.1:8000/x
metadata: {note: it's fine, more: "say \"hi\" # x"}  # quotes
said: "say \"hi\" # x"
two: "first
  second # third"
odd: {a: don''t, b: 1}
"#;
        let expected = json!({
            "model_name": "a: b",
            "resources": {"cpu": "1", "use_gpu": false, "list": [1, 2.5, "x,y"]},
            "empty": null,
            "secrets": {},
            "requirements": ["numpy==1.2", "torch"],
            "nested": [{"name": "one", "path": "s3://bucket/a#b"}, {"name": "two"}, [1, 2]],
            "long": "first\n  second\n",
            "folded": "a b",
            "flow": [[{"role": "system"}]],
            "plain": "some words go on",
            "url": "http://127.0.0.1:8000/x",
            "metadata": {"note": "it's fine", "more": "say \"hi\" # x"},
            "said": "say \"hi\" # x",
            "two": "first second # third",
            "odd": {"a": "don''t", "b": 1},
        });
        let read = read(text).unwrap();
        assert_eq!(read.json(), expected);
        assert_eq!((read.get("model_name").unwrap().line, read.get("nested").unwrap().line), (3, 10));
        assert_eq!(read.at(&["resources", "cpu"]).unwrap().text().unwrap(), "1");
        assert_eq!((read.at(&["empty"]), read.number(&["resources", "cpu"])), (None, Some(1)));
    }

    #[test]
    fn lists_of_mappings_are_read() {
        let text =
            "---\n- kind: deployment\n  name: iris\n\n- kind: api\n  compute:\n    cpu: 0.5\n---\nother: 1\n";
        let expected =
            json!([{"kind": "deployment", "name": "iris"}, {"kind": "api", "compute": {"cpu": 0.5}}]);
        assert_eq!(read(text).unwrap().json(), expected);
        assert_eq!(read("# nothing\n").unwrap().json(), Value::Null);
    }

    #[test]
    fn escapes_directives_and_quotes_are_read() {
        let text = "%YAML 1.2\n---\na: \"caf\\u00e9 \\x41\\U0001f600\\r\"\nb: 'it''s # x' # y\nc: \"two\n  lines\"\nd: [\n  'x]',\n  \"]\"\n]\ne: 30.5\n";
        let read = read(text).unwrap();
        let expected = json!({"a": "caf\u{e9} A\u{1f600}\r", "b": "it's # x", "c": "two lines", "d": ["x]", "]"], "e": 30.5});
        assert_eq!((read.json(), read.number(&["e"])), (expected, Some(31)));
    }

    #[test]
    fn what_is_not_read_is_refused_with_its_line() {
        let deep = "[".repeat(DEEPEST + 2);
        for (text, expected) in [
            ("a: &x 1", "1: `&x 1`"),
            ("a: [1, 2", "1: `]` is missing"),
            ("a: 1\n\tb: 2", "2: indented by a tab"),
            ("a: 1\na: 2", "2: `a` is there twice"),
            ("a: 1\n- b", "2: `- b` is neither"),
            ("  a: 1\nb: 2", "2: `b: 2` is not indented"),
            (&format!("a: {deep}"), "1: more than 32"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
