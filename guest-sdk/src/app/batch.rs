//! Requests that a function serves together.

use super::{FromRequest, IntoReply, Request};
use crate::{Response, Result, internal};

/// The results of the requests of a batch, in their order.
pub type Responses = Vec<Result<Response>>;

/// A function of all requests of a batch.
pub(super) type Together<S> = Box<dyn Fn(&mut S, &mut [Request<'_>]) -> Result<Responses> + Send + Sync>;

/// The function with its arguments read and its results made responses. What cannot be read is an error of
/// its own request, and no argument.
pub(super) fn together<S, T: FromRequest, R: IntoReply>(
    function: &impl Fn(&mut S, Vec<T>) -> Result<Vec<R>>,
    state: &mut S,
    requests: &mut [Request<'_>],
) -> Result<Responses> {
    let (mut inputs, mut refused) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
    for request in requests {
        match T::from_request(request) {
            Ok(input) => {
                inputs.push(input);
                refused.push(None);
            }
            Err(error) => refused.push(Some(Err(error))),
        }
    }
    let results = if inputs.is_empty() { Vec::new() } else { function(state, inputs)? };
    let mut results = results.into_iter().map(response);
    // Results that are too few or too many stay so: the host tells all requests of it.
    let mut responses: Responses =
        refused.into_iter().filter_map(|error| error.or_else(|| results.next())).collect();
    responses.extend(results);
    Ok(responses)
}

/// The only response of a batch of one.
pub(super) fn only(responses: Responses) -> Result<Response> {
    let [response] = <[Result<Response>; 1]>::try_from(responses).map_err(|responses| {
        internal(format!("{} results for a batch of 1 request, expected one for each", responses.len()))
    })?;
    response
}

fn response(result: impl IntoReply) -> Result<Response> {
    let sent = || internal("a request of a batch has no output to send by: return its response");
    result.into_reply()?.into_response().ok_or_else(sent)
}
