//! Whether two handlers sent the same requests to others.
//!
//! Place in the flow: beside the comparison of their answers. In: what each sent, the old one first. Out: the
//! differences; their places begin with the number of the request, from 1.
//! Invariant: no value of a query or of a header that may hold a secret is shown.

use super::{Difference, MOST, headers_and_body};
use crate::endpoint::config::Bounds;
use crate::outbound::{OutboundAnswer, OutboundCall};
use crate::request::Response;

/// Compares all requests, in their order.
pub fn compare(old: &[OutboundCall], new: &[OutboundCall], bounds: &Bounds) -> Vec<Difference> {
    let mut found = Vec::new();
    for number in 0..old.len().max(new.len()) {
        let place = format!("outbound {}", number + 1);
        match (old.get(number), new.get(number)) {
            (Some(old), Some(new)) => found.extend(
                one(old, new, bounds)
                    .into_iter()
                    .map(|it| Difference::at(format!("{place} {}", it.place), it.change)),
            ),
            (Some(old), None) => {
                found.push(Difference::at(place, format!("`{}` is not sent any more", old.shown())));
            }
            (None, Some(new)) => found.push(Difference::at(place, format!("`{}` is new", new.shown()))),
            (None, None) => {}
        }
    }
    found.truncate(MOST);
    found
}

/// Compares two requests.
pub fn one(old: &OutboundCall, new: &OutboundCall, bounds: &Bounds) -> Vec<Difference> {
    if old.shown() != new.shown() {
        let shown = |call: &OutboundCall| format!("`{}`", call.shown());
        return vec![Difference::became("request", shown(old), shown(new))];
    }
    let mut found = Vec::new();
    if old.url != new.url {
        found.push(Difference::at("query", "it is another".to_owned()));
    }
    let (mut old_message, mut new_message) = (message(old), message(new));
    // Of a request that failed only so much of the body is known as was sent by then.
    if !(is_answered(old) && is_answered(new)) {
        let known = old_message.body.len().min(new_message.body.len());
        old_message.body.truncate(known);
        new_message.body.truncate(known);
    }
    headers_and_body(&old_message, &new_message, bounds, &mut found);
    found
}

fn is_answered(call: &OutboundCall) -> bool {
    matches!(call.answer, Some(OutboundAnswer::Response { .. }))
}

/// In the form in which answers are compared.
fn message(call: &OutboundCall) -> Response {
    const TYPE: &str = "content-type";
    let is_type = |name: &str| name.eq_ignore_ascii_case(TYPE);
    let content_type = call.headers.iter().find(|(name, _)| is_type(name)).map(|(_, value)| value.clone());
    let headers = call.headers.iter().filter(|(name, _)| !is_type(name)).cloned();
    Response {
        status: 200,
        content_type: content_type.unwrap_or_default(),
        headers: headers.collect(),
        body: call.body.clone(),
    }
}
