//! The last lines of the log.
//!
//! Place in the flow: a route of the admin listener. In: which lines. Out: those that are kept.

use axum::Json;
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, get};

use super::endpoints::Answer;
use super::parameters::{Forms, Pairs, invalid, pairs, unknown};
use crate::telemetry::logs::{Search, find};
use crate::values::{Diagnostic, RawValue, Reader as _, choice, count};

/// Lines of an answer, if the caller does not say.
const LIMIT: usize = 200;

pub(super) fn methods<S: Clone + Send + Sync + 'static>() -> MethodRouter<S> {
    get(show)
}

async fn show(query: Pairs) -> Answer {
    let search = search(pairs(query)?).map_err(invalid)?;
    Ok(Json(find(&search)).into_response())
}

/// The parameters of the route.
const FORMS: Forms =
    &["endpoint=NAME", "request_id=ID", "level=error|warn|info|debug|trace", "after=NUMBER", "limit=NUMBER"];

/// Reads a query.
fn search(pairs: Vec<(String, String)>) -> Result<Search, String> {
    let mut search = Search { limit: LIMIT, ..Search::default() };
    for (name, value) in pairs {
        let raw = RawValue::of(&value);
        let wrong = |diagnostic: Diagnostic| diagnostic.of_parameter(&name, &value);
        match name.as_str() {
            "endpoint" => search.endpoint = Some(value),
            "request_id" => search.request_id = Some(value),
            "level" => {
                use tracing::Level;
                let levels = [
                    ("error", Level::ERROR),
                    ("warn", Level::WARN),
                    ("info", Level::INFO),
                    ("debug", Level::DEBUG),
                    ("trace", Level::TRACE),
                ];
                search.level = Some(choice(&levels).read(&raw).map_err(wrong)?);
            }
            "after" => search.after = Some(count(0..=u64::MAX).read(&raw).map_err(wrong)?),
            "limit" => search.limit = count(1..=2000).read(&raw).map_err(wrong)?,
            _ => return Err(unknown(&name, &value, FORMS)),
        }
    }
    Ok(search)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_which_lines() {
        let read = |query: &[(&str, &str)]| {
            search(query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let found = read(&[("endpoint", "iris"), ("level", "warn"), ("after", "7"), ("limit", "5")]).unwrap();
        let expected = Search {
            endpoint: Some("iris".to_owned()),
            request_id: None,
            level: Some(tracing::Level::WARN),
            after: Some(7),
            limit: 5,
        };
        assert_eq!(found, expected);
        for query in [("level", "loud"), ("after", "-1"), ("limit", "0"), ("limit", "2001"), ("body", "x")] {
            assert!(read(&[query]).is_err(), "{query:?}");
        }
    }
}
