//! Makes Rust of `proto/`, without protoc, and finds out which commit is built.
//!
//! Out, in `OUT_DIR`: a file for each package, messages and the server's half of the services;
//! `descriptors.bin`, what reflection shows. Bytes are shared with the message they came in, not copied. And
//! the variable `MODELHOST_COMMIT`, for `host --version`: as the environment says, else as git does, else
//! `unknown`.

use std::env::{self, VarError};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use protox::prost::Message as _;

const PROTOS: &str = "proto";
/// They import the others.
const SERVICES: [&str; 2] = ["open_inference.proto", "tensorflow_serving.proto"];
const COMMIT: &str = "MODELHOST_COMMIT";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTOS}");
    let descriptors = protox::compile(SERVICES, [PROTOS])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::server::grpc::codec::Bounded")
        .compile_fds(descriptors)?;

    println!("cargo::rerun-if-env-changed={COMMIT}");
    let commit = match env::var(COMMIT) {
        Err(VarError::NotPresent) => git_commit().unwrap_or_else(|| "unknown".to_owned()),
        given => given?,
    };
    println!("cargo::rustc-env={COMMIT}={commit}");
    Ok(())
}

/// The commit that is checked out; `None` without git, or outside of this project's repository.
fn git_commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // A copy of the sources may lie in a repository of something else.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(env!("CARGO_MANIFEST_DIR")).parent() != Some(Path::new(&top)) {
        return None;
    }
    // Every commit and checkout adds a line to this file.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "--short=12", "HEAD"])
}
