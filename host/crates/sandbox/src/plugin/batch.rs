//! `respond-all`: an application that serves several requests by one call.
//!
//! Place in the flow: its paths are asked for once, when it is loaded; `pipeline` calls
//! [`Lease::respond_all`] for the requests of a batch. In: requests whose bodies are there. Out: a response
//! or an error for each; or one error, which is that of them all.
//! Invariants: a response goes to the request in whose place it was returned, and there are as many as
//! requests; a context of the guest's is that of its own request.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use super::bindings::exports::modelhost::handler::respond_all as guest;
use super::bindings::modelhost::handler::types;
use super::context::Context;
use super::convert::{Returned, shown};
use super::deadline::metered;
use super::exchange::{Clocks, STAGE, broken_contract};
use super::instance::{Instance, bad_output};
use super::lease::Lease;
use super::staged::Outcome;
use super::state;
use crate::blocking;
use crate::error::RequestError;
use crate::request::exchange::Progress;
use crate::request::{Request, Response};

/// Most paths.
const MOST: usize = 100;
/// Longest of them, in bytes.
const LONGEST: usize = 1 << 10;

/// The responses of a handler to the requests of a batch, in their order.
pub type Answers = Vec<Result<Response, RequestError>>;

impl Lease<'_> {
    /// Has an application serve these requests together; `None` if it has no `respond-all`. The instance was
    /// checked out for the one whose time is up last. `progress`: whether they have all gone.
    ///
    /// # Errors
    /// As [`Lease::call`]: none of them has a response.
    pub async fn respond_all(
        &mut self,
        members: &[Arc<Request>],
        progress: &Arc<Progress>,
    ) -> Option<Result<Answers, RequestError>> {
        self.enter("respond-all");
        self.instance.as_mut()?.respond_all(members, progress).await
    }
}

impl Instance {
    /// Calls `paths`, as `operations` is called; none if the handler has no `respond-all`.
    ///
    /// # Errors
    /// Text for the operator.
    pub(super) async fn batched_paths(&mut self) -> Result<Vec<String>, String> {
        let Some(guest) = &self.exports.respond_all else { return Ok(Vec::new()) };
        let cpu = self.store.data().time(STAGE);
        let (meter, end) = state::arm_until(&mut self.store, cpu, None, 0);
        let outcome = metered(meter, end, pin!(guest.call_paths(&mut self.store))).await;
        self.told(outcome, STAGE).and_then(sound)
    }

    /// Calls `respond-all`; `None` if the handler has none.
    async fn respond_all(
        &mut self,
        members: &[Arc<Request>],
        progress: &Arc<Progress>,
    ) -> Option<Result<Answers, RequestError>> {
        let guest = self.exports.respond_all.as_ref()?;
        let given = blocking::weight_of(members.iter().map(|request| request.body().len()));
        let last = self.store.data().request.clone()?;
        let clocks = Clocks::of_batch(&mut self.store, &last, progress, given);
        let first = self.store.data_mut().batch.begin(members);
        let members: Vec<guest::Member<'_>> = members.iter().zip(first..).map(member).collect();
        let ended = clocks.run(pin!(guest.call_respond_all(&mut self.store, &members))).await;
        let ended = match ended {
            Ok(ended) => self.answers(ended, members.len()),
            Err(over) => Err(self.out_of_time(over)),
        };
        let state = self.store.data_mut();
        state.batch.end();
        state.response = None;
        Some(ended)
    }

    /// The answers that the call returned, if there is one for each of so many requests.
    fn answers(
        &self,
        ended: wasmtime::Result<Result<Vec<Result<types::Response, types::Error>>, types::Error>>,
        count: usize,
    ) -> Result<Answers, RequestError> {
        let returned = match self.settled(Some(ended), STAGE, Ok)? {
            Outcome::Next(returned) => returned,
            Outcome::Respond(response) => return Ok(vec![Ok(response); count]),
        };
        if returned.len() != count {
            let found = returned.len();
            return Err(broken_contract(&format!(
                "the handler returned {found} results for a batch of {count} requests, expected one for each"
            )));
        }
        let answer = |returned: Result<types::Response, types::Error>| match returned {
            Ok(response) => self.response(response).map_err(|text| bad_output(STAGE, text)),
            Err(error) => match self.handler_error(error, STAGE)? {
                Outcome::Next(response) | Outcome::Respond(response) => Ok(response),
            },
        };
        Ok(returned.into_iter().map(answer).collect())
    }
}

impl Returned for Vec<Result<types::Response, types::Error>> {
    fn weight(&self) -> usize {
        blocking::weight_of(self.iter().map(|it| it.as_ref().map_or_else(Returned::weight, Returned::weight)))
    }
}

/// A request as the guest gets it, with its number.
fn member((request, number): (&Arc<Request>, u32)) -> guest::Member<'_> {
    let sample = guest::Sample { content_type: request.sample_type(), body: request.body() };
    guest::Member { sample, context: Context::numbered(number) }
}

fn sound(paths: Vec<String>) -> Result<Vec<String>, String> {
    if paths.len() > MOST {
        return Err(format!("{} paths, more than {MOST}", paths.len()));
    }
    let is_path = |path: &String| {
        path.starts_with('/')
            && path.len() <= LONGEST
            && !path.chars().any(|c| c.is_control() || ['?', '#', '{', '}'].contains(&c))
    };
    if let Some(path) = paths.iter().find(|path| !is_path(path)) {
        return Err(format!("`{}`: a path begins with `/`, and has no parameters and no query", shown(path)));
    }
    let mut seen = BTreeSet::new();
    match paths.iter().find(|path| !seen.insert(path.as_str())) {
        Some(twice) => Err(format!("`{}` is there twice", shown(twice))),
        None => Ok(paths),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_cannot_be_meant_are_refused() {
        for (paths, expected) in [
            (vec!["/", "/predict", "/predict/"], None),
            (vec!["/a", "/a"], Some("`/a` is there twice")),
            (vec!["a"], Some("`a`: a path begins with `/`, and has no parameters and no query")),
            (vec!["/{id}"], Some("`/{id}`: a path begins with `/`, and has no parameters and no query")),
            (vec!["/a"; 101], Some("101 paths, more than 100")),
        ] {
            let paths = paths.into_iter().map(str::to_owned).collect();
            assert_eq!(sound(paths).err().as_deref(), expected);
        }
    }
}
