//! The protocol's messages, as `build.rs` made them of `host/proto/open_inference.proto`.

#![allow(missing_docs, clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]

tonic::include_proto!("inference");
