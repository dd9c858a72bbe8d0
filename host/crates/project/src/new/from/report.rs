//! What a person has to know of a project that was brought over: MIGRATION.md, and the short list on the
//! terminal.
//!
//! In:  findings, each with its place. Out: a text; lines.

use std::collections::HashSet;
use std::fmt::Write as _;

/// The part of the report that a finding belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    /// The project does not answer as it did before this is decided.
    Decide,
    /// It works, if what is said here is so.
    Check,
    /// Taken over.
    Done,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Finding {
    pub(super) topic: Topic,
    /// `model/model.py:12`, a place in the new project, or in a file of the old one that is not part of it.
    pub(super) place: String,
    pub(super) what: String,
    /// Advice.
    pub(super) hint: String,
}

/// The findings of a project.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    known: HashSet<Finding>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        topic: Topic,
        place: &str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        // A file's name may have any characters.
        let place = place.replace(char::is_control, "?");
        let finding = Finding { topic, place, what: what.into(), hint: hint.into() };
        if self.known.insert(finding.clone()) {
            self.findings.push(finding);
        }
    }

    /// Adds what another one has found.
    pub(super) fn append(&mut self, other: Report) {
        for finding in other.findings {
            self.add(finding.topic, &finding.place, finding.what, finding.hint);
        }
    }

    pub(super) fn decide(&mut self, place: &str, what: impl Into<String>, hint: impl Into<String>) {
        self.add(Topic::Decide, place, what, hint);
    }

    pub(super) fn check(&mut self, place: &str, what: impl Into<String>, hint: impl Into<String>) {
        self.add(Topic::Check, place, what, hint);
    }

    pub(super) fn done(&mut self, place: &str, what: impl Into<String>, hint: impl Into<String>) {
        self.add(Topic::Done, place, what, hint);
    }

    fn of(&self, topic: Topic) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.topic == topic)
    }

    pub(super) fn count(&self, topic: Topic) -> usize {
        self.of(topic).count()
    }

    /// The findings that are left to decide, for the terminal.
    pub(super) fn lines(&self) -> String {
        let mut lines = String::new();
        for Finding { place, what, hint, .. } in self.of(Topic::Decide) {
            let _ = writeln!(lines, "  {place}: {what}\n    hint: {hint}");
        }
        lines
    }

    /// MIGRATION.md.
    pub(super) fn document(&self, name: &str, system: &str, program: &str) -> String {
        let mut text = format!(
            "# {name}, from {system}\n\nWritten by `{program} new {name} --from`. Places are files of this folder, or of the old project.\n"
        );
        for (topic, title, none) in [
            (Topic::Decide, "To decide", "Nothing: the project builds and answers as it is."),
            (Topic::Check, "To check", "Nothing."),
            (Topic::Done, "Taken over", "Nothing."),
        ] {
            let _ = write!(text, "\n## {title}\n\n");
            if self.count(topic) == 0 {
                let _ = writeln!(text, "{none}");
                continue;
            }
            let (what, hint) = if topic == Topic::Done { ("there", "here") } else { ("what", "hint") };
            let _ = writeln!(text, "| where | {what} | {hint} |\n|---|---|---|");
            for Finding { place, what, hint, .. } in self.of(topic) {
                let _ = writeln!(text, "| `{}` | {} | {} |", cell(place), cell(what), cell(hint));
            }
        }
        text
    }
}

/// A text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
