//! Which functions of the contract a component has.
//!
//! Place in the flow: found once when a component is loaded ([`Indices`]), bound for every instance
//! ([`Exports`]).
//! Invariant: what a component exports has the contract's types, or it is not loaded.

use wasmparser::{Parser, Payload};
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use super::LoadError;
use super::bindings::exports::modelhost::handler as contract;
use super::bindings::{
    INIT, INPUT_SCHEMA, POST_INFERENCE, POST_INFERENCE_TENSORS, PRE_INFERENCE, PRE_INFERENCE_TENSORS,
};
use super::instance::StartError;
use super::state::State;

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
}

impl Stages {
    /// The contract's functions of these stages.
    pub fn functions(self) -> impl Iterator<Item = &'static str> {
        [
            ("pre-inference", self.pre),
            ("pre-inference-tensors", self.pre_tensors),
            ("post-inference", self.post),
            ("post-inference-tensors", self.post_tensors),
        ]
        .into_iter()
        .filter_map(|(function, has)| has.then_some(function))
    }

    /// Whether a component with these exports is a handler at all.
    pub(super) fn any(self) -> bool {
        self.pre || self.post || self.pre_tensors || self.post_tensors
    }

    /// What is among these names of exports.
    fn among(exports: &[String]) -> Stages {
        let has = |name| exports.iter().any(|export| export == name);
        Stages {
            pre: has(PRE_INFERENCE),
            post: has(POST_INFERENCE),
            pre_tensors: has(PRE_INFERENCE_TENSORS),
            post_tensors: has(POST_INFERENCE_TENSORS),
        }
    }
}

/// What a component exports and imports, by name and in order, as far as it can be read: found without
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
        let (mut outline, mut depth) = (Outline::default(), 0_usize);
        for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) if depth == 0 => outline.is_whole = true,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    outline.exports.extend(exports.into_iter().flatten().map(|it| it.name.name.to_owned()));
                }
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    outline.imports.extend(imports.into_iter().flatten().map(|it| it.name.name.to_owned()));
                }
                _ => {}
            }
        }
        outline
    }

    /// Whether it has `init`.
    pub(super) fn has_init(&self) -> bool {
        self.exports.iter().any(|name| name == INIT)
    }

    /// What it has of the contract's stages.
    pub(super) fn stages(&self) -> Stages {
        Stages::among(&self.exports)
    }
}

macro_rules! exports {
    ($($field:ident: $interface:ident, $name:ident;)+) => {
        /// Where a component has the functions it has.
        #[derive(Clone)]
        pub(super) struct Indices {
            $($field: Option<contract::$interface::GuestIndices>,)+
        }

        /// The functions of one instance.
        pub(super) struct Exports {
            $(pub(super) $field: Option<contract::$interface::Guest>,)+
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
                        .map(|_| contract::$interface::GuestIndices::new(pre))
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
}

impl Indices {
    /// The stages among them.
    pub(super) fn stages(&self) -> Stages {
        Stages {
            pre: self.pre.is_some(),
            post: self.post.is_some(),
            pre_tensors: self.pre_tensors.is_some(),
            post_tensors: self.post_tensors.is_some(),
        }
    }
}
