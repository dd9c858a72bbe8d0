//! The members of a recording.
//!
//! Place in the flow: made by `writer.rs`, read by [`Recording::read`](super). The members of capabilities
//! are made of [their list](crate::plugin::capability_list): their calls, and what of them the handler was
//! granted.
//! Invariant: a member is never of another type than it was in a released format.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::calls::{ModelCall, NamedModel, Outbound};
use super::{Exchange, FORMAT, Outcome, Sent, Signature, Tensor, raw};
use crate::json::short_list::short_list;
use crate::plugin;
use crate::plugin::capabilities::{self, Grants, Stores};
use crate::plugin::capability::{Capability, RecordedGrant};
use crate::plugin::capability_list::each_capability;
use crate::plugin::host_call_log::{CapabilityCalls, RecordedCalls};
use crate::time::milliseconds;

macro_rules! recording {
    ($($name:ident: $capability:ident = $doc:literal
        $(, logs $call:ty as $draw:ident = $call_doc:literal)?;)*) => {
        /// One request.
        #[derive(Debug, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "docs/reference.md says what each member is")]
        pub struct Recording {
            pub format: u32,
            pub host: String,
            pub recorded: String,
            pub endpoint: String,
            pub handler: Handler,
            pub request: Sent,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub signature: Option<Signature>,
            /// The tensors that `pre-inference-tensors` got, unless the request brought them.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub sample: Option<Vec<Tensor>>,
            pub drawn: RecordedCalls,
            /// `None` if the request never came as far.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub model: Option<Exchange>,
            /// The models that the handler may call by itself.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub models: Vec<NamedModel>,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub model_calls: Vec<ModelCall>,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub outbound: Vec<Outbound>,
            $($(
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                pub $name: Vec<$call>,
            )?)*
            /// The tensors that `post-inference-tensors` made, where the host made the response of them.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub answer: Option<Vec<Tensor>>,
            pub outcome: Outcome,
        }

        impl Recording {
            /// With what every recording has, and the calls of capabilities.
            pub(in crate::capture) fn begin(
                (endpoint, recorded): (String, String),
                handler: Handler,
                request: Sent,
                drawn: RecordedCalls,
                calls: CapabilityCalls,
                outcome: Outcome,
            ) -> Recording {
                Recording {
                    format: FORMAT,
                    host: env!("CARGO_PKG_VERSION").to_owned(),
                    recorded,
                    endpoint,
                    handler,
                    request,
                    signature: None,
                    sample: None,
                    drawn,
                    model: None,
                    models: Vec::new(),
                    model_calls: Vec::new(),
                    outbound: Vec::new(),
                    $($($name: Vec::<$call>::from(calls.$name),)?)*
                    answer: None,
                    outcome,
                }
            }

            /// Takes the calls of capabilities out of it.
            pub(in crate::capture) fn take_calls(&mut self) -> CapabilityCalls {
                CapabilityCalls { $($($name: std::mem::take::<Vec<$call>>(&mut self.$name),)?)* }
            }
        }

        /// The handler and what it was given once and for all.
        #[derive(Debug, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "docs/reference.md says what each member is")]
        pub struct Handler {
            pub digest: String,
            pub contract: String,
            #[serde(deserialize_with = "short_list")]
            pub functions: Vec<String>,
            pub isolation: String,
            pub network: String,
            #[serde(default, deserialize_with = "short_list", skip_serializing_if = "Vec::is_empty")]
            pub response_headers: Vec<String>,
            pub project: Option<String>,
            pub metadata: Box<RawValue>,
            pub memory: usize,
            pub output: usize,
            pub pre_timeout_ms: u64,
            pub post_timeout_ms: u64,
            /// Since format 2.
            #[serde(default)]
            pub tensors: usize,
            #[serde(default)]
            pub tensor_memory: usize,
            #[serde(default)]
            pub model_runs: u32,
            $(
                #[serde(default, skip_serializing_if = "RecordedGrant::is_left_out")]
                pub $name: <capabilities::$capability as Capability>::Recorded,
            )*
        }

        impl Handler {
            pub(in crate::capture) fn of(plugin: &plugin::Plugin) -> Handler {
                let config = plugin.config();
                Handler {
                    digest: plugin.digest().to_string(),
                    contract: plugin::CONTRACT.to_owned(),
                    functions: plugin.stages().functions().map(str::to_owned).collect(),
                    isolation: config.isolation.name().to_owned(),
                    network: config.network.name().to_owned(),
                    response_headers: config.response_headers.to_vec(),
                    project: plugin.project_digest().map(str::to_owned),
                    metadata: raw(&config.metadata).unwrap_or_else(|| RawValue::NULL.to_owned()),
                    memory: config.limits.memory,
                    output: config.limits.output,
                    pre_timeout_ms: milliseconds(config.limits.pre_timeout),
                    post_timeout_ms: milliseconds(config.limits.post_timeout),
                    tensors: config.limits.tensors,
                    tensor_memory: config.limits.tensor_memory,
                    model_runs: config.limits.model_runs,
                    $($name: capabilities::$capability::recorded(config.grants.$name.as_ref()),)*
                }
            }

            /// The capabilities of a replay, where every call is answered by the recording.
            pub(in crate::capture) fn grants(&self, stores: &Stores) -> Grants {
                Grants { $($name: capabilities::$capability::replayed(&self.$name, &stores.$name),)* }
            }
        }
    };
}

each_capability!(recording);
