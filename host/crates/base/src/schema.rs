//! What an endpoint takes, as declared: by its configuration, or by its handler.
//!
//! Place in the flow: held against every request before the handler runs ([`check`]); the source of an
//! endpoint's documentation and of the example that is tried before it serves.
//! In: names, datatypes, shapes, examples. Out: whether a request fits, tensors, a JSON Schema of the body.
//! Invariant: a [`Schema`] that serves has passed [`Schema::errors`], so its examples fit and its size is
//! bounded.

pub mod check;
pub mod raw_body;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};
use serde_json::{Map, Value, json};

use crate::error::Violation;
use crate::tensor::{Datatype, Extent, LARGEST_RANK, Role, Signature, TensorSpec};

/// Most inputs of an endpoint.
pub const MOST_INPUTS: usize = 100;
/// Longest name of an input, in bytes.
const LONGEST_NAME: usize = 256;

/// The inputs of an endpoint, in the order they were declared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// Each of them; names are unique.
    pub inputs: Vec<Input>,
}

/// One input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its key in a JSON body, its name in a request of the Open Inference Protocol.
    pub name: Arc<str>,
    /// Its element type; BYTES are text in JSON.
    pub datatype: Datatype,
    /// Extents, outermost first; -1 for any. `[1]` is a scalar: in JSON the bare value.
    pub shape: Vec<i64>,
    /// Whether a request without it is refused.
    pub required: bool,
    /// A value; there is one if the input is required.
    pub example: Option<Value>,
    /// For people; may be empty.
    pub description: String,
}

impl Schema {
    /// The body as JSON Schema (draft 2020-12, which OpenAPI 3.1 uses): an object with a property for each
    /// input.
    pub fn json_schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.inputs.iter().map(|input| (input.name.to_string(), input.json_schema())).collect();
        let required: Vec<&str> =
            self.inputs.iter().filter(|input| input.required).map(|input| &*input.name).collect();
        json!({ "type": "object", "properties": properties, "required": required })
    }

    /// A body made of the examples; `None` if there are none, or a required input has none.
    pub fn example(&self) -> Option<Value> {
        if self.inputs.iter().any(|input| input.required && input.example.is_none()) {
            return None;
        }
        let example = |input: &Input| Some((input.name.to_string(), input.example.clone()?));
        let examples: Map<String, Value> = self.inputs.iter().filter_map(example).collect();
        (!examples.is_empty()).then_some(Value::Object(examples))
    }

    /// The inputs as those of a model, in their order but for the optional ones, which come last.
    pub fn signature(&self) -> Signature {
        let extent = |extent: &i64| u64::try_from(*extent).map_or(Extent::Free(None), Extent::Fixed);
        let spec = |input: &Input| TensorSpec {
            name: input.name.clone(),
            datatype: input.datatype,
            shape: input.shape.iter().map(extent).collect(),
            role: if input.required { Role::Plain } else { Role::Optional },
        };
        let mut inputs: Vec<_> = self.inputs.iter().map(spec).collect();
        inputs.sort_by_key(|input| input.role);
        Signature { inputs, outputs: Vec::new() }
    }

    /// Everything that is wrong with the declaration.
    pub fn errors(&self) -> Vec<SchemaError> {
        if self.inputs.len() > MOST_INPUTS {
            return vec![SchemaError::Inputs(self.inputs.len())];
        }
        let mut names = HashSet::new();
        let twice = self.inputs.iter().filter(|input| !names.insert(&input.name));
        let twice = twice.map(|input| SchemaError::Twice(input.name.clone()));
        self.inputs.iter().flat_map(Input::errors).chain(twice).collect()
    }
}

