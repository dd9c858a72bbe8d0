//! The protobuf messages of TensorFlow that the host reads or writes, written down by hand: only the fields
//! it uses.
//!
//! Place in the flow: below `saved_model` (reads) and `api` (writes). Numbers and names are those of
//! TensorFlow's own `.proto` files, which are never renumbered; a field that is not listed is skipped.

use std::collections::BTreeMap;

use prost::Message;

/// `saved_model.pb`: one graph per set of tags.
#[derive(Clone, PartialEq, Message)]
pub struct SavedModel {
    #[prost(message, repeated, tag = "2")]
    pub meta_graphs: Vec<MetaGraphDef>,
}

/// A graph and what it offers.
#[derive(Clone, PartialEq, Message)]
pub struct MetaGraphDef {
    #[prost(message, optional, tag = "1")]
    pub meta_info_def: Option<MetaInfoDef>,
    #[prost(message, optional, tag = "2")]
    pub graph_def: Option<GraphDef>,
    /// How variables are restored; not there if there are none.
    #[prost(message, optional, tag = "3")]
    pub saver_def: Option<Unread>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub signature_def: BTreeMap<String, SignatureDef>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MetaInfoDef {
    #[prost(string, repeated, tag = "4")]
    pub tags: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeDef>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeDef {
    /// The kind of operation: `MatMul`.
    #[prost(string, tag = "2")]
    pub op: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct SignatureDef {
    #[prost(btree_map = "string, message", tag = "1")]
    pub inputs: BTreeMap<String, TensorInfo>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub outputs: BTreeMap<String, TensorInfo>,
    /// The call that it is for: `tensorflow/serving/predict`.
    #[prost(string, tag = "3")]
    pub method_name: String,
}

/// At most one of `name`, `coo_sparse` and `composite_tensor` is there.
#[derive(Clone, PartialEq, Message)]
pub struct TensorInfo {
    /// `operation:index`
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub coo_sparse: Option<Unread>,
    #[prost(message, optional, tag = "5")]
    pub composite_tensor: Option<Unread>,
    /// A `DataType`.
    #[prost(int32, tag = "2")]
    pub dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub tensor_shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub unknown_rank: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dim {
    /// -1 is any.
    #[prost(int64, tag = "1")]
    pub size: i64,
}

/// A message of which only the presence counts.
#[derive(Clone, PartialEq, Message)]
pub struct Unread {}

/// How a session is to run.
#[derive(Clone, PartialEq, Message)]
pub struct ConfigProto {
    /// Most devices of a kind.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub device_count: BTreeMap<String, i32>,
    #[prost(int32, tag = "2")]
    pub intra_op_parallelism_threads: i32,
    #[prost(int32, tag = "5")]
    pub inter_op_parallelism_threads: i32,
}
