//! Declarations in; their errors, their documentation and their example out.

use super::*;

fn input(name: &str, datatype: Datatype, shape: &[i64], example: Option<Value>) -> Input {
    let description = String::new();
    Input { name: name.into(), datatype, shape: shape.to_vec(), required: true, example, description }
}

fn errors(inputs: Vec<Input>) -> Vec<String> {
    Schema { inputs }.errors().iter().map(SchemaError::to_string).collect()
}

#[test]
fn a_declaration_is_sound_or_its_flaws_are_named() {
    let scalar = |name: &str| input(name, Datatype::Int8, &[1], Some(json!(1)));
    assert_eq!(errors(vec![]), [""; 0]);
    assert_eq!(errors((0..MOST_INPUTS).map(|n| scalar(&n.to_string())).collect()), [""; 0]);
    let many = (0..=MOST_INPUTS).map(|n| scalar(&n.to_string())).collect();
    assert_eq!(errors(many), ["101 inputs, more than 100"]);
    assert_eq!(errors(vec![scalar("a"), scalar("b"), scalar("a")]), ["input `a`: declared twice"]);
    assert_eq!(errors(vec![scalar("")]), ["`` cannot be an input's name"]);
    assert_eq!(errors(vec![scalar("a\nb")]), ["`a\\nb` cannot be an input's name"]);
    let long = "x".repeat(LONGEST_NAME);
    assert_eq!(errors(vec![scalar(&long)]), [""; 0]);
    assert_eq!(errors(vec![scalar(&(long + "x"))]).len(), 1);
    let shape = "input `a`: a shape is at most 32 extents of 0 and more, or -1";
    assert_eq!(errors(vec![input("a", Datatype::Int8, &[-2], Some(json!([])))]), [shape]);
    assert_eq!(errors(vec![input("a", Datatype::Int8, &[1; 33], Some(json!([])))]), [shape]);
    assert_eq!(
        errors(vec![input("a", Datatype::Int8, &[-1], None)]),
        ["example not specified for input --> a"]
    );
    assert_eq!(errors(vec![Input { required: false, ..input("a", Datatype::Int8, &[-1], None) }]), [""; 0]);
    assert_eq!(
        errors(vec![input("width", Datatype::Int8, &[1], Some(json!(768)))]),
        ["the example does not fit: input `width`: 768 is out of range for INT8"]
    );
    assert_eq!(
        errors(vec![input("x", Datatype::Fp32, &[2, -1], Some(json!([[1], [2], [3]])))]),
        ["the example does not fit: input `x`: expected FP32 [2, -1], got FP32 [3, 1]"]
    );
}

#[test]
fn an_example_is_a_body() {
    let text = input("prompt", Datatype::Bytes, &[1], Some(json!("hi")));
    let list = Input { required: false, ..input("list", Datatype::Int32, &[-1], Some(json!([1, 2]))) };
    let without = Input { required: false, ..input("n", Datatype::Int32, &[1], None) };
    let schema = |inputs: &[&Input]| Schema { inputs: inputs.iter().copied().cloned().collect() };
    let example = |inputs: &[&Input]| schema(inputs).example();
    assert_eq!(example(&[&text, &list, &without]), Some(json!({"prompt": "hi", "list": [1, 2]})));
    assert_eq!(example(&[&without]), None, "there is nothing to show");
    assert_eq!(example(&[&text, &input("x", Datatype::Int8, &[1], None)]), None);
    let schema = schema(&[&text, &list, &without]);
    let body = schema.example().unwrap().to_string();
    assert_eq!(check::body(&schema, body.as_bytes()), Ok(()));
    let signature = schema.signature();
    let specs: Vec<String> = signature.inputs.iter().map(|spec| format!("{} {spec}", spec.name)).collect();
    assert_eq!(specs, ["prompt BYTES [1]", "list INT32 [-1]", "n INT32 [1]"]);
}

#[test]
fn a_schema_is_a_json_schema() {
    let text = Input {
        description: "what to say".to_owned(),
        ..input("prompt", Datatype::Bytes, &[1], Some(json!("hi")))
    };
    let rows = Input { required: false, ..input("rows", Datatype::Int8, &[-1, 2], None) };
    let half = Input { required: false, ..input("half", Datatype::Fp16, &[], None) };
    let schema = Schema { inputs: vec![text, rows, half] };
    assert_eq!(
        schema.json_schema(),
        json!({
            "type": "object",
            "properties": {
                "prompt": { "type": "string", "description": "what to say", "examples": ["hi"] },
                "rows": {
                    "type": "array",
                    "items": {
                        "type": "array",
                        "items": { "type": "integer", "minimum": -128, "maximum": 127 },
                        "minItems": 2,
                        "maxItems": 2,
                    },
                },
                "half": { "type": "number", "minimum": -65504.0, "maximum": 65504.0 },
            },
            "required": ["prompt"],
        })
    );
}
