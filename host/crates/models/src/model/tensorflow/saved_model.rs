//! What a SavedModel says of itself, read without TensorFlow.
//!
//! Flow: `tensorflow → [saved_model]`, at load.
//! In:   a folder with `saved_model.pb`, and perhaps the key of the signature to serve.
//! Out:  that signature in our vocabulary, and where in the graph its tensors are.
//!
//! Which signature: the one asked for; else the only one, `serving_default`, `predict`, in this order. Keys
//! that begin with `__saved_model_` are TensorFlow's own and never count.
//!
//! Inputs and outputs are in the order of their names: the format keeps them in a map, so it knows no order.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;

use prost::Message as _;

use super::proto::{MetaGraphDef, SavedModel, SignatureDef, TensorInfo, TensorShapeProto};
use crate::file;
use crate::tensor::{Datatype, Extent, Role, Signature, TensorSpec};

/// Most bytes of `saved_model.pb`: what a message may have in Protocol Buffers.
const LARGEST: u64 = 2 << 30;
/// The tag of the graph that is served.
pub const TAG: &str = "serve";

/// The keys of signatures that are tried, in order, if there are several and none is asked for.
const DEFAULT_KEYS: [&str; 2] = ["serving_default", "predict"];

/// TensorFlow's number of each datatype; no other element type can be served.
const DATATYPES: [(Datatype, i32); 14] = [
    (Datatype::Fp32, 1),
    (Datatype::Fp64, 2),
    (Datatype::Int32, 3),
    (Datatype::Uint8, 4),
    (Datatype::Int16, 5),
    (Datatype::Int8, 6),
    (Datatype::Bytes, 7),
    (Datatype::Int64, 9),
    (Datatype::Bool, 10),
    (Datatype::Bf16, 14),
    (Datatype::Uint16, 17),
    (Datatype::Fp16, 19),
    (Datatype::Uint32, 22),
    (Datatype::Uint64, 23),
];

/// The datatype of a TensorFlow `DataType`.
pub fn datatype(number: i32) -> Option<Datatype> {
    DATATYPES.iter().find(|(_, known)| *known == number).map(|(datatype, _)| *datatype)
}

/// The TensorFlow `DataType` of a datatype.
pub fn number(datatype: Datatype) -> i32 {
    // Every datatype is in the list; 0 is TensorFlow's "invalid".
    DATATYPES.iter().find(|(known, _)| *known == datatype).map_or(0, |(_, number)| *number)
}

/// One signature of a SavedModel, ready to be served.
#[derive(Debug, PartialEq, Eq)]
pub struct Servable {
    /// The signature's name.
    pub key: String,
    /// The signature's method; empty where it says none.
    pub method: String,
    /// The inputs and outputs, each in the order of names.
    pub signature: Signature,
    /// Where the inputs go, in signature order.
    pub inputs: Vec<Port>,
    /// Where the outputs come from, in signature order.
    pub outputs: Vec<Port>,
}

/// A tensor of the graph.
#[derive(Debug, PartialEq, Eq)]
pub struct Port {
    /// The operation that makes it.
    pub operation: CString,
    /// Which of the operation's outputs it is.
    pub index: u16,
    /// Whether it is a scalar. A spec without extents does not tell: a tensor of unknown rank has none
    /// either.
    pub scalar: bool,
}

impl Servable {
    /// Reads the signature `key`, or the one that the rule above chooses.
    ///
    /// # Errors
    /// Text for the operator: what is missing or damaged, the keys there are, or the tensor that cannot be
    /// served.
    pub fn read(folder: &Path, key: Option<&str>) -> Result<Servable, String> {
        let file = file::read(&folder.join("saved_model.pb"), LARGEST)
            .map_err(|error| format!("`saved_model.pb`: {error}"))?;
        let model = SavedModel::decode(file.as_slice())
            .map_err(|error| format!("`saved_model.pb` is damaged: {error}"))?;
        let graph = served_graph(&model)?;
        check_variables(folder, graph)?;
        let (key, signature) = select(&graph.signature_def, key)?;
        Servable::new(key, signature)
    }

    fn new(key: &str, signature: &SignatureDef) -> Result<Servable, String> {
        let (inputs, input_ports) = tensors("input", &signature.inputs)?;
        let (outputs, output_ports) = tensors("output", &signature.outputs)?;
        if outputs.is_empty() {
            return Err("the signature has no outputs".to_owned());
        }
        let (key, method) = (key.to_owned(), signature.method_name.clone());
        let signature = Signature { inputs, outputs };
        Ok(Servable { key, method, signature, inputs: input_ports, outputs: output_ports })
    }
}

