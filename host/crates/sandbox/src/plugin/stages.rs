//! Which stages of the contract a handler takes part in.
//!
//! Place in the flow: told by the names of a component's exports before it is compiled
//! ([`Outline`](super::outline::Outline)), and by its functions after.

use super::bindings::{
    HANDLER, INCOMING_HANDLER, POST_INFERENCE, POST_INFERENCE_TENSORS, PRE_INFERENCE, PRE_INFERENCE_TENSORS,
    RESPOND, RESPOND_ALL, WEBSOCKET,
};
use super::names::is_same;

/// Which stages a handler takes part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stages {
    /// `pre-inference`.
    pub pre: bool,
    /// `post-inference`.
    pub post: bool,
    /// `pre-inference-tensors`.
    pub pre_tensors: bool,
    /// `post-inference-tensors`.
    pub post_tensors: bool,
    /// None of the above: it serves whole requests.
    pub application: Option<Application>,
    /// `respond-all`, beside `respond`.
    pub respond_all: bool,
    /// `websocket`, beside any of the others or alone.
    pub websocket: bool,
}

/// The export by which an application serves requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Application {
    /// `respond`: it is given whole bodies.
    Respond,
    /// `wasi:http/incoming-handler`, or `wasi:http/handler`.
    Http,
}

impl Stages {
    /// The functions of these stages.
    pub fn functions(self) -> impl Iterator<Item = &'static str> {
        [
            ("pre-inference", self.pre),
            ("pre-inference-tensors", self.pre_tensors),
            ("post-inference", self.post),
            ("post-inference-tensors", self.post_tensors),
            ("respond", self.application == Some(Application::Respond)),
            ("respond-all", self.respond_all),
            ("handle", self.application == Some(Application::Http)),
            ("websocket", self.websocket),
        ]
        .into_iter()
        .filter_map(|(function, has)| has.then_some(function))
    }

    /// Whether a component with these exports is a handler at all.
    pub(super) fn any(self) -> bool {
        self.is_around_a_model() || self.serves_by_itself()
    }

    /// Whether it has functions around a model.
    fn is_around_a_model(self) -> bool {
        self.pre || self.post || self.pre_tensors || self.post_tensors
    }

    /// Whether it serves whole requests, or WebSockets and nothing else.
    pub fn is_application(self) -> bool {
        self.application.is_some() || self.websocket && !self.is_around_a_model()
    }

    /// Whether it serves requests or WebSockets by itself, and so imports what belongs to them.
    pub(super) fn serves_by_itself(self) -> bool {
        self.application.is_some() || self.websocket
    }

    /// The stages among these names of exports.
    pub(super) fn among(exports: &[String]) -> Stages {
        let has = |name| exports.iter().any(|export| is_same(export, name));
        let stages = Stages {
            pre: has(PRE_INFERENCE),
            post: has(POST_INFERENCE),
            pre_tensors: has(PRE_INFERENCE_TENSORS),
            post_tensors: has(POST_INFERENCE_TENSORS),
            application: None,
            respond_all: has(RESPOND_ALL),
            websocket: has(WEBSOCKET),
        };
        stages.or_application(has(RESPOND), has(INCOMING_HANDLER) || has(HANDLER))
    }

    /// Functions around a model win: a component that has them may have others for other hosts.
    pub(super) fn or_application(self, responds: bool, handles: bool) -> Stages {
        let application = match (responds, handles) {
            _ if self.is_around_a_model() => None,
            (true, _) => Some(Application::Respond),
            (false, true) => Some(Application::Http),
            (false, false) => None,
        };
        let respond_all = self.respond_all && application == Some(Application::Respond);
        Stages { application, respond_all, ..self }
    }
}
