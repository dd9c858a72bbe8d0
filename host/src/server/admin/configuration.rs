//! Orders to serve another configuration, and what became of the last ones.
//!
//! Place in the flow: routes of the admin listener; `app.rs` carries the orders out, one after the other.
//! In: a config file's text, or the order to read the files again. Out: the plan, and what it came to.
//! Invariant: a text is taken from a client with a key only: it may grant handlers every file that this
//! process may read.

#![expect(clippy::result_large_err, reason = "an order is rare, and its refusal is the answer")]

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::json;
use tokio::sync::oneshot;

use super::endpoints::{Answer, Refusal, Uploads, expected, ordered_by, with_etag};
use super::parameters::{self, Forms, OrderParams, Pairs, invalid, no_parameters};
use crate::file;
use crate::rollout::history::Origin;
use crate::server::browser::{not_from_a_page, refused};
use crate::server::configuration::{ConfigAttempt, ConfigOrder, ConfigOutcome, ConfigSource};
use crate::server::served::Served;

pub(super) fn router() -> Router<Arc<Served>> {
    Router::new()
        .route("/admin/v1/config", get(show).put(replace))
        .route("/admin/v1/config/reload", post(reload))
}

async fn show(State(served): State<Arc<Served>>, query: Pairs) -> Answer {
    no_parameters(query)?;
    let configuration = &served.configuration;
    let (digest, attempts) = (configuration.digest(), configuration.attempts());
    let answer = Json(json!({
        "digest": digest,
        "endpoints": served.endpoints.len(),
        "last_reload": attempts.first(),
        "history": attempts,
    }));
    Ok(with_etag(answer.into_response(), Some(&digest)))
}

async fn replace(
    State(served): State<Arc<Served>>,
    query: Pairs,
    Extension(uploads): Extension<Arc<Uploads>>,
    request: Request,
) -> Answer {
    let headers = request.headers().clone();
    not_from_a_page(&headers)?;
    if served.config.admin_keys.is_empty() {
        let text = "a configuration is taken from clients with a key only, for it may grant everything that \
                    the server may do\n  hint: start the server with `--admin-key`; or change its config file, and \
                    order `POST /admin/v1/config/reload`";
        return Err(refused(StatusCode::FORBIDDEN, "forbidden", text.to_owned()));
    }
    let longest = usize::try_from(file::TEXT).unwrap_or(usize::MAX);
    let body = uploads.body(request.into_body(), longest).await?;
    let text = String::from_utf8(body.into()).map_err(|_| invalid("the body is no text".to_owned()))?;
    let order = order(&served, query, parameters::OF_A_CONFIG, &headers)?;
    carry_out(&served, ConfigOrder { source: ConfigSource::Text(text), ..order }).await
}

async fn reload(State(served): State<Arc<Served>>, query: Pairs, headers: HeaderMap) -> Answer {
    not_from_a_page(&headers)?;
    let order = order(&served, query, parameters::OF_A_CONFIG_RELOAD, &headers)?;
    carry_out(&served, ConfigOrder { reload: true, ..order }).await
}

fn order(served: &Served, query: Pairs, forms: Forms, headers: &HeaderMap) -> Result<ConfigOrder, Response> {
    let OrderParams { dry_run, persist, note, .. } = OrderParams::parse(query, forms)?;
    let (by, expected) = (ordered_by(served, headers), expected(headers));
    Ok(ConfigOrder { dry_run, persist, note, by, expected, ..ConfigOrder::by(Origin::Admin) })
}

async fn carry_out(served: &Served, order: ConfigOrder) -> Answer {
    let (answer, answered) = oneshot::channel();
    if served.development.is_some() {
        let text = "`modelhost dev` serves what it builds, by the project's file".to_owned();
        return Err(refused(StatusCode::CONFLICT, "refused", text));
    }
    if !served.configuration.give(ConfigOrder { answer: Some(answer), ..order }) {
        if served.configuration.is_closed() {
            return Err(Refusal::ShuttingDown.into());
        }
        let text = "too many orders wait for their turn; try again in a moment".to_owned();
        let busy = refused(StatusCode::SERVICE_UNAVAILABLE, "overloaded", text);
        return Err(([(RETRY_AFTER, "1")], busy).into_response());
    }
    match answered.await {
        Ok(attempt) => Ok(answer_of(attempt)),
        // It is cut off by a stop only.
        Err(_) => Err(Refusal::ShuttingDown.into()),
    }
}

fn answer_of(attempt: ConfigAttempt) -> Response {
    if attempt.outcome != ConfigOutcome::Refused {
        let digest = attempt.digest.clone().unwrap_or_default();
        return with_etag(Json(attempt).into_response(), Some(&digest));
    }
    let (status, code) = match attempt.step {
        Some("order") => (StatusCode::PRECONDITION_FAILED, "precondition_failed"),
        _ => (StatusCode::CONFLICT, "refused"),
    };
    let body = json!({ "error": attempt.error, "code": code, "step": attempt.step });
    (status, Json(body)).into_response()
}
