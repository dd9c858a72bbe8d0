//! `init`: what a handler does once, before its first request.
//!
//! Place in the flow: [`super::Plugin::load`] → here → `snapshot.rs`. In: a component that exports `init`.
//! Out: what its instances are made from: a component whose memory is as `init` left it, or, where that
//! cannot be had, the component itself, whose every instance then runs `init` before its first request. Only
//! in that case is the component compiled as it is.
//! Invariants: a handler whose `init` fails never becomes current; no instance serves a request before `init`
//! has succeeded for it; a component without `init` passes through none of this.

use std::pin::pin;
use std::time::Instant;

use tokio::runtime::Handle;

use super::component::LoadedComponent;
use super::deadline::{DeadlineExceeded, metered};
use super::fault;
use super::instance::Instance;
use super::load_error::LoadError;
use super::snapshot::{self, NoSnapshot};
use super::source::Source;
use super::start_error::StartError;
use super::state;
use crate::error::Stage;
use crate::text;

/// Gives what the instances of a component with `init` are made from: what `init` left when it was given the
/// same before, if that is in the cache; else `init` runs.
///
/// # Errors
/// [`LoadError::Init`] if it fails; any other if the component is refused as it is.
pub(super) async fn prepare(source: Source) -> Result<LoadedComponent, LoadError> {
    let started = Instant::now();
    let endpoint = source.config.endpoint.clone();
    let given = source.clone();
    // Guest code and long computations take turns here, so all of it is done on a thread that may be held.
    let prepared = tokio::task::spawn_blocking(move || {
        let entry = snapshot::entry(&given);
        match entry.as_ref().and_then(|entry| snapshot::find(&given, entry)) {
            Some(found) => Ok((found, "`init` was given the same before")),
            None => {
                let taken = Handle::current().block_on(snapshot::take(&given, entry.as_ref()));
                taken.map(|taken| (taken, "`init` has run"))
            }
        }
    });
    let own = "every instance runs `init` for itself, because its memory cannot be copied";
    match prepared.await {
        Ok(Ok((prepared, how))) => {
            tracing::info!(%endpoint, duration_ms = started.elapsed().as_millis(),
                "{how}; instances begin with the memory it left");
            return Ok(prepared);
        }
        Ok(Err(NoSnapshot::Init(error))) => return Err(error.at_load(&source.config)),
        Ok(Err(NoSnapshot::Open(what))) => tracing::warn!(%endpoint,
            "{own}: `init` leaves {what} open; hint: close it before `init` returns, and an instance starts in \
             microseconds"),
        Ok(Err(NoSnapshot::Refused(why))) => {
            tracing::info!(%endpoint, "{own}: {}", text::on_one_line(&why));
        }
        // What writes modules asserts that they have less than 4 GiB.
        Err(_) => tracing::info!(%endpoint, "{own}: the component has an unusual form"),
    }
    let mut each = source.original().await?;
    each.init_in_each = true;
    Ok(each)
}

impl Instance {
    /// Calls `init`, if there is one, for as long as it may run and until `end` at the latest. An instance
    /// that fails here must not serve.
    ///
    /// # Errors
    /// One of the last three kinds of [`StartError`].
    pub(super) async fn init(&mut self, end: Option<Instant>) -> Result<(), StartError> {
        const STAGE: Stage = Stage::PreInference;
        let Some(guest) = &self.exports.init else { return Ok(()) };
        let loaded = self.store.data().loaded.clone();
        let limit = loaded.config.limits.init_timeout;
        let (meter, until) = state::arm_until(&mut self.store, limit, end, 0);
        let outcome =
            metered(meter, until, pin!(guest.call_init(&mut self.store, &loaded.config.metadata))).await;
        let state = self.store.data_mut();
        state.init_dependencies = state.run.dependencies;
        // What it printed without a line end is logged.
        self.end();
        self.disarm(STAGE).map_err(StartError::InitFault)?;
        match outcome {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(text))) => Err(StartError::Init(fault::bounded(&text::cut(text)))),
            Some(Err(error)) if !error.is::<DeadlineExceeded>() => {
                Err(StartError::InitFault(self.fault(error, STAGE)))
            }
            _ => Err(StartError::InitTime(limit)),
        }
    }
}
