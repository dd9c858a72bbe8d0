//! `GET /metrics`: Prometheus' text format, or OpenMetrics if the client asks for that.
//!
//! Place in the flow: a route of both listeners, see [`super::health`]. In: the metrics of all endpoints.
//! Out: their text.
//! Invariants: no worker of requests writes it; on the address of the endpoints, which no key guards, it is
//! one of [`MetricsTexts`](crate::server::MetricsTexts), the operator's is always new.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;

use crate::server::head::Operator;
use crate::server::metrics_text::MetricsText;
use crate::server::served::Served;
use crate::telemetry::metrics::MetricsFormat;

pub(super) async fn metrics(
    State(served): State<Arc<Served>>,
    operator: Option<Extension<Operator>>,
    headers: HeaderMap,
) -> Response {
    let format = format(&headers);
    let made = if operator.is_some() {
        tokio::task::spawn_blocking(move || MetricsText::new(served.render_metrics(format))).await
    } else {
        let mut texts = served.metrics_texts.of(format).lock_owned().await;
        // To its end, also if the client leaves: so there is one at a time.
        tokio::task::spawn_blocking(move || texts.text(|| served.render_metrics(format))).await
    };
    match made {
        Ok(text) => {
            let kind = match format {
                MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
                MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            };
            ([(CONTENT_TYPE, kind), (VARY, "accept")], Bytes::from_owner(text)).into_response()
        }
        Err(error) => {
            tracing::error!("the metrics cannot be written: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The format that a client asks for: OpenMetrics if it names it and wants plain text no more.
fn format(headers: &HeaderMap) -> MetricsFormat {
    let (mut openmetrics, mut plain) = (0.0, 0.0);
    let lines = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    for range in lines.flat_map(|line| line.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
        if kind.eq_ignore_ascii_case("application/openmetrics-text") {
            openmetrics = quality.max(openmetrics);
        } else if kind.eq_ignore_ascii_case("text/plain") {
            plain = quality.max(plain);
        }
    }
    if openmetrics > 0.0 && openmetrics >= plain {
        MetricsFormat::OpenMetrics
    } else {
        MetricsFormat::Prometheus
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn openmetrics_is_for_those_that_ask_for_it() {
        for (accept, is_openmetrics) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                true,
            ),
            ("application/openmetrics-text; q=0.4, text/plain; q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", true),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(format(&headers) == MetricsFormat::OpenMetrics, is_openmetrics, "{accept}");
        }
    }
}
