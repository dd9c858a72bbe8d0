//! Tensors in JSON as JSON Schema: what the built-in conversion reads and writes, from a model's signature.
//!
//! Place in the flow: beside it; says of `json/read.rs`, `pipeline/verify.rs` and `json/write.rs` what they
//! take and give.
//! In: a signature. Out: schemas (draft 2020-12, which OpenAPI 3.1 uses) and an example.
//!
//! What they do not say: that lists of a free length are equally long, for JSON Schema cannot; and that any
//! nesting with as many elements as the input will do, for it is not needed: beside the input's own only the
//! flat one is listed.

use serde_json::{Map, Value, json};

use crate::schema::{self, Input, Schema};
use crate::tensor::{Datatype, Extent, Role, Signature, TensorSpec, element_count};

/// Longest example that is made up, in elements of one input.
const LONGEST_EXAMPLE: usize = 64;

/// A body as it is declared, with `null` for what need not be there. `as_it_came`: it goes to a handler,
/// which may not read what else the host lets pass (`schema/check.rs`): a list of one for a single value, the
/// bare value of the only input.
pub(super) fn declared(schema: &Schema, as_it_came: bool) -> Value {
    let value = |input: &Input| {
        let one = || json!({ "type": "array", "items": schema::element(input.datatype), "minItems": 1, "maxItems": 1 });
        let list = (input.is_scalar() && !as_it_came).then(one);
        [input.json_schema()].into_iter().chain(list)
    };
    let property = |input: &Input| {
        let absent = (!input.required).then(|| json!({ "type": "null" }));
        (input.name.to_string(), one_of(value(input).chain(absent)))
    };
    let properties: Map<String, Value> = schema.inputs.iter().map(property).collect();
    let required: Vec<&str> =
        schema.inputs.iter().filter(|input| input.required).map(|input| &*input.name).collect();
    let object = json!({ "type": "object", "properties": properties, "required": required });
    match schema.inputs.as_slice() {
        [only] if !as_it_came => one_of([object].into_iter().chain(value(only))),
        _ => object,
    }
}

/// Any text.
pub(in crate::server) fn text() -> Value {
    json!({ "type": "string" })
}

/// A list of any length.
pub(super) fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// An object that has all of these.
pub(super) fn object(properties: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

/// The inputs in any shape.
pub(super) fn shapeless(signature: &Signature) -> Signature {
    let mut signature = signature.clone();
    signature.inputs.iter_mut().for_each(|spec| spec.shape.clear());
    signature
}

/// A body that is the model's input.
pub(super) fn body(signature: &Signature) -> Value {
    let inputs = &signature.inputs;
    let properties: Map<String, Value> =
        inputs.iter().map(|spec| (spec.name.to_string(), input(spec))).collect();
    let names: Vec<&str> = signature.required().iter().map(|spec| &*spec.name).collect();
    let object = json!({ "type": "object", "properties": properties, "required": names });
    match signature.required() {
        [] if !inputs.is_empty() => object,
        // Nothing is read of it.
        [] => json!({}),
        [only] => json!({ "anyOf": [input(only), object] }),
        _ => object,
    }
}

/// A body that the model takes, made of zeros; `None` if it would be too long to be shown.
pub(super) fn example(signature: &Signature) -> Option<Value> {
    let inputs = signature.required();
    let zeros: Option<Vec<Value>> = inputs.iter().map(zeros).collect();
    let mut zeros = zeros?.into_iter();
    match inputs {
        [_] => zeros.next(),
        _ => Some(inputs.iter().map(|spec| spec.name.to_string()).zip(zeros).collect::<Map<_, _>>().into()),
    }
}

fn zeros(spec: &TensorSpec) -> Option<Value> {
    example_length(spec)?;
    let lists =
        |item: Value, extent: &u64| Value::Array((0..*extent).map(|_| item.clone()).collect::<Vec<_>>());
    Some(spec.smallest_shape().iter().rev().fold(zero(spec.datatype), lists))
}

/// How many elements an example of this input has; `None` if they are too many to be shown.
pub(super) fn example_length(spec: &TensorSpec) -> Option<usize> {
    element_count(&spec.smallest_shape()).filter(|elements| *elements <= LONGEST_EXAMPLE)
}

/// An element for examples.
pub(super) fn zero(datatype: Datatype) -> Value {
    match datatype {
        Datatype::Bool => json!(false),
        Datatype::Bytes => json!("text"),
        datatype if datatype.is_float() => json!(0.0),
        _ => json!(0),
    }
}

/// One element as it is read.
pub(super) fn element(datatype: Datatype) -> Value {
    let mut element = lone_element(datatype);
    if let (Value::Object(element), true) = (&mut element, datatype.is_float()) {
        // NaN has no other form in JSON.
        element.insert("type".to_owned(), json!(["number", "null"]));
    }
    element
}

/// One element in the place of a list; `null` would be no value there.
fn lone_element(datatype: Datatype) -> Value {
    match datatype {
        // A number is taken as it is written.
        Datatype::Bytes => json!({ "type": ["string", "number"] }),
        datatype => schema::element(datatype),
    }
}

/// One input: lists nested by its shape, or as many elements in one list.
fn input(spec: &TensorSpec) -> Value {
    let element = element(spec.datatype);
    let described = |mut schema: Value| {
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), spec.to_string().into());
        }
        schema
    };
    if spec.shape.is_empty() {
        // Models say the same for a scalar and for any shape.
        let lone = lone_element(spec.datatype);
        return described(json!({ "anyOf": [lone, { "type": "array", "items": element }] }));
    }
    let mut innermost = true;
    let nested = spec.shape.iter().rev().fold(element.clone(), |items, extent| {
        let mut list = json!({ "type": "array", "items": items });
        match extent {
            Extent::Fixed(extent) => bound(&mut list, *extent, *extent),
            // An empty list has no lists in it, so it has too few extents.
            Extent::Free(_) if !innermost => bound(&mut list, 1, u64::MAX),
            Extent::Free(_) => {}
        }
        innermost = false;
        list
    });
    let mut forms = vec![nested];
    let elements = element_count(&spec.smallest_shape());
    if let Some(elements @ 1..) = elements.filter(|_| spec.shape.len() > 1) {
        let mut flat = json!({ "type": "array", "items": element });
        bound(&mut flat, elements as u64, elements as u64);
        forms.push(flat);
    }
    if elements == Some(1) {
        forms.push(lone_element(spec.datatype));
    }
    described(one_of(forms.into_iter()))
}

