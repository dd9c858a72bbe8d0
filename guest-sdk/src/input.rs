//! What a handler takes, declared: the values of [`Handler::input_schema`](crate::Handler::input_schema).
//!
//! In: a name, a datatype, a shape, an example. Out: the contract's record, which the host checks when it
//! loads the handler.

use serde::Serialize;

use crate::{Datatype, Input};

impl Input {
    /// A required input. `[1]` is a scalar: in JSON the bare value; -1 is any extent.
    ///
    /// A required input needs an [`example`](Input::example) too.
    ///
    /// ```
    /// # use modelhost_guest::{Datatype, Input};
    /// let inputs = [
    ///     Input::new("prompt", Datatype::Bytes, [1]).example("a cat").description("what to draw"),
    ///     Input::new("sizes", Datatype::Int32, [-1]).example([512, 768]).optional(),
    /// ];
    /// ```
    pub fn new(name: impl Into<String>, datatype: Datatype, shape: impl Into<Vec<i64>>) -> Input {
        Input {
            name: name.into(),
            datatype,
            shape: shape.into(),
            required: true,
            example: None,
            description: String::new(),
        }
    }

    /// A request may come without it.
    #[must_use]
    pub fn optional(mut self) -> Input {
        self.required = false;
        self
    }

    /// A value of it: documentation, and tried out with the other examples when the handler is loaded.
    ///
    /// # Panics
    /// If `value` cannot be written as JSON.
    #[must_use]
    pub fn example(mut self, value: impl Serialize) -> Input {
        #[expect(clippy::expect_used, reason = "documented; a literal of the handler's author")]
        let json = serde_json::to_string(&value).expect("a value that JSON can hold");
        self.example = Some(json);
        self
    }

    /// Its description, for people.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Input {
        self.description = text.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_says_what_was_declared() {
        let bare = Input::new("prompt", Datatype::Bytes, [1]);
        let expected = Input {
            name: "prompt".into(),
            datatype: Datatype::Bytes,
            shape: vec![1],
            required: true,
            example: None,
            description: String::new(),
        };
        assert_eq!(bare, expected);
        let full = Input::new("prompt", Datatype::Bytes, []).optional().example("a \"cat\"").description("x");
        let expected = Input {
            shape: Vec::new(),
            required: false,
            example: Some(r#""a \"cat\"""#.into()),
            description: "x".into(),
            ..expected
        };
        assert_eq!(full, expected);
    }

    #[test]
    fn examples_are_json() {
        let json = |value: serde_json::Value| Input::new("x", Datatype::Fp32, [-1]).example(value).example;
        for text in ["1.5", "[1,2]", "true", "[[1],[2]]", "null"] {
            assert_eq!(json(serde_json::from_str(text).unwrap()).as_deref(), Some(text));
        }
        assert_eq!(Input::new("x", Datatype::Int8, [2]).example([1, 2]).example.as_deref(), Some("[1,2]"));
    }
}
