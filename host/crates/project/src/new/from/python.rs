//! Python sources, read without being run: statements, imports and definitions.
//!
//! In:  a file's text. Out: its [`Statement`]s, with texts blanked and comments gone, and what they import
//! and define.
//! Invariant: a source that is no Python gives statements that mean nothing, and no error.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::iter::Peekable;
use std::str::CharIndices;

/// A statement, on one line or several.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// Its first and last line, from 0.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Where in these lines it begins and ends, in bytes.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Of its line; one more behind the colon of a block on one line.
    pub(super) indent: usize,
    /// The statement around it: the last one above it that is indented less.
    parent: Option<usize>,
    /// On one line, without comments; each text is `""`.
    pub(super) code: String,
}

/// A name that a statement imports.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// `torch.nn`, with the dots of a relative import.
    pub(super) module: String,
    /// The member that is imported of it, by `from`.
    pub(super) member: Option<String>,
    /// The name that it has from then on.
    pub(super) bound: String,
    pub(super) alias: bool,
}

/// A class or a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) line: usize,
    pub(super) is_class: bool,
    pub(super) name: String,
    /// The class around a method.
    pub(super) class: Option<String>,
    /// Names of the parameters.
    pub(super) parameters: Vec<String>,
    /// Without the `@`.
    pub(super) decorators: Vec<String>,
}

/// A file.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) lines: Vec<String>,
    pub(super) statements: Vec<Statement>,
    /// Of each line, whether a comment may be put at its end.
    pub(super) takes_comment: Vec<bool>,
    /// Of each statement, the first one below it that is not indented more: the end of its block.
    below: Vec<usize>,
    /// Of each name that is no attribute, the statements that use it and are no imports.
    uses: OnceCell<HashMap<String, Vec<usize>>>,
}

impl Source {
    pub(super) fn read(text: &str) -> Source {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut scanner = Scanner::default();
        for line in &lines {
            scanner.line(line);
        }
        scanner.end();
        let (statements, takes_comment) = (scanner.statements, scanner.takes_comment);
        let below = ends(&statements);
        Source { lines, statements, takes_comment, below, uses: OnceCell::new() }
    }

    pub(super) fn parent(&self, at: usize) -> Option<usize> {
        self.statements.get(at)?.parent
    }

    /// Whether a statement stands in a function.
    pub(super) fn is_in_function(&self, at: usize) -> bool {
        let mut around = self.parent(at);
        while let Some(above) = around {
            if self
                .statements
                .get(above)
                .is_some_and(|it| defined(&it.code).is_some_and(|(is_class, _)| !is_class))
            {
                return true;
            }
            around = self.parent(above);
        }
        false
    }

    /// Whether an import that fails is provided for: by `except`, or because only a type checker gets there.
    pub(super) fn is_guarded(&self, at: usize) -> bool {
        let Some((parent, block)) =
            self.parent(at).and_then(|above| Some((above, self.statements.get(above)?)))
        else {
            return false;
        };
        if block.code.starts_with("if ") && block.code.contains("TYPE_CHECKING") {
            return true;
        }
        let below = self.below.get(parent).and_then(|at| self.statements.get(*at));
        let caught =
            ["except:", "except ImportError", "except ModuleNotFoundError", "except Exception", "except ("];
        block.code.starts_with("try:")
            && below.is_some_and(|next| caught.iter().any(|start| next.code.starts_with(start)))
    }

    /// Classes and functions of the module, and methods of its classes.
    pub(super) fn definitions(&self) -> Vec<Definition> {
        let mut found: Vec<Definition> = Vec::new();
        let mut decorators = Vec::new();
        for (at, statement) in self.statements.iter().enumerate() {
            let Statement { first, code, indent, .. } = statement;
            if let Some(decorator) = code.strip_prefix('@') {
                decorators.push(decorator.to_owned());
                continue;
            }
            let around = self.parent(at).and_then(|above| self.statements.get(above));
            let class = around.and_then(|above| defined(&above.code));
            let is_seen = *indent == 0 || class.as_ref().is_some_and(|(is_class, _)| *is_class);
            if let Some((is_class, name)) = defined(code).filter(|_| is_seen) {
                let parameters = if is_class { Vec::new() } else { parameters(code) };
                let class = class.filter(|_| *indent > 0).map(|(_, name)| name);
                found.push(Definition {
                    line: *first,
                    is_class,
                    name,
                    class,
                    parameters,
                    decorators: std::mem::take(&mut decorators),
                });
            }
            decorators.clear();
        }
        found
    }