fn bound(list: &mut Value, least: u64, most: u64) {
    if let Value::Object(list) = list {
        list.insert("minItems".to_owned(), least.into());
        if most < u64::MAX {
            list.insert("maxItems".to_owned(), most.into());
        }
    }
}

/// An answer that is the model's outputs, in its order.
pub(super) fn outputs(signature: &Signature) -> Value {
    let outputs: Vec<_> = signature.values().collect();
    let names: Vec<String> = outputs.iter().map(|(spec, _)| format!("`{}`", spec.name)).collect();
    let mut list = json!({ "type": "array", "description": format!("In this order: {}.", names.join(", ")) });
    if let (Value::Object(list), false) = (&mut list, outputs.is_empty()) {
        // Not `prefixItems`: few tools know it.
        list.insert("items".to_owned(), one_of(outputs.iter().map(|(spec, second)| output(spec, *second))));
    }
    bound(&mut list, outputs.len() as u64, outputs.len() as u64);
    list
}

/// Schemas of which any may be met; equal ones count once.
pub(super) fn one_of(schemas: impl Iterator<Item = Value>) -> Value {
    let mut different: Vec<Value> = Vec::new();
    for schema in schemas {
        if !different.contains(&schema) {
            different.push(schema);
        }
    }
    match different.as_slice() {
        [only] => only.clone(),
        _ => json!({ "anyOf": different }),
    }
}

