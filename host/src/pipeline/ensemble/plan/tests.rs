//! Plans of ensembles, and everything that can be wrong with one.

use super::*;
use crate::tensor::Datatype;

fn spec(text: &str) -> TensorSpec {
    let (name, rest) = text.split_once(' ').unwrap();
    let (datatype, shape) = rest.split_once(' ').unwrap_or((rest, ""));
    let (datatype, role) = match datatype.strip_suffix('?') {
        Some(datatype) => (datatype, Role::Optional),
        None => (datatype, Role::Plain),
    };
    let extent = |text: &str| text.parse().map_or_else(|_| Extent::Free(Some(text.into())), Extent::Fixed);
    let shape = shape.split(',').filter(|text| !text.is_empty()).map(extent).collect();
    TensorSpec { name: name.into(), datatype: Datatype::named(datatype).unwrap(), shape, role }
}

fn member(name: &str, inputs: &[&str], outputs: &[&str]) -> Member {
    let specs = |texts: &[&str]| texts.iter().map(|text| spec(text)).collect();
    let signature = Signature { inputs: specs(inputs), outputs: specs(outputs) };
    Member { name: name.into(), signature: Arc::new(signature), handle: None }
}

/// `embed: tokens=text -> vector=v`
fn step(text: &str) -> StepConfig {
    let (model, maps) = text.split_once(':').unwrap();
    let (inputs, outputs) = maps.split_once("->").unwrap_or((maps, ""));
    let map = |text: &str| {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(from, to)| (from.to_owned(), to.to_owned())).collect()
    };
    StepConfig { model: model.to_owned(), input_map: map(inputs), output_map: map(outputs) }
}

fn plan(inputs: &str, outputs: &str, steps: &[&str]) -> Result<Plan, Vec<String>> {
    let members = [
        member("embed", &["tokens INT64 n,8"], &["vector FP32 n,4", "length INT64 n"]),
        member("head", &["x FP32 n,4", "bias FP32? 4"], &["label INT64 n", "score FP32 n"]),
        member("wide", &["x FP32 n,5"], &["y FP32 n,5"]),
        member("same", &["x FP32"], &["x FP32"]),
        member("flat", &["x FP32 2,2"], &["y FP32 4"]),
        member("pair", &["a FP32 2"], &["sum FP32 2"]),
    ];
    let names = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let steps = steps.iter().map(|text| step(text)).collect();
    Plan::new(&EnsembleConfig { inputs: names(inputs), outputs: names(outputs), steps }, &members)
}

fn shown(specs: &[TensorSpec]) -> String {
    specs.iter().map(|spec| format!("{} {spec}", spec.name)).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_plan_has_a_signature_of_its_own() {
    for (inputs, outputs, steps, expected) in [
        (
            "text",
            "score label",
            &["embed: tokens=text -> vector=v", "head: x=v"][..],
            ["text INT64 [n, 8]", "score FP32 [n]; label INT64 [n]"],
        ),
        // In any order, by the models' own names where the configuration has none.
        ("tokens", "score", &["head: x=vector", "embed:"], ["tokens INT64 [n, 8]", "score FP32 [n]"]),
        // An input of two models is as narrow as both; one that may be left out comes last.
        (
            "bias x",
            "label y",
            &["same: -> x=y", "head:"],
            ["x FP32 [n, 4]; bias FP32 [4]", "label INT64 [n]; y FP32 []"],
        ),
        ("x", "b", &["flat: -> y=a", "flat: x=a -> y=b"], ["x FP32 [2, 2]", "b FP32 [4]"]),
        ("x", "label", &["flat: -> y=a", "head: x=a"], ["x FP32 [2, 2]", "label INT64 [n]"]),
    ] {
        let plan = plan(inputs, outputs, steps).unwrap_or_else(|problems| panic!("{problems:?}"));
        let signature = &plan.signature;
        assert_eq!([shown(&signature.inputs), shown(&signature.outputs)], expected, "{steps:?}");
    }
}

#[test]
fn every_problem_is_a_line_with_a_hint() {
    for (inputs, outputs, steps, expected) in [
        (
            "text",
            "y",
            &["embde: tokens=text"][..],
            &[
                "there is no model `embde`; hint: did you mean `embed`?",
                "output `y` is made by no step; hint: there are none",
            ][..],
        ),
        (
            "text",
            "length",
            &["embed: tokens=text token=text -> vectr=v length=length"],
            &[
                "model `embed` has no input `token`; hint: did you mean `tokens`?",
                "model `embed` has no output `vectr`; hint: did you mean `vector`?",
            ],
        ),
        (
            "text",
            "label",
            &["embed: tokens=txet -> vector=v", "head: x=v"],
            &[
                "input `tokens` of `embed` takes tensor `txet`, which no step makes and which is none of `inputs`; \
               hint: did you mean `text`?",
            ],
        ),
        (
            "tokens more",
            "label",
            &["embed: -> vector=v length=l", "head: x=v"],
            &[
                "input `more` is taken by no step; hint: leave it out of `inputs`",
                "tensor `l` is taken by no step and is none of `outputs`; hint: leave it out of `output_map`",
            ],
        ),
        (
            "tokens",
            "label",
            &["embed: -> vector=v", "head: x=v", "same: x=v"],
            &["step `same` makes nothing that is taken; hint: leave it out, or take one of its outputs"],
        ),
        (
            "tokens",
            "y",
            &["embed:", "wide: x=vector"],
            &[
                "tensor `vector` is FP32 [n, 4] from `embed`, and input `x` of `wide` takes FP32 [n, 5]; hint: put a \
               model between them that converts it",
            ],
        ),
        (
            "tokens",
            "label",
            &["embed:", "head: x=length"],
            &[
                "tensor `length` is INT64 [n] from `embed`, and input `x` of `head` takes FP32 [n, 4]; hint: put a \
               model between them that converts it",
            ],
        ),
        (
            "z",
            "b z",
            &["same: x=b -> x=a", "same: x=a -> x=b"],
            &["output `z` is an input; hint: leave it out"],
        ),
        (
            "",
            "b",
            &["same: x=b -> x=a", "same: x=a -> x=b"],
            &[
                "steps wait for each other: `same`, `same`; hint: one of them has to take what is there before",
            ],
        ),
        (
            "x",
            "label y",
            &["head:", "wide:"],
            &["input `x` would have to be FP32 [n, 4] and FP32 [n, 5]; hint: make two inputs of it"],
        ),
        (
            "a",
            "label",
            &["pair:", "head: x=sum"],
            &[
                "tensor `sum` is FP32 [2] from `pair`, and input `x` of `head` takes FP32 [n, 4]; hint: put a \
               model between them that converts it",
            ],
        ),
        ("x", "y y", &["flat:"], &["output `y` is there twice; hint: leave it out"]),
        (
            "x z",
            "y",
            &["flat:", "wide: x=z"],
            &["there are two tensors `y`; hint: give one of them another name in `output_map`"],
        ),
    ] {
        let problems = plan(inputs, outputs, steps).err().unwrap_or_default();
        assert_eq!(problems, expected, "{steps:?}");
    }
}