    /// The statements in which a name stands by itself, but for those that import it.
    pub(super) fn uses(&self, name: &str) -> impl Iterator<Item = &Statement> {
        let all = self.uses.get_or_init(|| {
            let mut all: HashMap<String, Vec<usize>> = HashMap::new();
            for (at, statement) in self.statements.iter().enumerate() {
                if from_import(&statement.code).is_some() || statement.code.starts_with("import ") {
                    continue;
                }
                for word in free_names(&statement.code) {
                    match all.get_mut(word) {
                        Some(found) if found.last() == Some(&at) => {}
                        Some(found) => found.push(at),
                        None => drop(all.insert(word.to_owned(), vec![at])),
                    }
                }
            }
            all
        });
        all.get(name).into_iter().flatten().filter_map(|at| self.statements.get(*at))
    }

    /// Statements whose code has a part, by number.
    pub(super) fn with<'a>(&'a self, part: &'a str) -> impl Iterator<Item = (usize, &'a Statement)> {
        self.statements.iter().enumerate().filter(move |(_, it)| has_part(&it.code, part))
    }
}

/// The names that a statement imports; `None` if it is no import, or one of all names.
pub(super) fn imports(code: &str) -> Option<Vec<Name>> {
    if let Some(rest) = code.strip_prefix("import ") {
        let named = |part: &str| {
            let (module, bound) = aliased(part);
            let first = module.split('.').next().unwrap_or_default().to_owned();
            let alias = bound.is_some();
            Name { bound: bound.unwrap_or(first), module, member: None, alias }
        };
        return Some(rest.split(',').map(named).collect());
    }
    let (module, members) = from_import(code)?;
    let module = module.replace(' ', "");
    let members = members.trim_start_matches('(').trim_end_matches(')');
    if members.trim() == "*" {
        return None;
    }
    let named = |part: &str| {
        let (member, bound) = aliased(part);
        let alias = bound.is_some();
        let bound = bound.unwrap_or_else(|| member.clone());
        Name { module: module.clone(), member: Some(member), bound, alias }
    };
    Some(members.split(',').filter(|part| !part.trim().is_empty()).map(named).collect())
}

/// The module of a statement that imports all names of one.
pub(super) fn star(code: &str) -> Option<&str> {
    from_import(code).filter(|(_, members)| *members == "*").map(|(module, _)| module)
}

/// The module and the members of `from … import …`.
fn from_import(code: &str) -> Option<(&str, &str)> {
    let rest = code.strip_prefix("from ")?;
    let dots = rest.len() - rest.trim_start_matches(['.', ' ']).len();
    let (module, members) = match rest.get(dots..)?.strip_prefix("import") {
        Some(members) if dots > 0 && !members.starts_with(is_of_name) => (rest.get(..dots)?, members),
        _ => rest.split_once(" import")?,
    };
    Some((module.trim(), members.trim()))
}

fn aliased(part: &str) -> (String, Option<String>) {
    match part.trim().split_once(" as ") {
        Some((name, bound)) => (name.trim().to_owned(), Some(bound.trim().to_owned())),
        None => (part.trim().to_owned(), None),
    }
}

/// Whether a statement begins a class, and its name; or a function's.
fn defined(code: &str) -> Option<(bool, String)> {
    let rest = code.strip_prefix("async ").unwrap_or(code);
    let (is_class, rest) = match rest.strip_prefix("class ") {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix("def ")?),
    };
    let name: String = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    Some((is_class, name))
}

/// The parameters of a function, without annotations and defaults.
fn parameters(code: &str) -> Vec<String> {
    let Some((_, rest)) = code.split_once('(') else { return Vec::new() };
    let (mut depth, mut parts, mut part) = (0_usize, Vec::new(), String::new());
    for c in rest.chars() {
        match c {
            ')' if depth == 0 => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    let name = |part: &String| {
        let name = part.split([':', '=']).next().unwrap_or_default();
        name.trim().to_owned()
    };
    parts.iter().map(name).filter(|name| !name.is_empty()).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names of a text that are no attributes.
fn free_names(text: &str) -> impl Iterator<Item = &str> {
    let mut is_attribute = false;
    text.split_inclusive(|c| !is_of_name(c)).filter_map(move |part| {
        let name = part.trim_end_matches(|c| !is_of_name(c));
        let found = Some(name).filter(|name| !name.is_empty() && !is_attribute);
        is_attribute = part.ends_with('.');
        found
    })
}

/// Of each statement, the number of the first one below it that is not indented more.
fn ends(statements: &[Statement]) -> Vec<usize> {
    let mut below = vec![statements.len(); statements.len()];
    let mut open: Vec<usize> = Vec::new();
    for (at, statement) in statements.iter().enumerate() {
        let is_over = |above: &usize| statements.get(*above).is_some_and(|it| it.indent >= statement.indent);
        while let Some(above) = open.pop_if(|above| is_over(above)) {
            if let Some(end) = below.get_mut(above) {
                *end = at;
            }
        }
        open.push(at);
    }
    below
}

/// Whether a name stands in a text by itself, and is no attribute.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, found)| {
        let before = text.get(..at).and_then(|it| it.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|it| it.chars().next());
        !before.is_some_and(|c| is_of_name(c) || c == '.') && !after.is_some_and(is_of_name)
    })
}

