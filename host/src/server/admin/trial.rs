//! Orders about the handler that is on trial beside an endpoint's current generation.
//!
//! Place in the flow: routes of the admin listener. In: an order of the operator. Out: what the trial has come to so far.
//! Invariants: those of [`endpoints`](super::endpoints), whose ways of taking and carrying out orders are used here.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{post, put};
use axum::{Json, Router};
use serde_json::json;

use super::endpoints::{
    Pairs, Refusal, Taken, carry_out, carry_out_raw, component, expected, find, from_a_page,
    no_such_endpoint, note, refused,
};
use crate::deploy::error::DeployError;
use crate::deploy::history::Origin;
use crate::deploy::swap::Order;
use crate::deploy::trial::{Report, Terms, parse_share};
use crate::server::Served;

pub(super) fn router() -> Router<Arc<Served>> {
    Router::new()
        .route("/admin/v1/endpoints/{endpoint}/plugin/candidate", put(try_out).get(show).delete(end))
        .route("/admin/v1/endpoints/{endpoint}/plugin/candidate/promote", post(promote))
}

async fn show(State(served): State<Arc<Served>>, Path(name): Path<String>) -> Response {
    let Some(endpoint) = find(&served, &name) else { return no_such_endpoint(&name) };
    match endpoint.trial() {
        Some(trial) => Json(trial.report()).into_response(),
        None => {
            let text = format!("endpoint `{name}` has no handler on trial");
            refused(StatusCode::NOT_FOUND, "not_found", text)
        }
    }
}

async fn try_out(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    request: Request,
) -> Response {
    if let Some(refusal) = from_a_page(request.headers()) {
        return refusal;
    }
    let invalid = |text| refused(StatusCode::BAD_REQUEST, "invalid_input", text);
    let Query(mut pairs) = match query {
        Ok(query) => query,
        Err(error) => return invalid(error.body_text()),
    };
    let Some(endpoint) = find(&served, &name) else { return no_such_endpoint(&name) };
    let mut order = Order { expected: expected(request.headers()), ..Order::by(Origin::Admin) };
    for (_, text) in pairs.extract_if(.., |(name, _)| name == "note") {
        match note(&text) {
            Ok(note) => order.note = Some(note),
            Err(text) => return invalid(text),
        }
    }
    let plugin = match component(request.into_body()).await {
        Ok(plugin) => plugin,
        Err(refusal) => return refusal,
    };
    let parameters = || pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // Without a component the order is about the candidate that there is.
    if plugin.is_empty() {
        let share = match pairs.as_slice() {
            [(name, share)] if name == "share" => parse_share(share),
            _ => None,
        };
        let Some(share) = share else {
            return invalid(
                "without a component the order is `share=SHARE`, more than 0 and at most 1".to_owned(),
            );
        };
        return report(endpoint.set_share(share).map(|trial| trial.report()).map_err(Refusal::from));
    }
    let terms = match Terms::parse(parameters()) {
        Ok(terms) => terms,
        Err(text) => return invalid(text),
    };
    let trying = async move {
        let trial = endpoint.try_out(plugin, terms, &order).await?;
        Ok::<_, DeployError>(trial.report())
    };
    report(carry_out_raw(&served, trying).await)
}

async fn promote(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    match Taken::take(&served, &name, query, &headers, Origin::Admin) {
        Ok(Taken { wish, .. }) if wish.persist || !wish.models.is_empty() => only_a_note(),
        Ok(Taken { endpoint, order, .. }) => {
            carry_out(&served, async move { endpoint.promote(&order).await }).await
        }
        Err(refusal) => refusal,
    }
}

async fn end(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Response {
    let Taken { endpoint, wish, order } = match Taken::take(&served, &name, query, &headers, Origin::Admin) {
        Ok(taken) => taken,
        Err(refusal) => return refusal,
    };
    if wish.persist || !wish.models.is_empty() {
        return only_a_note();
    }
    let dropped = endpoint.drop_candidate(&order);
    let outcome = if dropped.is_some() { "dropped" } else { "unchanged" };
    let current = endpoint.current();
    Json(json!({ "outcome": outcome, "generation": current.number, "digest": current.digest }))
        .into_response()
}

fn only_a_note() -> Response {
    let text = "this order has no parameter but `note=TEXT`".to_owned();
    refused(StatusCode::BAD_REQUEST, "invalid_input", text)
}

fn report(outcome: Result<Report, Refusal>) -> Response {
    match outcome {
        Ok(report) => Json(report).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}
