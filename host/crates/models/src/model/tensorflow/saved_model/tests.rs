//! The signature rule, specs and refusals, on files that the tests write or TensorFlow wrote: no library is
//! needed.

use super::super::proto::{Dim, MetaInfoDef, Unread};
use super::*;
use std::fs;

fn info(name: &str, dtype: i32, extents: &[i64]) -> TensorInfo {
    let dim = extents.iter().map(|size| Dim { size: *size }).collect();
    let shape = TensorShapeProto { dim, unknown_rank: false };
    TensorInfo { name: Some(name.to_owned()), dtype, tensor_shape: Some(shape), ..TensorInfo::default() }
}

fn signature(inputs: &[(&str, TensorInfo)], outputs: &[(&str, TensorInfo)]) -> SignatureDef {
    let map = |infos: &[(&str, TensorInfo)]| {
        infos.iter().map(|(name, info)| ((*name).to_owned(), info.clone())).collect()
    };
    SignatureDef { inputs: map(inputs), outputs: map(outputs), ..SignatureDef::default() }
}

/// A signature whose only output is called `name`.
fn returning(name: &str) -> SignatureDef {
    signature(&[], &[(name, info("op:0", 1, &[]))])
}

fn graph(tags: &[&str], signatures: &[(&str, SignatureDef)]) -> MetaGraphDef {
    MetaGraphDef {
        meta_info_def: Some(MetaInfoDef { tags: tags.iter().map(|tag| (*tag).to_owned()).collect() }),
        signature_def: signatures
            .iter()
            .map(|(key, signature)| ((*key).to_owned(), signature.clone()))
            .collect(),
        ..MetaGraphDef::default()
    }
}

/// Reads what a file with these graphs says.
fn read(graphs: &[MetaGraphDef], key: Option<&str>) -> Result<Servable, String> {
    let folder = tempfile::tempdir().unwrap();
    let model = SavedModel { meta_graphs: graphs.to_vec() };
    fs::write(folder.path().join("saved_model.pb"), model.encode_to_vec()).unwrap();
    Servable::read(folder.path(), key)
}

/// `x: FP32 [-1, 4] -> y: FP32 [-1]`
fn shown(servable: &Servable) -> String {
    let side = |specs: &[TensorSpec]| {
        specs.iter().map(|spec| format!("{}: {spec}", spec.name)).collect::<Vec<_>>().join(", ")
    };
    format!("{} -> {}", side(&servable.signature.inputs), side(&servable.signature.outputs))
}

#[test]
fn the_signature_is_the_one_asked_for_or_chosen_by_the_rule() {
    let check = |keys: &[&str], key: Option<&str>| {
        let signatures: Vec<_> = keys.iter().map(|key| (*key, returning(key))).collect();
        read(&[graph(&["serve"], &signatures)], key)
            .map(|servable| servable.signature.outputs[0].name.to_string())
    };
    let init = "__saved_model_init_op";
    assert_eq!(check(&[init, "classify"], None).unwrap(), "classify");
    assert_eq!(check(&["predict", "serving_default", "a"], None).unwrap(), "serving_default");
    assert_eq!(check(&[init, "predict", "a"], None).unwrap(), "predict");
    assert_eq!(check(&["predict", "serving_default", "a"], Some("a")).unwrap(), "a");
    assert_eq!(
        check(&["b", "a", init], None).unwrap_err(),
        "it has several signatures, none of them `serving_default` or `predict`; set `signature_key` to one of `a`, `b`"
    );
    assert_eq!(check(&["a", init], Some("b")).unwrap_err(), "it has no signature `b`; there are `a`");
    assert_eq!(
        check(&["a"], Some(init)).unwrap_err(),
        format!("it has no signature `{init}`; there are `a`")
    );
    assert_eq!(check(&[init], None).unwrap_err(), "it has no signature, so nothing can be served");
    assert_eq!(check(&[], Some("a")).unwrap_err(), "it has no signature `a`; there are none");
}

