//! Puts a handler into a component.
//!
//! [`export!`](crate::export!) defines the component's exports, in components only: a native build checks
//! that the type is a [`Handler`](crate::Handler) and adds nothing, so a handler's crate also links for its
//! own unit tests. The generated glue lifts the arguments, calls the function of the same name here, and
//! lowers what it returns; all of them find the instance's one handler in a `Slot`.

/// Exports a [`Handler`](crate::Handler) from the component that this crate is, by the names of its
/// functions: what [`#[handler]`](macro@crate::handler) does by itself.
///
/// Name the functions if the handler has others than these two: without `pre_inference` the JSON body is the
/// model's input, without `post_inference` the model's outputs are the JSON response; `pre_inference_tensors`
/// and `post_inference_tensors` serve callers who bring tensors, `input_schema` says what the handler takes,
/// `init` prepares it. An application exports `respond` in place of all that serve requests, and may export
/// `respond_all` beside it; `websocket` serves WebSockets, beside the others or alone.
///
/// ```
/// # use modelhost_guest::{Context, Handler, Result, Sample, Tensor, export};
/// # struct Iris;
/// # impl Handler for Iris {
/// #     fn new() -> Self { Iris }
/// #     fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
/// #         Ok(vec![Tensor::new("", [1, 4], &sample.json::<[f32; 4]>()?)])
/// #     }
/// # }
/// // `export!(Iris)` for both functions, `export!(Iris: a, b, c)` for any others.
/// export!(Iris: pre_inference);
/// ```
#[macro_export]
macro_rules! export {
    ($handler:ty) => {
        $crate::__export!($handler: pre_inference post_inference);
    };
    ($handler:ty: $($function:ident),+ $(,)?) => {
        $crate::__export!($handler: $($function)+);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($handler:ty: $($function:ident)+) => {
        const _: () = {
            const fn must_be_a_handler<H: $crate::Handler>() {}
            must_be_a_handler::<$handler>();

            #[cfg(target_family = "wasm")]
            mod component {
                use super::*;

                ::std::thread_local! {
                    static HANDLER: $crate::export::Slot<$handler> = const { $crate::export::Slot::empty() };
                }
                struct Component;
                $($crate::__export_function!($function);)+
            }
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_function {
    (pre_inference) => {
        impl $crate::bindings::pre::exports::modelhost::handler::pre_inference::Guest for Component {
            fn pre_inference(
                sample: $crate::Sample,
                context: &$crate::bindings::types::Context,
            ) -> ::core::result::Result<::std::vec::Vec<$crate::Tensor>, $crate::bindings::types::Error> {
                HANDLER.with(|slot| $crate::export::pre_inference(slot, sample, context))
            }
        }
        $crate::bindings::pre::__export_pre_handler!(Component with_types_in $crate::bindings::pre);
    };
    (post_inference) => {
        impl $crate::bindings::post::exports::modelhost::handler::post_inference::Guest for Component {
            fn post_inference(
                prediction: ::std::vec::Vec<$crate::Tensor>,
                context: &$crate::bindings::types::Context,
            ) -> ::core::result::Result<$crate::Response, $crate::bindings::types::Error> {
                HANDLER.with(|slot| $crate::export::post_inference(slot, prediction, context))
            }
        }
        $crate::bindings::post::__export_post_handler!(Component with_types_in $crate::bindings::post);
    };
    (pre_inference_tensors) => {
        impl $crate::bindings::pre_tensors::exports::modelhost::handler::pre_inference_tensors::Guest
            for Component
        {
            fn pre_inference_tensors(
                sample: ::std::vec::Vec<$crate::Tensor>,
                context: &$crate::bindings::types::Context,
            ) -> ::core::result::Result<::std::vec::Vec<$crate::Tensor>, $crate::bindings::types::Error> {
                HANDLER.with(|slot| $crate::export::pre_inference_tensors(slot, sample, context))
            }
        }
        $crate::bindings::pre_tensors::__export_pre_tensor_handler!(
            Component with_types_in $crate::bindings::pre_tensors
        );
    };
    (post_inference_tensors) => {
        impl $crate::bindings::post_tensors::exports::modelhost::handler::post_inference_tensors::Guest
            for Component
        {
            fn post_inference_tensors(
                prediction: ::std::vec::Vec<$crate::Tensor>,
                context: &$crate::bindings::types::Context,
            ) -> ::core::result::Result<::std::vec::Vec<$crate::Tensor>, $crate::bindings::types::Error> {
                HANDLER.with(|slot| $crate::export::post_inference_tensors(slot, prediction, context))
            }
        }
        $crate::bindings::post_tensors::__export_post_tensor_handler!(
            Component with_types_in $crate::bindings::post_tensors
        );
    };
    (respond) => {
        impl $crate::bindings::respond::exports::modelhost::handler::respond::Guest for Component {
            fn respond(
                sample: $crate::Sample,
                context: &$crate::bindings::types::Context,
                output: $crate::bindings::respond::modelhost::handler::streaming::Output,
            ) -> ::core::result::Result<
                ::core::option::Option<$crate::Response>,
                $crate::bindings::types::Error,
            > {
                HANDLER.with(|slot| $crate::export::respond(slot, sample, context, output))
            }
        }
        $crate::bindings::respond::__export_respond_handler!(
            Component with_types_in $crate::bindings::respond
        );
        impl $crate::bindings::operations::exports::modelhost::handler::operations::Guest for Component {
            fn operations() -> ::std::vec::Vec<$crate::app::Operation> {
                HANDLER.with($crate::export::operations)
            }
        }
        $crate::bindings::operations::__export_operations_handler!(
            Component with_types_in $crate::bindings::operations
        );
    };
    (respond_all) => {
        impl $crate::bindings::batch::exports::modelhost::handler::respond_all::Guest for Component {
            fn paths() -> ::std::vec::Vec<::std::string::String> {
                HANDLER.with($crate::export::batched_paths)
            }

            fn respond_all(
                members: ::std::vec::Vec<
                    $crate::bindings::batch::exports::modelhost::handler::respond_all::Member,
                >,
            ) -> ::core::result::Result<
                ::std::vec::Vec<
                    ::core::result::Result<$crate::Response, $crate::bindings::types::Error>,
                >,
                $crate::bindings::types::Error,
            > {
                let members = members.into_iter().map(|member| (member.sample, member.context)).unzip();
                HANDLER.with(|slot| $crate::export::respond_all(slot, members))
            }
        }
        $crate::bindings::batch::__export_batch_handler!(Component with_types_in $crate::bindings::batch);
    };
    (websocket) => {
        impl $crate::bindings::websocket::exports::modelhost::handler::websocket::Guest for Component {
            fn websocket(
                upgrade: $crate::bindings::websocket::modelhost::handler::websockets::Upgrade,
                context: &$crate::bindings::types::Context,
            ) -> ::core::result::Result<(), ::std::string::String> {
                HANDLER.with(|slot| $crate::export::websocket(slot, upgrade, context))
            }
        }
        $crate::bindings::websocket::__export_websocket_handler!(
            Component with_types_in $crate::bindings::websocket
        );
    };
    (init) => {
        impl $crate::bindings::init::exports::modelhost::handler::init::Guest for Component {
            fn init(
                metadata: ::std::string::String,
            ) -> ::core::result::Result<(), ::std::string::String> {
                HANDLER.with(|slot| $crate::export::init(slot, metadata))
            }
        }
        $crate::bindings::init::__export_init_handler!(Component with_types_in $crate::bindings::init);
    };
    (input_schema) => {
        impl $crate::bindings::schema::exports::modelhost::handler::input_schema::Guest for Component {
            fn input_schema() -> ::std::vec::Vec<$crate::Input> {
                HANDLER.with($crate::export::input_schema)
            }
        }
        $crate::bindings::schema::__export_schema_handler!(
            Component with_types_in $crate::bindings::schema
        );
    };
}

#[cfg(target_family = "wasm")]
mod slot {
    use std::cell::RefCell;
    use std::iter;
    use std::mem::ManuallyDrop;

    use crate::app::{Operation, Request, Router};
    use crate::bindings::respond::modelhost::handler::streaming::Output;
    use crate::bindings::types;
    use crate::bindings::websocket::modelhost::handler::websockets;
    use crate::{Context, Handler, Input, Metadata, Response, Sample, Tensor, socket};

    /// The instance's handler, made on first use.
    ///
    /// It is never dropped: an instance ends by being thrown away, and a destructor would cost every instance
    /// its registration.
    pub struct Slot<H>(RefCell<Option<ManuallyDrop<H>>>);

    impl<H: Handler> Slot<H> {
        /// No handler yet.
        pub const fn empty() -> Self {
            Slot(RefCell::new(None))
        }

        /// Calls `f` with the handler. Calls cannot nest: a component may not be re-entered.
        fn with<R>(&self, f: impl FnOnce(&mut H) -> R) -> R {
            f(self.0.borrow_mut().get_or_insert_with(|| ManuallyDrop::new(H::new())))
        }
    }

    /// The body of the export `pre-inference`.
    pub fn pre_inference<H: Handler>(
        slot: &Slot<H>,
        sample: Sample,
        context: &types::Context,
    ) -> Result<Vec<Tensor>, types::Error> {
        let context = Context::from_host(context);
        slot.with(|handler| handler.pre_inference(sample, context)).map_err(|error| error.told(context))
    }

    /// The body of the export `post-inference`.
    pub fn post_inference<H: Handler>(
        slot: &Slot<H>,
        prediction: Vec<Tensor>,
        context: &types::Context,
    ) -> Result<Response, types::Error> {
        let context = Context::from_host(context);
        slot.with(|handler| handler.post_inference(prediction, context)).map_err(|error| error.told(context))
    }

    /// The body of the export `pre-inference-tensors`.
    pub fn pre_inference_tensors<H: Handler>(
        slot: &Slot<H>,
        sample: Vec<Tensor>,
        context: &types::Context,
    ) -> Result<Vec<Tensor>, types::Error> {
        let context = Context::from_host(context);
        slot.with(|handler| handler.pre_inference_tensors(sample, context))
            .map_err(|error| error.told(context))
    }

    /// The body of the export `post-inference-tensors`.
    pub fn post_inference_tensors<H: Handler>(
        slot: &Slot<H>,
        prediction: Vec<Tensor>,
        context: &types::Context,
    ) -> Result<Vec<Tensor>, types::Error> {
        let context = Context::from_host(context);
        slot.with(|handler| handler.post_inference_tensors(prediction, context))
            .map_err(|error| error.told(context))
    }

    /// The body of the export `respond`.
    pub fn respond<H: Handler>(
        slot: &Slot<H>,
        sample: Sample,
        context: &types::Context,
        output: Output,
    ) -> Result<Option<Response>, types::Error> {
        let context = Context::from_host(context);
        let request = Request::new(sample, context, output);
        let reply = slot.with(|handler| handler.respond(request)).map_err(|error| error.told(context))?;
        Ok(reply.into_response())
    }

    /// The body of the export `respond-all`.
    pub fn respond_all<H: Handler>(
        slot: &Slot<H>,
        (samples, contexts): (Vec<Sample>, Vec<types::Context>),
    ) -> Result<Vec<Result<Response, types::Error>>, types::Error> {
        let requests = samples
            .into_iter()
            .zip(&contexts)
            .map(|(sample, context)| Request::of_batch(sample, Context::from_host(context)))
            .collect();
        let responses = match slot.with(|handler| handler.respond_all(requests)) {
            Ok(responses) => responses,
            // Of all requests of the batch.
            Err(error) => {
                return Err(match contexts.first() {
                    Some(context) => error.told(Context::from_host(context)),
                    None => types::Error::Internal(error.to_string()),
                });
            }
        };
        // What are too few or too many stay so: the host says it.
        let contexts =
            contexts.iter().map(|context| Some(Context::from_host(context))).chain(iter::repeat(None));
        let told = |(response, context): (crate::Result<Response>, Option<&Context>)| {
            response.map_err(|error| match context {
                Some(context) => error.told(context),
                None => types::Error::Internal(error.to_string()),
            })
        };
        Ok(responses.into_iter().zip(contexts).map(told).collect())
    }

    /// Its paths.
    pub fn batched_paths<H: Handler>(_: &Slot<H>) -> Vec<String> {
        H::router().map(Router::batched_paths).unwrap_or_default()
    }

    /// The body of the export `websocket`.
    pub fn websocket<H: Handler>(
        slot: &Slot<H>,
        upgrade: websockets::Upgrade,
        context: &types::Context,
    ) -> Result<(), String> {
        let context = Context::from_host(context);
        slot.with(|handler| socket::serve(handler, context, upgrade.into()))
            .map_err(|error| error.to_string())
    }

    /// The body of the export `operations`.
    pub fn operations<H: Handler>(_: &Slot<H>) -> Vec<Operation> {
        H::router().map(Router::operations).unwrap_or_default()
    }

    /// The body of the export `init`.
    pub fn init<H: Handler>(slot: &Slot<H>, metadata: String) -> Result<(), String> {
        let outcome = slot.with(|handler| handler.init(&Metadata::new(metadata)));
        crate::metrics::init_has_run();
        crate::libc::release_handles();
        outcome.map_err(|error| error.to_string())
    }

    /// The body of the export `input-schema`.
    pub fn input_schema<H: Handler>(_: &Slot<H>) -> Vec<Input> {
        H::input_schema()
    }
}

#[cfg(target_family = "wasm")]
pub use slot::{
    Slot, batched_paths, init, input_schema, operations, post_inference, post_inference_tensors,
    pre_inference, pre_inference_tensors, respond, respond_all, websocket,
};
