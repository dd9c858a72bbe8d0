//! The last lines of the log, for the operator's address.
//!
//! Place in the flow: beside the lines that go to stderr, of the same events. In: events that the filter lets
//! through. Out: the lines of an endpoint or a request, in their order.
//! Invariants: bounded, [`MOST`] lines of [`LONGEST`] bytes; an endpoint that logs much pushes its own lines
//! out first; an event that the filter leaves out costs nothing here, and a request that logs nothing takes
//! no lock.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{self, Field};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::time::unix_milliseconds;

/// Lines that are kept.
const MOST: usize = 2000;
/// Longest text of a message or a field, in bytes.
const LONGEST: usize = 2 << 10;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its number since the start, from 1.
    pub number: u64,
    /// Seconds since 1970.
    pub at: f64,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The endpoint that it is about.
    pub endpoint: Option<Arc<str>>,
    /// The request that it is about.
    pub request_id: Option<String>,
    /// Its text.
    pub message: String,
    /// Everything else.
    pub fields: Map<String, Value>,
}

/// The lines to find.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Only of this endpoint.
    pub endpoint: Option<String>,
    /// Only of this request.
    pub request_id: Option<String>,
    /// Only of this level and those above it.
    pub level: Option<Level>,
    /// Only those after this number: the first of them. Without it, the last.
    pub after: Option<u64>,
    /// Most of them.
    pub limit: usize,
}

/// The lines that were found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// In their order.
    pub lines: Vec<Line>,
    /// The number after which to search the next time.
    pub last: u64,
}

/// The last lines. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    last: u64,
    kept: usize,
    /// By endpoint, so that none pushes out the lines of another while it has more.
    by_endpoint: HashMap<Option<Arc<str>>, VecDeque<Line>>,
}

impl Recent {
    /// The lines that are searched for.
    pub(super) fn find(&self, search: &Search) -> Found {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_endpoint = |endpoint: &Option<Arc<str>>| match &search.endpoint {
            Some(wanted) => endpoint.as_deref() == Some(wanted),
            None => true,
        };
        let is_found = |line: &&Line| {
            let level: Option<Level> = line.level.parse().ok();
            search.request_id.as_ref().is_none_or(|id| line.request_id.as_ref() == Some(id))
                && search.level.is_none_or(|least| level.is_some_and(|level| level <= least))
                && search.after.is_none_or(|after| line.number > after)
        };
        let all = lines.by_endpoint.iter().filter(|(endpoint, _)| of_endpoint(endpoint));
        let mut found: Vec<&Line> = all.flat_map(|(_, lines)| lines).filter(is_found).collect();
        found.sort_by_key(|line| line.number);
        let is_cut = found.len() > search.limit;
        let mut last = lines.last;
        if search.after.is_some() {
            found.truncate(search.limit);
            last = found.last().filter(|_| is_cut).map_or(last, |line| line.number);
        } else {
            found.drain(..found.len().saturating_sub(search.limit));
        }
        Found { lines: found.into_iter().cloned().collect(), last }
    }

    fn keep(&self, mut line: Line) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.last += 1;
        line.number = lines.last;
        lines.by_endpoint.entry(line.endpoint.clone()).or_default().push_back(line);
        lines.kept += 1;
        if lines.kept > MOST {
            lines.kept -= 1;
            let most = lines.by_endpoint.iter().max_by_key(|(_, lines)| lines.len());
            let Some(endpoint) = most.map(|(endpoint, _)| endpoint.clone()) else { return };
            if let Some(lines) = lines.by_endpoint.get_mut(&endpoint) {
                lines.pop_front();
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let now = unix_milliseconds(SystemTime::now());
        let mut line = Line {
            number: 0,
            // To the millisecond.
            at: now as f64 / 1e3,
            level: event.metadata().level().as_str(),
            endpoint: None,
            request_id: None,
            message: String::new(),
            fields: Map::new(),
        };
        event.record(&mut Reader(&mut line));
        self.keep(line);
    }
}

/// Reads the fields of an event.
struct Reader<'a>(&'a mut Line);

