//! Makes Rust of `proto/`, without protoc.
//!
//! Out, in `OUT_DIR`: `inference.rs`, messages and the server's half of the service; `open_inference.bin`, the descriptors that
//! reflection shows. Bytes are shared with the message they came in, not copied.

use std::error::Error;
use std::path::PathBuf;

use protox::prost::Message as _;

const PROTO: &str = "proto/open_inference.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("open_inference.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::server::grpc::codec::Bounded")
        .compile_fds(descriptors)?;
    Ok(())
}
