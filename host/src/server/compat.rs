//! What the clients of single vendors expect beyond the protocols: headers, codes, messages, paths of their
//! own.
//!
//! Place in the flow: beside the protocols, which call in here where a vendor's clients differ. A request
//! that is none of theirs does nothing in here.
//! [`cortex`]: Cortex's AsyncAPI, [`cortex_batch`] its BatchAPI; [`potassium`]: banana's Potassium;
//! [`truss`] and [`pydantic_messages`]: Baseten's Truss, [`truss_async`] its asynchronous calls;
//! [`tf_serving`]: the JSON of TensorFlow Serving's and KServe's first protocol; [`openai`]: OpenAI's
//! errors and list of models.

pub(super) mod cortex;
pub(super) mod cortex_batch;
pub(super) mod openai;
pub(super) mod potassium;
pub(super) mod pydantic_messages;
pub(super) mod tf_serving;
pub(super) mod truss;
pub(super) mod truss_async;

use crate::workers::MessageForm;

/// The forms of webhooks' messages beside the server's own.
pub const MESSAGE_FORMS: &[&dyn MessageForm] = &[&truss_async::Message];