impl Reader<'_> {
    fn text(&mut self, field: &Field, text: &str) {
        let text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
        match field.name() {
            "message" => self.0.message = text.to_owned(),
            "endpoint" => self.0.endpoint = Some(text.into()),
            "request.id" => self.0.request_id = Some(text.to_owned()),
            name => drop(self.0.fields.insert(name.to_owned(), text.into())),
        }
    }

    fn value(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.fields.insert(field.name().to_owned(), value.into());
    }
}

impl field::Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.value(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.value(field, value);
    }
    fn record_u128(&mut self, field: &Field, value: u128) {
        self.value(field, u64::try_from(value).unwrap_or(u64::MAX));
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.value(field, value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.value(field, value);
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn kept(log: impl FnOnce()) -> Recent {
        let recent = Recent::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recent.clone()), log);
        recent
    }

    fn numbers(recent: &Recent, search: Search) -> Vec<u64> {
        recent.find(&search).lines.iter().map(|line| line.number).collect()
    }

    #[test]
    fn a_line_has_its_endpoint_its_request_and_its_fields() {
        let recent = kept(|| {
            let (id, endpoint) = ("r1", Some("iris"));
            tracing::error!(request.id = %id, endpoint, duration_ms = 1.5, absent = None::<&str>, "it {}", "failed");
            tracing::info!(detail = "x".repeat(LONGEST + 1), took = 7_u128, "long");
        });
        let found = recent.find(&Search { limit: 10, ..Search::default() });
        let Line { at, fields, .. } = &found.lines[0];
        assert!(*at > 1.7e9, "{at}");
        assert_eq!(fields, serde_json::json!({ "duration_ms": 1.5 }).as_object().unwrap());
        let line = &found.lines[0];
        assert_eq!(
            (line.level, line.endpoint.as_deref(), &*line.message),
            ("ERROR", Some("iris"), "it failed")
        );
        assert_eq!(line.request_id.as_deref(), Some("r1"));
        assert_eq!(found.lines[1].fields["took"], 7);
        assert_eq!(found.lines[1].fields["detail"].as_str().map(str::len), Some(LONGEST));
    }

    #[test]
    fn lines_are_found_by_endpoint_request_level_and_number() {
        let recent = kept(|| {
            for (endpoint, id) in [("a", "1"), ("b", "2"), ("a", "3")] {
                tracing::info!(endpoint, request.id = id, "x");
                tracing::error!(endpoint, request.id = id, "x");
            }
        });
        let all = || Search { limit: 100, ..Search::default() };
        let some = |text: &str| Some(text.to_owned());
        for (search, expected) in [
            (all(), vec![1, 2, 3, 4, 5, 6]),
            (Search { endpoint: some("a"), ..all() }, vec![1, 2, 5, 6]),
            (Search { endpoint: some("c"), ..all() }, vec![]),
            (Search { request_id: some("2"), ..all() }, vec![3, 4]),
            (Search { level: Some(Level::WARN), ..all() }, vec![2, 4, 6]),
            (Search { after: Some(4), ..all() }, vec![5, 6]),
            (Search { limit: 2, ..all() }, vec![5, 6]),
            (Search { after: Some(1), limit: 2, ..all() }, vec![2, 3]),
        ] {
            assert_eq!(numbers(&recent, search.clone()), expected, "{search:?}");
        }
        // Lines that were found by half are followed by the other half.
        assert_eq!(recent.find(&Search { after: Some(1), limit: 2, ..all() }).last, 3);
        assert_eq!(recent.find(&Search { after: Some(6), limit: 2, ..all() }).last, 6);
    }

    #[test]
    fn an_endpoint_that_logs_much_pushes_out_its_own_lines() {
        let recent = kept(|| {
            tracing::info!(endpoint = "quiet", "x");
            (0..2 * MOST).for_each(|_| tracing::info!(endpoint = "loud", "x"));
        });
        let found = |name: &str| {
            let endpoint = Some(name.to_owned());
            numbers(&recent, Search { endpoint, limit: usize::MAX, ..Search::default() }).len()
        };
        assert_eq!((found("quiet"), found("loud")), (1, MOST - 1));
    }
}