/// A defect of a declared input. The text is for the author of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaError {
    /// There are more than [`MOST_INPUTS`].
    Inputs(usize),
    /// Two have this name.
    Twice(Arc<str>),
    /// It cannot be called so.
    Name(Arc<str>),
    /// An extent is less than -1, or there are more than [`LARGEST_RANK`].
    Shape(Arc<str>),
    /// It is required and has no example.
    NoExample(Arc<str>),
    /// Its example is none.
    Example(Violation),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaError::Inputs(count) => write!(f, "{count} inputs, more than {MOST_INPUTS}"),
            SchemaError::Twice(name) => write!(f, "input `{}`: declared twice", check::printable(name)),
            SchemaError::Name(name) => write!(f, "`{}` cannot be an input's name", check::printable(name)),
            SchemaError::Shape(name) => {
                let name = check::printable(name);
                write!(f, "input `{name}`: a shape is at most {LARGEST_RANK} extents of 0 and more, or -1")
            }
            SchemaError::NoExample(name) => {
                write!(f, "example not specified for input --> {}", check::printable(name))
            }
            SchemaError::Example(violation) => write!(f, "the example does not fit: {violation}"),
        }
    }
}

impl Input {
    /// Everything that is wrong with its declaration; the example is judged if the rest is fine.
    pub fn errors(&self) -> Vec<SchemaError> {
        let name = || self.name.clone();
        let mut errors = Vec::new();
        if self.name.is_empty() || self.name.len() > LONGEST_NAME || self.name.chars().any(char::is_control) {
            errors.push(SchemaError::Name(name()));
        }
        if self.shape.len() > LARGEST_RANK || self.shape.iter().any(|extent| *extent < -1) {
            errors.push(SchemaError::Shape(name()));
        }
        match &self.example {
            None if self.required => errors.push(SchemaError::NoExample(name())),
            Some(example) if errors.is_empty() => {
                errors.extend(check::value(self, &example.to_string()).err().map(SchemaError::Example));
            }
            _ => {}
        }
        errors
    }

    /// Whether its value in JSON is bare, not a list.
    pub fn is_scalar(&self) -> bool {
        matches!(self.shape.as_slice(), [] | [1])
    }

    /// Its value as JSON Schema.
    pub fn json_schema(&self) -> Value {
        let element = element(self.datatype);
        let nest = |items: Value, extent: &i64| match u64::try_from(*extent) {
            Ok(extent) => json!({ "type": "array", "items": items, "minItems": extent, "maxItems": extent }),
            Err(_) => json!({ "type": "array", "items": items }),
        };
        let mut schema = if self.is_scalar() { element } else { self.shape.iter().rev().fold(element, nest) };
        if let Value::Object(schema) = &mut schema {
            if !self.description.is_empty() {
                schema.insert("description".to_owned(), self.description.clone().into());
            }
            if let Some(example) = &self.example {
                schema.insert("examples".to_owned(), json!([example]));
            }
        }
        schema
    }
}

/// One element as JSON Schema: what may be written, so numbers only as large as the datatype holds.
pub fn element(datatype: Datatype) -> Value {
    let integer = |least: i128, most: i128| {
        let bound = |bound: i128| {
            i64::try_from(bound).map(Value::from).or_else(|_| u64::try_from(bound).map(Value::from))
        };
        json!({
            "type": "integer",
            "minimum": bound(least).unwrap_or_default(),
            "maximum": bound(most).unwrap_or_default(),
        })
    };
    let number = |most: f64| json!({ "type": "number", "minimum": -most, "maximum": most });
    match datatype {
        Datatype::Bool => json!({ "type": "boolean" }),
        Datatype::Uint8 => integer(0, u8::MAX.into()),
        Datatype::Uint16 => integer(0, u16::MAX.into()),
        Datatype::Uint32 => integer(0, u32::MAX.into()),
        Datatype::Uint64 => integer(0, u64::MAX.into()),
        Datatype::Int8 => integer(i8::MIN.into(), i8::MAX.into()),
        Datatype::Int16 => integer(i16::MIN.into(), i16::MAX.into()),
        Datatype::Int32 => integer(i32::MIN.into(), i32::MAX.into()),
        Datatype::Int64 => integer(i64::MIN.into(), i64::MAX.into()),
        Datatype::Fp16 => number(f16::MAX.into()),
        Datatype::Bf16 => number(bf16::MAX.into()),
        // The largest that rounds to a finite one: half a unit beyond the largest of FP32 begins infinity.
        Datatype::Fp32 => number(3.402_823_567_797_336_6e38),
        Datatype::Fp64 => json!({ "type": "number" }),
        Datatype::Bytes => json!({ "type": "string" }),
    }
}

#[cfg(test)]
mod tests;
