//! Orders about the handler that is on trial beside an endpoint's current generation.
//!
//! Place in the flow: routes of the admin listener. In: an order of the operator. Out: what the trial has
//! come to so far.
//! Invariants: those of [`endpoints`](super::endpoints), whose ways of taking and carrying
//! out orders are used here.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::{post, put};
use axum::{Extension, Json, Router};
use serde_json::json;

use super::endpoints::{
    AdminCommand, Answer, Refusal, Uploads, carry_out, carry_out_raw, expected, find, ordered_by,
};
use super::parameters::{self, Pairs, invalid, no_parameters, note, pairs};
use crate::plugin::Binary;
use crate::rollout::deploy_request::DeployRequest;
use crate::rollout::history::Origin;
use crate::rollout::trial::{TrialSpec, read_share};
use crate::server::browser::{not_from_a_page, refused};
use crate::server::served::Served;
use crate::values::RawValue;

pub(super) fn router() -> Router<Arc<Served>> {
    Router::new()
        .route("/admin/v1/endpoints/{endpoint}/plugin/candidate", put(try_out).get(show).delete(end))
        .route("/admin/v1/endpoints/{endpoint}/plugin/candidate/promote", post(promote))
}

async fn show(State(served): State<Arc<Served>>, Path(name): Path<String>, query: Pairs) -> Answer {
    no_parameters(query)?;
    let trial = find(&served, &name)?.trial().ok_or_else(|| {
        let text = format!("endpoint `{name}` has no handler on trial");
        refused(StatusCode::NOT_FOUND, "not_found", text)
    })?;
    Ok(Json(trial.report()).into_response())
}

async fn try_out(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    Extension(uploads): Extension<Arc<Uploads>>,
    request: Request,
) -> Answer {
    not_from_a_page(request.headers())?;
    let mut pairs = pairs(query)?;
    let endpoint = find(&served, &name)?;
    let mut order = DeployRequest {
        by: ordered_by(&served, request.headers()),
        expected: expected(request.headers()),
        ..DeployRequest::by(Origin::Admin)
    };
    for (_, text) in pairs.extract_if(.., |(name, _)| name == "note") {
        order.note = Some(note(&text).map_err(invalid)?);
    }
    let component = uploads.component(request.into_body()).await?;
    // Without a component the order is about the candidate that there is.
    if component.is_empty() {
        let share = match pairs.as_slice() {
            [(name, share)] if name == "share" => read_share(&RawValue::of(share)).ok(),
            _ => None,
        };
        let share = share.ok_or_else(|| {
            invalid("without a component the order is `share=SHARE`, more than 0 and at most 1".to_owned())
        })?;
        let trial = endpoint.set_share(share, &order).map_err(Refusal::from)?;
        return Ok(Json(trial.report()).into_response());
    }
    let parameters = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let spec = TrialSpec::parse(parameters).map_err(invalid)?;
    let trying = async move { endpoint.try_out(Binary::new(component), spec, &order).await };
    let trial = carry_out_raw(&served, trying).await?;
    Ok(Json(trial.report()).into_response())
}

async fn promote(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Answer {
    let query = (query, parameters::OF_A_PROMOTION);
    let AdminCommand { endpoint, order, .. } =
        AdminCommand::parse(&served, &name, query, &headers, Origin::Admin)?;
    carry_out(&served, async move { endpoint.promote(&order).await }).await
}

async fn end(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Answer {
    let query = (query, parameters::ONLY_A_NOTE);
    let AdminCommand { endpoint, order, .. } =
        AdminCommand::parse(&served, &name, query, &headers, Origin::Admin)?;
    let dropped = endpoint.drop_candidate(&order).map_err(Refusal::from)?;
    let outcome = if dropped { "dropped" } else { "unchanged" };
    let current = endpoint.current();
    let answer = json!({ "outcome": outcome, "generation": current.number, "digest": current.digest });
    Ok(Json(answer).into_response())
}
