//! TensorFlow Serving's messages, which `build.rs` makes from `host/proto/tensorflow*.proto`, and those parts
//! of them that take far more memory decoded than encoded.

#![allow(missing_docs, clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]

tonic::include_proto!("tensorflow");

/// The codes of errors.
pub mod error {
    tonic::include_proto!("tensorflow.error");
}

/// The calls and their messages.
pub mod serving {
    tonic::include_proto!("tensorflow.serving");
}

use std::collections::BTreeMap;

use tonic_prost::prost::Message as _;

use self::serving::{
    ClassificationRequest, GetModelMetadataRequest, GetModelStatusRequest, PredictRequest, RegressionRequest,
};
use crate::server::grpc::bounds::{Bounds, MOST_FIELDS, Parts, Table};
use crate::server::grpc::codec::RequestMessage;

/// Fields of examples: a feature counts as four or five, each less than a field of a tensor.
const MOST_EXAMPLE_FIELDS: usize = 1 << 18;

impl Example {
    /// One of a single feature.
    pub(in crate::server) fn of(name: String, kind: Option<feature::Kind>) -> Example {
        let feature = BTreeMap::from([(name, Feature { kind })]);
        Example { features: Some(Features { feature }) }
    }

    /// Its encoding.
    pub(in crate::server) fn encoded(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

const NOTHING: Bounds =
    Bounds { fields: MOST_FIELDS, fields_are: "fields", texts_are: "texts", unfolding: &[] };

/// A `TensorProto`: `tensor_shape`, whose every `dim` is a message, and `string_val`.
const TENSOR: Table = &[(2, Parts::Fields(&[(2, Parts::Fields(&[]))])), (8, Parts::Text)];

const PREDICT: Bounds = Bounds {
    fields: MOST_FIELDS,
    fields_are: "inputs, outputs and extents",
    texts_are: "elements of `string_val`",
    // An entry of `inputs` is its key and its value.
    unfolding: &[(2, Parts::Fields(&[(2, Parts::Values(TENSOR))]))],
};

/// An `Example`: `features`, whose `feature` has entries of a key and a `Feature`, one of three lists.
const EXAMPLE: Table = &[(1, Parts::Fields(&[(1, Parts::Fields(&[(2, Parts::Fields(FEATURE))]))]))];
const FEATURE: Table =
    &[(1, Parts::Values(&[(1, Parts::Text)])), (2, Parts::Values(&[])), (3, Parts::Values(&[]))];

const EXAMPLES: Bounds = Bounds {
    fields: MOST_EXAMPLE_FIELDS,
    fields_are: "examples, features and parts of them",
    texts_are: "elements of `bytes_list`",
    // `input`: `example_list`, or `example_list_with_context`.
    unfolding: &[(
        2,
        Parts::Fields(&[
            (1, Parts::Fields(&[(1, Parts::Fields(EXAMPLE))])),
            (2, Parts::Fields(&[(1, Parts::Fields(EXAMPLE)), (2, Parts::Fields(EXAMPLE))])),
        ]),
    )],
};

impl RequestMessage for PredictRequest {
    const BOUNDS: Bounds = PREDICT;
}

impl RequestMessage for ClassificationRequest {
    const BOUNDS: Bounds = EXAMPLES;
}

impl RequestMessage for RegressionRequest {
    const BOUNDS: Bounds = EXAMPLES;
}

impl RequestMessage for GetModelMetadataRequest {
    const BOUNDS: Bounds = NOTHING;
}

impl RequestMessage for GetModelStatusRequest {
    const BOUNDS: Bounds = NOTHING;
}