/// Whether a part stands in a text, not in the middle of a name.
fn has_part(text: &str, part: &str) -> bool {
    let begins_name = part.starts_with(is_of_name);
    text.match_indices(part).any(|(at, _)| {
        let before = text.get(..at).and_then(|it| it.chars().next_back());
        !(begins_name && before.is_some_and(is_of_name))
    })
}

/// A text that is open.
#[derive(Clone, Copy)]
struct Quote {
    mark: char,
    is_triple: bool,
}

#[derive(Default)]
struct Scanner {
    statements: Vec<Statement>,
    takes_comment: Vec<bool>,
    current: Option<Statement>,
    quote: Option<Quote>,
    depth: usize,
    number: usize,
}

impl Scanner {
    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        let mut indent = line.len() - text.len();
        let is_comment = self.current.is_none() && text.starts_with('#');
        let mut chars = line.char_indices().peekable();
        // Whether it ends with a backslash.
        let mut goes_on = false;
        while let Some((at, c)) = chars.next() {
            if self.current.is_none() {
                match c {
                    '#' => break,
                    ';' => continue,
                    c if c.is_whitespace() => continue,
                    _ => self.begin(at, indent),
                }
            }
            let Some(statement) = &mut self.current else { break };
            match self.quote {
                Some(_) if c == '\\' => goes_on = chars.next().is_none(),
                Some(quote) if c == quote.mark => {
                    let is_end = !quote.is_triple || next_two(&chars, quote.mark);
                    if is_end {
                        if quote.is_triple {
                            chars.next();
                            chars.next();
                        }
                        self.quote = None;
                    }
                }
                Some(_) => {}
                None if c == '#' => break,
                None if c == '"' || c == '\'' => {
                    let is_triple = next_two(&chars, c);
                    if is_triple {
                        chars.next();
                        chars.next();
                    }
                    self.quote = Some(Quote { mark: c, is_triple });
                    statement.code.push_str("\"\"");
                }
                None if c == '\\' && chars.peek().is_none() => goes_on = true,
                None if c == ';' && self.depth == 0 => {
                    self.end();
                    continue;
                }
                None => {
                    match c {
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    statement.code.push(c);
                }
            }
            if !c.is_whitespace() {
                statement.last = self.number;
                statement.to = chars.peek().map_or(line.len(), |(next, _)| *next);
            }
            let is_colon = c == ':' && self.quote.is_none() && self.depth == 0;
            if is_colon && begins_block(&statement.code) && chars.peek().is_none_or(|(_, c)| *c != '=') {
                self.end();
                indent += 1;
            }
        }
        // A text on one line ends with it.
        if self.quote.is_some_and(|quote| !quote.is_triple) && !goes_on {
            self.quote = None;
        }
        self.takes_comment.push(!goes_on && self.quote.is_none() && !is_comment);
        if self.quote.is_none() && self.depth == 0 && !goes_on {
            self.end();
        } else if let Some(statement) = &mut self.current {
            statement.code.push(' ');
        }
        self.number += 1;
    }

    fn begin(&mut self, from: usize, indent: usize) {
        let (first, code) = (self.number, String::new());
        self.current = Some(Statement { first, last: first, from, to: from, indent, parent: None, code });
    }

    fn end(&mut self) {
        if let Some(mut statement) = self.current.take() {
            statement.code = statement.code.split_whitespace().collect::<Vec<_>>().join(" ");
            let mut above = self.statements.len().checked_sub(1);
            while let Some(it) = above.and_then(|at| self.statements.get(at)) {
                if it.indent < statement.indent {
                    break;
                }
                above = it.parent;
            }
            statement.parent = above;
            self.statements.push(statement);
        }
    }
}

/// Whether a statement has a block behind its colon.
fn begins_block(code: &str) -> bool {
    const WORDS: &str = "if elif else for while with try except finally def class async";
    let first = code.split(|c| !is_of_name(c)).next().unwrap_or_default();
    WORDS.split(' ').any(|word| word == first)
}

/// Whether the next two characters are this one.
fn next_two(chars: &Peekable<CharIndices<'_>>, mark: char) -> bool {
    let mut ahead = chars.clone().map(|(_, c)| c);
    ahead.next() == Some(mark) && ahead.next() == Some(mark)
}

#[cfg(test)]
mod tests;
