//! The clocks of a call that serves an exchange, and the words for an end that its contract does not allow.
//!
//! Place in the flow: the exports of applications, `respond`, `wasi:http` and `websocket`, are called by
//! [`Clocks::run`].
//! Invariants: three clocks run, one after the other: until the head of the response, between two pieces of
//! its body, and after its end; computing is limited besides, anew after every wait.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::Store;

use super::deadline::{Meter, stream_metered};
use super::instance::Instance;
use super::limits::Limits;
use super::state::{self, State};
use crate::error::{Code, RequestError, Stage};
use crate::request::Request;
use crate::request::exchange::{Exchange, Phase, Progress};

/// Where a failure of an application is said to be.
pub(super) const STAGE: Stage = Stage::PreInference;

pub(super) const UNFINISHED: &str = "the handler ended without ending the body of its response";
pub(super) const UNANSWERED: &str = "the handler ended without a response";

/// The error of a call that ended in a way that its contract does not allow.
pub(super) fn broken_contract(message: &str) -> RequestError {
    RequestError::new(Code::PluginBadOutput, STAGE, message)
}

/// The clocks of one call.
pub(super) struct Clocks {
    meter: Arc<Meter>,
    progress: Arc<Progress>,
    /// When the head has to be there.
    head: Instant,
    /// `None`: it is not measured.
    gap: Option<Duration>,
    background: Duration,
}

/// Why a call is not waited for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Head,
    Gap,
    After,
}

impl Clocks {
    /// Begins the call, which copies `given` bytes into the guest.
    pub(super) fn begin(
        store: &mut Store<State>,
        request: &Request,
        exchange: &Exchange,
        given: usize,
    ) -> Clocks {
        let gap = store.data().loaded.config.limits.stream_timeout;
        Clocks::of(store, request, exchange.progress(), Some(gap), given)
    }

    /// The same of a call that serves a WebSocket: how long that is open is for others to say.
    pub(super) fn of_socket(store: &mut Store<State>, request: &Request, progress: &Arc<Progress>) -> Clocks {
        Clocks::of(store, request, progress, None, 0)
    }

    /// The same of a call that serves a batch, for which `last` has the most time.
    pub(super) fn of_batch(
        store: &mut Store<State>,
        last: &Request,
        progress: &Arc<Progress>,
        given: usize,
    ) -> Clocks {
        Clocks::of(store, last, progress, None, given)
    }

    fn of(
        store: &mut Store<State>,
        request: &Request,
        progress: &Arc<Progress>,
        gap: Option<Duration>,
        given: usize,
    ) -> Clocks {
        store.data_mut().response = Some(progress.clone());
        let meter = state::arm_stream(store, STAGE, given);
        let background = store.data().loaded.config.limits.background_timeout;
        Clocks { meter, progress: progress.clone(), head: request.deadline, gap, background }
    }

    /// Waits for the call until one of the clocks has run out.
    pub(super) async fn run<T>(
        self,
        call: Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
    ) -> Result<wasmtime::Result<T>, Over> {
        let call = stream_metered(self.meter.clone(), call);
        tokio::select! {
            biased;
            ended = call => Ok(ended),
            over = self.over() => Err(over),
        }
    }

    async fn over(&self) -> Over {
        let progress = &self.progress;
        let wait = |until: Instant, phase| async move {
            tokio::time::timeout_at(until.into(), progress.left(phase)).await.is_err()
        };
        if wait(self.head, Phase::Head).await {
            return Over::Head;
        }
        loop {
            let Some(gap) = self.gap else {
                progress.left(Phase::Body).await;
                break;
            };
            let touched = progress.touched();
            let is_late = wait(touched + gap, Phase::Body).await;
            if !is_late {
                break;
            }
            if progress.touched() == touched {
                return Over::Gap;
            }
        }
        tokio::time::sleep_until((progress.touched() + self.background).into()).await;
        Over::After
    }
}

impl Instance {
    /// The error of a call that one of its clocks has ended.
    pub(super) fn out_of_time(&self, over: Over) -> RequestError {
        self.disarm(STAGE).err().unwrap_or_else(|| over.error(&self.store.data().loaded.config.limits))
    }
}

impl Over {
    /// The error of the call.
    pub(super) fn error(self, limits: &Limits) -> RequestError {
        let timed_out = |message: String| RequestError::new(Code::PluginTimeout, STAGE, message);
        match self {
            Over::Head => {
                RequestError::new(Code::RequestTimeout, STAGE, "the request took longer than it may")
            }
            Over::Gap => timed_out(format!(
                "nothing of the response was sent and taken for {:?}, `limits.stream_timeout`",
                limits.stream_timeout
            )),
            Over::After => timed_out(format!(
                "the handler worked longer than {:?} after its response, `limits.background_timeout`",
                limits.background_timeout
            )),
        }
    }
}
