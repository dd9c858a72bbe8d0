//! What the instances of one loaded component have in common while they run.
//!
//! Place in the flow: made with the [`LoadedComponent`](super::component::LoadedComponent); the state of
//! every instance holds it.

use std::sync::Arc;

use super::capabilities;
use super::deadline::{LongCallTracker, Scheduler};
use super::headers::LeftOut;
use super::pool::Holding;
use super::project::ProjectView;
use super::settings::HandlerConfig;
use super::stages::Stages;
use crate::throttle::Throttle;

/// Most handles of an application's instance. Languages with a collector give theirs back late.
const APPLICATION_HANDLES: usize = 4096;

/// Everything the running instances of one loaded component have in common.
pub(super) struct HandlerContext {
    pub(super) config: HandlerConfig,
    pub(super) project: Option<Arc<ProjectView>>,
    /// Which stages the component takes part in.
    pub(super) stages: Stages,
    /// The capabilities that it can use.
    pub(super) uses: capabilities::Set,
    pub(super) long_calls: Arc<LongCallTracker>,
    /// Lines of the log about memory that it was refused.
    pub(super) refused_memory: Throttle,
    pub(super) scheduler: Scheduler,
    /// Most handles (files, streams, clocks) an instance may hold.
    pub(super) handles: usize,
    /// The places of the process that they hold.
    pub(super) holding: Arc<Holding>,
    /// The headers that are left out of its responses, as far as the log has named them.
    pub(super) left_out: LeftOut,
}

impl HandlerContext {
    /// Most handles an instance may hold. Those of an application are for the most part none of the operating
    /// system's: headers, bodies, clocks; without a project it has no files.
    pub(super) fn handles(&self) -> usize {
        match (self.stages.serves_by_itself(), &self.project) {
            (false, _) => self.handles,
            (true, None) => APPLICATION_HANDLES,
            (true, Some(_)) => self.handles.max(APPLICATION_HANDLES / 16),
        }
    }
}
