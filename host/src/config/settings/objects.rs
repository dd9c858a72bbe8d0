//! The settings of objects, a part of the list of settings.
//!
//! Place in the flow: see [`settings`](super), and `endpoint.rs` beside this file for what a row says.

use std::sync::OnceLock;
use std::time::Duration;

use super::Kind::{List, Value};
use super::{DAY, GIB, Group, MILLISECOND, Row, Setting, settings};
use crate::blobs::{Addressing, Place};
use crate::config::read::objects::{CredentialSource, account, containers, region, server, store};
use crate::config::read::*;
use crate::values::*;

settings! {
    [Handler]
    BLOBS: Vec<String> = (none, "default,shared/images"), containers,
        "blobs", "endpoint.blobs", List("CONTAINER"),
        "Container of objects that the handler may open by `wasi:blobstore`: one of the endpoint's own, \
         `shared/NAME` for one that other endpoints may be granted too, or `*` for all of its own.";
    [HandlerLimits]
    BLOB_BYTES: u64 = "1GiB", size(0..=1024 * 1024 * GIB),
        "blob-bytes", "endpoint.limits.blob_bytes", Value("SIZE"),
        "Most bytes of objects in the endpoint's containers together; of a shared container, that it may \
         fill it to.";
    BLOB_COUNT: u64 = "10000", count(0..=1_000_000_000),
        "blob-count", "endpoint.limits.blob_count", Value("N"),
        "Most objects in the endpoint's containers together, likewise.";
    BLOB_SIZE: u64 = "256MiB", size(0..=64 * GIB),
        "blob-size", "endpoint.limits.blob_size", Value("SIZE"),
        "Longest object that it may write.";
    [Process]
    BLOBS_STORE: Option<Place> = (none, "s3://objects/fleet-a"), some(store),
        "blobs-store", "blobs.store", Value("DIR|URL"),
        "Where handlers keep objects: a folder that this host alone has open, and makes if it is not there; \
         or a bucket that many hosts share: of S3 `s3://BUCKET/PREFIX`, of Google Cloud Storage \
         `gs://BUCKET/PREFIX`, of Azure Blob Storage `az://CONTAINER/PREFIX`.";
    BLOBS_SERVER: Option<String> = (none, "https://s3.example.com"), some(server),
        "blobs-server", "blobs.server", Value("URL"),
        "The server of the bucket: scheme, host, port. Without one, that of Amazon's region, Google's, or \
         that of Azure's account.";
    BLOBS_REGION: String = "us-east-1", region,
        "blobs-region", "blobs.region", Value("NAME"),
        "The region of a bucket of S3; other servers than Amazon's have mostly the default.";
    BLOBS_ADDRESSING: Option<Addressing> = "auto",
        or("auto", choice(&[("path", Addressing::Path), ("host", Addressing::Host)])),
        "blobs-addressing", "blobs.addressing", Value("auto|path|host"),
        "Where the name of a bucket of S3, or of Azure's account, stands: in the `path` of a request, or \
         before the `host`; `auto` is `host` at Amazon and Azure, and `path` where there is a `server`.";
    BLOBS_ACCOUNT: Option<String> = (none, "fleet"), some(account),
        "blobs-account", "blobs.account", Value("NAME"),
        "The storage account of Azure that the container is in.";
    BLOBS_CREDENTIALS: CredentialSource = "keys",
        choice(&[("keys", CredentialSource::Keys), ("platform", CredentialSource::Platform)]),
        "blobs-credentials", "blobs.credentials", Value("keys|platform"),
        "Whose credentials are used: the `keys` of the settings below, or what the `platform` gives to this \
         pod or machine for a while and renews: the role of a service account, a task or a machine.";
    BLOBS_ACCESS_KEY: Vec<KeySource> = (none, "env:AWS_ACCESS_KEY_ID"), key_sources,
        "blobs-access-key", "blobs.access_key", Value("@FILE|env:NAME"),
        "Where the name of the key is that signs requests to S3: a file that holds nothing else, or a \
         variable.";
    BLOBS_SECRET_KEY: Vec<KeySource> = (none, "env:AWS_SECRET_ACCESS_KEY"), key_sources,
        "blobs-secret-key", "blobs.secret_key", Value("@FILE|env:NAME"),
        "Where the secret of the access key for S3 is, as for that; of Azure the account's key; of Google \
         the key of a service account, in JSON as Google writes it.";
    BLOBS_SESSION_TOKEN: Vec<KeySource> = (none, "env:AWS_SESSION_TOKEN"), key_sources,
        "blobs-session-token", "blobs.session_token", Value("@FILE|env:NAME"),
        "Where the token for S3 is that belongs to an access key which does not last, as for that.";
    BLOBS_TIMEOUT: Duration = "2s", duration(MILLISECOND..=DAY),
        "blobs-timeout", "blobs.timeout", Value("DURATION"),
        "How long a request to the bucket's server may take, and from one piece of an answer to the next; \
         beyond it the handler gets an error. No request is sent again after it.";
}
