//! Fields of a line in a terminal: what has lines of its own stands below, so that the first says what
//! happened.
//!
//! In: the fields of an event. Out: those of the usual text, with `detail` cut after its first line; the
//! rest follows below it, each line indented.
//! Invariant: what a guest or a caller wrote steers no terminal.

use std::fmt;

use tracing::field::{self, Field};
use tracing_subscriber::field::{MakeVisitor, VisitFmt, VisitOutput};
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

use crate::text::below_the_line;

/// The field whose first line says what happened.
const DETAIL: &str = "detail";

/// Makes [`Fields`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BelowTheLine;

#[derive(Debug)]
pub(super) struct Fields<'w> {
    usual: DefaultVisitor<'w>,
    below: String,
}

impl<'w> MakeVisitor<Writer<'w>> for BelowTheLine {
    type Visitor = Fields<'w>;

    fn make_visitor(&self, writer: Writer<'w>) -> Fields<'w> {
        Fields { usual: DefaultVisitor::new(writer, true), below: String::new() }
    }
}

impl field::Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match value.split_once('\n') {
            Some((first, rest)) if field.name() == DETAIL => {
                self.usual.record_str(field, first);
                self.below.push_str(&below_the_line(rest));
            }
            _ => self.usual.record_str(field, value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.usual.record_error(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.usual.record_debug(field, value);
    }
}

impl VisitOutput<fmt::Result> for Fields<'_> {
    fn finish(mut self) -> fmt::Result {
        let below = self.usual.writer().write_str(&self.below);
        self.usual.finish().and(below)
    }
}

impl VisitFmt for Fields<'_> {
    fn writer(&mut self) -> &mut dyn fmt::Write {
        self.usual.writer()
    }
}
