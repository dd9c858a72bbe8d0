//! Which functions of the contract a component has.
//!
//! Place in the flow: found once when a component is loaded ([`Indices`]), bound for every instance
//! ([`Exports`]).
//! Invariant: what a component exports has the contract's types, or it is not loaded.

use wasmparser::{Parser, Payload};
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use super::LoadError;
use super::bindings::exports::modelhost::handler::{
    init, input_schema, operations, post_inference, post_inference_tensors, pre_inference,
    pre_inference_tensors, respond, respond_all, websocket,
};
use super::bindings::{
    CLIENT, HANDLER, INCOMING_HANDLER, INIT, INPUT_SCHEMA, JOBS, KV, MODELS, OPERATIONS, OUTGOING_HANDLER,
    POST_INFERENCE, POST_INFERENCE_TENSORS, PRE_INFERENCE, PRE_INFERENCE_TENSORS, RESPOND, RESPOND_ALL,
    WEBSOCKET,
};
use super::instance::StartError;
use super::state::State;
use super::versions::{is_same, parts};
use super::wasi_http::{handler, incoming_handler};
use super::wasi_nn::INFERENCE;

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
    fn among(exports: &[String]) -> Stages {
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
    fn or_application(self, responds: bool, handles: bool) -> Stages {
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

/// The names that a component exports and imports, in order, as far as they can be read: found without
/// compiling it.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) exports: Vec<String>,
    pub(super) imports: Vec<String>,
    /// Whether all of it could be read.
    pub(super) is_whole: bool,
}

impl Outline {
    pub(super) fn of(bytes: &[u8]) -> Outline {
        let mut outline = Outline::default();
        outline.is_whole = names(bytes, |name, is_export| {
            let names = if is_export { &mut outline.exports } else { &mut outline.imports };
            names.push(name.to_owned());
        });
        outline
    }

    /// Whether it serves requests by `wasi:http` 0.3, in any version of that, and so runs where tasks may
    /// wait for each other.
    pub(super) fn is_concurrent(&self) -> bool {
        let (handler, _) = parts(HANDLER);
        self.exports.iter().any(|name| parts(name).0 == handler)
    }

    /// Whether it says what it takes.
    pub(super) fn has_schema(&self) -> bool {
        self.exports.iter().any(|name| is_same(name, INPUT_SCHEMA))
    }

    /// Whether it has `init`.
    pub(super) fn has_init(&self) -> bool {
        self.exports.iter().any(|name| is_same(name, INIT))
    }

    /// Whether it imports `models`, or `wasi:nn`.
    pub(super) fn calls_models(&self) -> bool {
        self.imports.iter().any(|name| is_same(name, MODELS) || name == INFERENCE)
    }

    /// Whether it imports what sends requests.
    pub(super) fn calls_out(&self) -> bool {
        self.imports.iter().any(|name| is_same(name, OUTGOING_HANDLER) || is_same(name, CLIENT))
    }

    /// Whether it imports what keeps values.
    pub(super) fn keeps_values(&self) -> bool {
        self.imports.iter().any(|name| is_same(name, KV) || name.starts_with("wasi:keyvalue/"))
    }

    /// Whether it imports what submits jobs.
    pub(super) fn submits_jobs(&self) -> bool {
        self.imports.iter().any(|name| is_same(name, JOBS))
    }

    /// Whether it imports what keeps objects.
    pub(super) fn keeps_objects(&self) -> bool {
        self.imports.iter().any(|name| name.starts_with("wasi:blobstore/"))
    }

    /// Its stages of the contract.
    pub(super) fn stages(&self) -> Stages {
        Stages::among(&self.exports)
    }
}

/// Names each export and import of a component itself, not of one inside of it; whether all of it could be
/// read.
pub(super) fn names<'a>(bytes: &'a [u8], mut found: impl FnMut(&'a str, bool)) -> bool {
    let (mut is_whole, mut depth) = (false, 0_usize);
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) if depth == 0 => is_whole = true,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(exports) if depth == 0 => {
                exports.into_iter().flatten().for_each(|it| found(it.name.name, true));
            }
            Payload::ComponentImportSection(imports) if depth == 0 => {
                imports.into_iter().flatten().for_each(|it| found(it.name.name, false));
            }
            _ => {}
        }
    }
    is_whole
}

macro_rules! exports {
    ($($field:ident: $interface:ident, $name:ident;)+) => {
        /// Where a component has the functions it has.
        #[derive(Clone)]
        pub(super) struct Indices {
            $($field: Option<$interface::GuestIndices>,)+
        }

        /// The functions of one instance.
        pub(super) struct Exports {
            $(pub(super) $field: Option<$interface::Guest>,)+
        }

        impl Indices {
            /// Finds the functions that `component` has.
            ///
            /// # Errors
            /// One of them does not have the contract's type.
            pub(super) fn find(
                component: &Component,
                pre: &InstancePre<State>,
            ) -> Result<Indices, LoadError> {
                Ok(Indices {
                    $($field: component
                        .get_export_index(None, $name)
                        .map(|_| $interface::GuestIndices::new(pre))
                        .transpose()
                        .map_err(|cause| LoadError::Export { export: $name, cause })?,)+
                })
            }

            /// Binds them in an instance.
            ///
            /// # Errors
            /// [`StartError::Type`].
            pub(super) fn bind(
                &self,
                store: &mut Store<State>,
                instance: &Instance,
            ) -> Result<Exports, StartError> {
                Ok(Exports {
                    $($field: self.$field
                        .as_ref()
                        .map(|indices| indices.load(&mut *store, instance))
                        .transpose()
                        .map_err(|error| StartError::Type($name, error))?,)+
                })
            }
        }
    };
}

exports! {
    pre: pre_inference, PRE_INFERENCE;
    post: post_inference, POST_INFERENCE;
    pre_tensors: pre_inference_tensors, PRE_INFERENCE_TENSORS;
    post_tensors: post_inference_tensors, POST_INFERENCE_TENSORS;
    schema: input_schema, INPUT_SCHEMA;
    init: init, INIT;
    respond: respond, RESPOND;
    respond_all: respond_all, RESPOND_ALL;
    websocket: websocket, WEBSOCKET;
    operations: operations, OPERATIONS;
    http: incoming_handler, INCOMING_HANDLER;
    concurrent_http: handler, HANDLER;
}

impl Indices {
    /// Whether it serves by `wasi:http` 0.3.
    pub(super) fn is_concurrent(&self) -> bool {
        self.concurrent_http.is_some()
    }

    /// The stages among them.
    pub(super) fn stages(&self) -> Stages {
        Stages {
            pre: self.pre.is_some(),
            post: self.post.is_some(),
            pre_tensors: self.pre_tensors.is_some(),
            post_tensors: self.post_tensors.is_some(),
            application: None,
            respond_all: self.respond_all.is_some(),
            websocket: self.websocket.is_some(),
        }
        .or_application(self.respond.is_some(), self.http.is_some() || self.concurrent_http.is_some())
    }
}
