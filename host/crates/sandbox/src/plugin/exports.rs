//! The contract's functions in a component and in an instance of it.
//!
//! Place in the flow: found once when a component is loaded ([`Indices`]), bound for every instance
//! ([`Exports`]).
//! Invariant: what a component exports has the contract's types, or it is not loaded.

use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use super::bindings::exports::modelhost::handler::{
    init, input_schema, operations, post_inference, post_inference_tensors, pre_inference,
    pre_inference_tensors, respond, respond_all, websocket,
};
use super::bindings::{
    HANDLER, INCOMING_HANDLER, INIT, INPUT_SCHEMA, OPERATIONS, POST_INFERENCE, POST_INFERENCE_TENSORS,
    PRE_INFERENCE, PRE_INFERENCE_TENSORS, RESPOND, RESPOND_ALL, WEBSOCKET,
};
use super::load_error::LoadError;
use super::stages::Stages;
use super::start_error::StartError;
use super::state::State;
use super::wasi_http_bindings::{handler, incoming_handler};

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