/// The graph that has [`TAG`] and no other tag; TensorFlow compares whole sets of tags too.
fn served_graph(model: &SavedModel) -> Result<&MetaGraphDef, String> {
    let tags = |graph: &MetaGraphDef| graph.meta_info_def.clone().unwrap_or_default().tags;
    let found = model.meta_graphs.iter().find(|graph| tags(graph) == [TAG]);
    found.ok_or_else(|| {
        let others = model.meta_graphs.iter().map(|graph| tags(graph).join("+"));
        format!("it has no graph with the tag `{TAG}`; there are {}", list(others))
    })
}

/// TensorFlow takes a model without the folder of its variables for one that has none, and fails at every
/// run.
fn check_variables(folder: &Path, graph: &MetaGraphDef) -> Result<(), String> {
    const INDEX: &str = "variables/variables.index";
    let nodes = graph.graph_def.iter().flat_map(|graph| &graph.node);
    let restores = graph.saver_def.is_some()
        && nodes
            .map(|node| node.op.as_str())
            .any(|op| ["VarHandleOp", "VariableV2", "Variable"].contains(&op));
    if restores && !folder.join(INDEX).is_file() {
        return Err(format!("it has variables, but their file `{INDEX}` is missing"));
    }
    Ok(())
}

/// The signature to serve, by the rule in this file's header.
fn select<'a>(
    signatures: &'a BTreeMap<String, SignatureDef>,
    key: Option<&str>,
) -> Result<(&'a str, &'a SignatureDef), String> {
    let served: BTreeMap<&str, &SignatureDef> = signatures
        .iter()
        .map(|(key, signature)| (key.as_str(), signature))
        .filter(|(key, _)| !key.starts_with("__saved_model_"))
        .collect();
    let keys = || list(served.keys().map(|key| (*key).to_owned()));
    if let Some(key) = key {
        return served
            .get_key_value(key)
            .map(|(key, signature)| (*key, *signature))
            .ok_or_else(|| format!("it has no signature `{key}`; there are {}", keys()));
    }
    let mut entries = served.iter();
    if let (Some((key, only)), None) = (entries.next(), entries.next()) {
        return Ok((*key, *only));
    }
    let default = DEFAULT_KEYS.iter().find_map(|key| Some((*key, *served.get(key)?)));
    default.ok_or_else(|| match served.len() {
        0 => "it has no signature, so nothing can be served".to_owned(),
        _ => format!(
            "it has several signatures, none of them `{}`; set `signature_key` to one of {}",
            DEFAULT_KEYS.join("` or `"),
            keys()
        ),
    })
}

/// "`a`, `b`", or "none".
fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// `kind` is for the message.
fn tensors(kind: &str, infos: &BTreeMap<String, TensorInfo>) -> Result<(Vec<TensorSpec>, Vec<Port>), String> {
    let tensor = |(name, info): (&String, &TensorInfo)| {
        tensor(name, info).map_err(|reason| format!("{kind} `{name}` {reason}"))
    };
    // One by one, so that it is always the first one that is named.
    infos.iter().map(tensor).collect()
}

fn tensor(name: &str, info: &TensorInfo) -> Result<(TensorSpec, Port), String> {
    if info.coo_sparse.is_some() {
        return Err("is a sparse tensor; only dense tensors can be served".to_owned());
    }
    if info.composite_tensor.is_some() {
        return Err(
            "is a composite tensor, such as a ragged one; only dense tensors can be served".to_owned()
        );
    }
    let datatype = datatype(info.dtype).ok_or_else(|| {
        format!("has elements of type {}, which no datatype stands for", element_type(info.dtype))
    })?;
    let full_name = info.name.as_deref().unwrap_or_default();
    let (operation, index) = full_name
        .rsplit_once(':')
        .and_then(|(operation, index)| Some((CString::new(operation).ok()?, index.parse().ok()?)))
        .ok_or_else(|| format!("names no tensor of the graph: `{full_name}`"))?;
    // A shape that is not there is an unknown one.
    let unknown = TensorShapeProto { dim: Vec::new(), unknown_rank: true };
    let shape = info.tensor_shape.as_ref().unwrap_or(&unknown);
    // The format writes -1 for an extent that is free, and has no names for them.
    let extent = |size: i64| u64::try_from(size).map_or(Extent::Free(None), Extent::Fixed);
    let spec = TensorSpec {
        name: name.into(),
        datatype,
        shape: shape.dim.iter().map(|dim| extent(dim.size)).collect(),
        role: Role::Plain,
    };
    Ok((spec, Port { operation, index, scalar: !shape.unknown_rank && shape.dim.is_empty() }))
}

/// The name of an element type that is none of [`DATATYPES`].
fn element_type(number: i32) -> String {
    let name = match number {
        8 => "complex64",
        11 => "qint8",
        12 => "quint8",
        13 => "qint32",
        15 => "qint16",
        16 => "quint16",
        18 => "complex128",
        20 => "resource",
        21 => "variant",
        other => return format!("{other} (a `DataType` of TensorFlow)"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;
