//! End-to-end tests against the released binary: `make build`, then `cargo test -p e2e`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod admin;
mod application_rollouts;
mod applications;
mod arrivals;
mod batching;
mod bench;
mod blob_sdks;
mod blobs;
mod cache;
mod call_time;
mod check;
mod classification;
mod cli;
mod compatibility;
mod content_types;
mod decoder;
mod dev;
mod device;
mod docs;
mod edge;
mod ensembles;
mod faults;
mod from;
mod from_served;
mod gate;
mod generate;
mod grpc;
mod guides;
mod handler_models;
mod hangup;
mod headers;
mod hostile;
mod inferless;
mod init;
mod install;
mod instances;
mod iris;
mod isolation;
mod job_sdks;
mod jobs;
mod keys;
mod kv;
mod kv_sdks;
mod languages;
mod libraries;
mod lists;
mod loading;
mod metrics;
mod models;
mod nn;
mod no_handler;
mod ocr;
mod oip;
mod oip_binary;
mod oip_clients;
mod oip_models;
mod openai;
mod openapi;
mod openapi_client;
mod operate;
mod optional;
mod orders;
mod outbound;
mod overload;
mod pool;
mod potassium;
mod potassium_apps;
mod project;
mod protocol;
mod reach;
mod record;
mod reference;
mod refusals;
mod registry;
mod replay;
mod replay_calls;
mod request_batches;
mod responders;
mod response_cache;
mod sandbox;
mod schema;
mod schemathesis;
mod sdks;
mod shared_memory;
mod shutdown;
mod sequences;
mod settings;
mod simd;
mod soak;
mod sockets;
mod splits;
mod start;
mod streams;
mod swap;
mod templates;
mod tensorflow;
mod tf_serving;
mod tidy;
mod tls;
mod tracker;
mod trials;
mod truss_apps;
mod v1;
mod vad;
mod values;
mod watch;
mod webhooks;