#[test]
fn inputs_and_outputs_are_in_the_order_of_their_names() {
    let unknown = TensorShapeProto { dim: Vec::new(), unknown_rank: true };
    let inputs = [
        ("z", info("in_z:0", 1, &[-1, 4])),
        ("a", info("scope/in_a:3", 7, &[2])),
        ("m", info("in_m:0", 9, &[])),
        ("n", TensorInfo { tensor_shape: Some(unknown), ..info("in_n:0", 10, &[]) }),
        ("o", TensorInfo { tensor_shape: None, ..info("in_o:0", 14, &[]) }),
    ];
    let outputs = [("y", info("call:1", 2, &[-1])), ("b", info("call:0", 19, &[0]))];
    let servable = read(&[graph(&["serve"], &[("any", signature(&inputs, &outputs))])], None).unwrap();
    assert_eq!(
        shown(&servable),
        "a: BYTES [2], m: INT64 [], n: BOOL [], o: BF16 [], z: FP32 [-1, 4] -> b: FP16 [0], y: FP64 [-1]"
    );
    let ports: Vec<_> = servable
        .inputs
        .iter()
        .chain(&servable.outputs)
        .map(|port| format!("{}:{} {}", port.operation.to_str().unwrap(), port.index, port.scalar))
        .collect();
    let expected = [
        "scope/in_a:3 false",
        "in_m:0 true",
        "in_n:0 false",
        "in_o:0 false",
        "in_z:0 false",
        "call:0 false",
        "call:1 false",
    ];
    assert_eq!(ports, expected);
}

#[test]
fn what_cannot_be_served_is_named() {
    let check = |info: TensorInfo| {
        let signature = signature(&[("x", info)], &[("y", self::info("op:0", 1, &[]))]);
        read(&[graph(&["serve"], &[("any", signature)])], None).unwrap_err()
    };
    let good = info("x:0", 1, &[1]);
    let part = TensorInfo { name: None, ..good.clone() };
    assert_eq!(
        check(TensorInfo { coo_sparse: Some(Unread {}), ..part.clone() }),
        "input `x` is a sparse tensor; only dense tensors can be served"
    );
    assert_eq!(
        check(TensorInfo { composite_tensor: Some(Unread {}), ..part.clone() }),
        "input `x` is a composite tensor, such as a ragged one; only dense tensors can be served"
    );
    assert_eq!(check(part), "input `x` names no tensor of the graph: ``");
    assert_eq!(
        check(info("x:0", 8, &[1])),
        "input `x` has elements of type complex64, which no datatype stands for"
    );
    assert!(check(info("x:0", 0, &[1])).contains("of type 0 (a `DataType` of TensorFlow)"));
    for name in ["x", "x:", "x:-1", "x:70000", "x\0:0"] {
        assert_eq!(check(info(name, 1, &[1])), format!("input `x` names no tensor of the graph: `{name}`"));
    }
    let nothing = read(&[graph(&["serve"], &[("any", signature(&[], &[]))])], None);
    assert_eq!(nothing.unwrap_err(), "the signature has no outputs");
}

#[test]
fn the_graph_is_the_one_for_serving() {
    let train = graph(&["train"], &[("a", returning("train"))]);
    let both = graph(&["serve", "gpu"], &[("a", returning("gpu"))]);
    let serve = graph(&["serve"], &[("a", returning("serve"))]);
    let read_name = |graphs: &[MetaGraphDef]| {
        read(graphs, None).map(|servable| servable.signature.outputs[0].name.to_string())
    };
    assert_eq!(read_name(&[train.clone(), both.clone(), serve]).unwrap(), "serve");
    assert_eq!(
        read_name(&[train, both]).unwrap_err(),
        "it has no graph with the tag `serve`; there are `train`, `serve+gpu`"
    );
    assert_eq!(read_name(&[]).unwrap_err(), "it has no graph with the tag `serve`; there are none");
}

#[test]
fn damaged_and_missing_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let read = || Servable::read(folder.path(), None).unwrap_err();
    assert_eq!(read(), "`saved_model.pb`: No such file or directory (os error 2)");
    fs::write(folder.path().join("saved_model.pb"), "This is no protobuf.").unwrap();
    assert!(read().starts_with("`saved_model.pb` is damaged: "), "{}", read());
}

#[test]
fn what_tensorflow_writes_is_understood() {
    let real = |name: &str, key| {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/models/savedmodels");
        shown(&Servable::read(&models.join(name).join("1"), key).unwrap())
    };
    assert_eq!(real("iris_tf2", None), "x: FP32 [-1, 4] -> label: INT64 [-1], probabilities: FP32 [-1, 3]");
    assert_eq!(real("multi_signature_tf2", None), "x: FP32 [-1] -> y: FP32 [-1]");
    assert_eq!(real("string_tf1", None), "x: BYTES [-1] -> len: INT32 [-1], upper: BYTES [-1]");
    assert_eq!(real("vocabulary_tf2", None), "word: BYTES [-1] -> index: INT64 [-1]");
    assert_eq!(real("shapes_tf1", Some("any")), "x: FP32 [] -> y: FP32 []");
    assert_eq!(real("shapes_tf1", Some("scalar")), "x: FP32 [] -> y: FP32 []");
}