/// One output, with the tensor that completes it. NaN and infinities are `null`; a tensor without elements is
/// `[]`, for any shape.
fn output(spec: &TensorSpec, second: Option<&TensorSpec>) -> Value {
    let description = format!("`{}`: {spec}", spec.name);
    match second.map(|second| second.role) {
        Some(Role::Labels) => {
            let map = json!({ "type": "object", "additionalProperties": { "type": ["number", "null"] } });
            let description = format!("`{}`: a list of maps", spec.name);
            return json!({ "type": "array", "items": map, "description": description });
        }
        Some(_) => {
            let description = format!("`{}`: a list of tensors", spec.name);
            return json!({ "type": "array", "items": {}, "description": description });
        }
        None => {}
    }
    if spec.shape.is_empty() {
        // Models say the same for a scalar and for any shape.
        return json!({ "description": description });
    }
    let element = match spec.datatype {
        datatype if datatype.is_float() => json!({ "type": ["number", "null"] }),
        Datatype::Bytes => json!({
            "anyOf": [
                { "type": "string" },
                { "type": "object", "properties": { "b64": { "type": "string" } }, "required": ["b64"] },
            ],
        }),
        datatype => schema::element(datatype),
    };
    let mut may_be_empty = false;
    let mut nested = spec.shape.iter().rev().fold(element, |items, extent| {
        let mut list = json!({ "type": "array", "items": items });
        match extent {
            Extent::Fixed(extent) => bound(&mut list, if may_be_empty { 0 } else { *extent }, *extent),
            Extent::Free(_) => may_be_empty = true,
        }
        list
    });
    if let Value::Object(nested) = &mut nested {
        nested.insert("description".to_owned(), description.into());
    }
    nested
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, datatype: Datatype, shape: &[i64]) -> TensorSpec {
        let extent =
            |extent: &i64| u64::try_from(*extent).map_or(Extent::Free(Some("N".into())), Extent::Fixed);
        TensorSpec {
            name: name.into(),
            datatype,
            shape: shape.iter().map(extent).collect(),
            role: Role::Plain,
        }
    }

    fn signature(inputs: Vec<TensorSpec>) -> Signature {
        Signature { inputs, outputs: Vec::new() }
    }

    #[test]
    fn an_input_may_be_nested_or_flat() {
        let number = element(Datatype::Fp32);
        assert_eq!(number["type"], json!(["number", "null"]));
        let four = json!({ "type": "array", "items": number, "minItems": 4, "maxItems": 4 });
        assert_eq!(
            input(&spec("x", Datatype::Fp32, &[-1, 4])),
            json!({
                "anyOf": [{ "type": "array", "items": four, "minItems": 1 }, four],
                "description": "FP32 [N, 4]",
            })
        );
        let boolean = json!({ "type": "boolean" });
        assert_eq!(
            input(&spec("x", Datatype::Bool, &[-1])),
            json!({ "anyOf": [{ "type": "array", "items": boolean }, boolean], "description": "BOOL [N]" })
        );
        assert_eq!(
            input(&spec("x", Datatype::Bool, &[3])),
            json!({ "type": "array", "items": boolean, "minItems": 3, "maxItems": 3, "description": "BOOL [3]" })
        );
    }

    #[test]
    fn examples_fit_and_are_short() {
        let check = |inputs, expected: Value| {
            assert_eq!(example(&signature(inputs)).unwrap_or_default(), expected);
        };
        check(vec![spec("x", Datatype::Fp32, &[-1, 4])], json!([[0.0, 0.0, 0.0, 0.0]]));
        check(vec![spec("x", Datatype::Bytes, &[])], json!("text"));
        let two = vec![spec("a", Datatype::Int8, &[2]), spec("b", Datatype::Bool, &[1])];
        check(two, json!({ "a": [0, 0], "b": [false] }));
        check(vec![spec("x", Datatype::Fp32, &[-1, 3, 224, 224])], Value::Null);
        check(vec![spec("x", Datatype::Fp32, &[1 << 40, 1 << 40])], Value::Null);
    }

    #[test]
    fn what_two_tensors_stand_for_is_one_output() {
        let signature = |role| {
            let second = TensorSpec { role, ..spec("y.more", Datatype::Int64, &[-1, -1]) };
            Signature { inputs: Vec::new(), outputs: vec![spec("y", Datatype::Fp32, &[-1, -1]), second] }
        };
        let maps = outputs(&signature(Role::Labels));
        assert_eq!((&maps["minItems"], &maps["maxItems"]), (&json!(1), &json!(1)));
        let map = json!({ "type": "object", "additionalProperties": { "type": ["number", "null"] } });
        assert_eq!(maps["items"]["items"], map);
        let list = outputs(&signature(Role::Shapes));
        assert_eq!((&list["maxItems"], &list["items"]["type"]), (&json!(1), &json!("array")));
    }

    #[test]
    fn outputs_without_elements_are_empty_lists() {
        let list = |least: u64| {
            output(&spec("y", Datatype::Int64, &[2, if least == 0 { -1 } else { 3 }]), None)["minItems"]
                .clone()
        };
        assert_eq!((list(0), list(2)), (json!(0), json!(2)));
    }
}
