//! The key of a request in the response cache.
//!
//! | part | why |
//! |---|---|
//! | the generation | handler and models: each change of either makes another one |
//! | the model's name, and the query | which model and version the request goes to |
//! | the input: body, its form and its content type; or tensors (name, datatype, shape, data) and parameters | what is computed on |
//! | with a handler: method, path, and the headers that the configuration names, `content-type` among them | it may ask for them |
//!
//! Invariant: requests of equal keys are equal in all that a generation gets of a request, but for what the
//! run notes as a [dependency](crate::request::dependencies). A key is SHA-256 of these, each with its length
//! before it: no client finds another request of the same key.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::blocking;
use crate::endpoint::generation::Generation;
use crate::request::{Form, Input, Request, TensorInput};

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a request that runs on `generation`; `headers`: those that are part of it.
    pub(super) fn of(request: &Request, generation: &Generation, headers: &Arc<[String]>) -> Key {
        let mut parts = Parts(Sha256::new());
        parts.0.update(generation.id.to_le_bytes());
        let choice = request.model.as_ref();
        parts.text(choice.map_or("", |choice| &choice.name));
        let version = choice.and_then(|choice| choice.version).map(|version| version.to_string());
        parts.optional(version.as_deref());
        parts.text(request.head.query());
        if generation.pipeline.plugin.is_some() {
            parts.text(request.head.method());
            parts.text(request.head.path());
            for name in headers.iter() {
                parts.optional(request.head.header_or_similar(name));
            }
        }
        match &request.input {
            Input::Body(body, form) => {
                parts.0.update([match form {
                    Form::Plain => 0,
                    Form::Serving(_) => 1,
                }]);
                parts.optional(request.head.header("content-type"));
                blocking::if_large(body.len(), || parts.bytes(body));
            }
            Input::Tensors(input) => {
                parts.0.update([2]);
                let data: usize = input.tensors.iter().map(|tensor| tensor.data.len()).sum();
                let parameters = input.parameters.as_deref().map_or(0, str::len);
                blocking::if_large(data + parameters, || parts.tensors(input));
            }
            Input::Exchange(_) | Input::Socket(_) => parts.0.update([3]),
        }
        Key(parts.0.finalize().into())
    }

    /// Any number, the same for the same key.
    pub(super) fn number(&self) -> usize {
        let [first, second, third, fourth, ..] = self.0;
        u32::from_le_bytes([first, second, third, fourth]) as usize
    }

    #[cfg(test)]
    pub(super) fn numbered(number: u8) -> Key {
        Key([number; 32])
    }
}

struct Parts(Sha256);

impl Parts {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.0.update([u8::from(text.is_some())]);
        self.text(text.unwrap_or_default());
    }

    fn tensors(&mut self, input: &TensorInput) {
        self.0.update((input.tensors.len() as u64).to_le_bytes());
        for tensor in &input.tensors {
            self.text(&tensor.name);
            self.text(tensor.datatype.name());
            self.0.update((tensor.shape.len() as u64).to_le_bytes());
            tensor.shape.iter().for_each(|extent| self.0.update(extent.to_le_bytes()));
            self.bytes(&tensor.data);
        }
        self.optional(input.parameters.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::pipeline::Pipeline;
    use crate::pipeline::models::Models;
    use crate::request::{Caller, PlainHead};
    use crate::tensor::{Datatype, Tensor};

    fn generation() -> Generation {
        let pipeline = Pipeline {
            plugin: None,
            models: Models::default(),
            schema: None,
            raw_body: None,
            bare_tensors: false,
            batches: None,
        };
        Generation::new(1, pipeline, None)
    }

    fn request(query: &str, content_type: &str, input: Input) -> Request {
        let mut head = PlainHead::post("/iris", content_type);
        head.query = query.to_owned();
        let now = Instant::now();
        Request {
            id: "id".into(),
            caller: Caller::Client,
            trace: None,
            head: Box::new(head),
            input,
            model: None,
            arrived: now,
            deadline: now,
            debug: false,
            body_limit: 1,
            memory: crate::memory::Account::default(),
        }
    }

    fn tensors(name: &str, shape: &[u64], data: &'static [u8]) -> Input {
        let tensor = Tensor::new(name.into(), Datatype::Uint8, shape.to_vec(), data.into()).unwrap();
        Input::Tensors(TensorInput::new(vec![tensor], None))
    }

    fn parameters(text: &str) -> Input {
        Input::Tensors(TensorInput::new(Vec::new(), Some(text.into())))
    }

    #[test]
    fn equal_requests_have_equal_keys_and_no_others() {
        let (one, other) = (generation(), generation());
        let plain = |text: &'static str| Input::Body(text.into(), Form::Plain);
        let key = |generation: &Generation, query: &str, content_type: &str, input: Input| {
            Key::of(&request(query, content_type, input), generation, &Arc::default())
        };
        let all = [
            key(&one, "", "a/b", plain("x")),
            key(&other, "", "a/b", plain("x")),
            key(&one, "v=1", "a/b", plain("x")),
            key(&one, "", "a/c", plain("x")),
            key(&one, "", "a/b", plain("xx")),
            key(&one, "", "", tensors("a", &[2], b"xx")),
            key(&one, "", "", tensors("b", &[2], b"xx")),
            key(&one, "", "", tensors("a", &[2, 1], b"xx")),
            key(&one, "", "", tensors("a", &[2], b"xy")),
            key(&one, "", "", parameters("{}")),
            key(&one, "", "", parameters(&" ".repeat(blocking::LARGE))),
        ];
        for (at, key) in all.iter().enumerate() {
            assert!(!all[..at].contains(key), "{at}");
        }
        assert_eq!(all[0], key(&one, "", "a/b", plain("x")));
        // Without a handler nothing asks for the type of tensors.
        assert_eq!(all[5], key(&one, "", "a/b", tensors("a", &[2], b"xx")));
    }
}
