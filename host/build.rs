//! Makes Rust of `proto/`, without protoc, unpacks Swagger UI, and finds out which commit is built.
//!
//! Out, in `OUT_DIR`: a file for each package, messages and the server's half of the services;
//! `descriptors.bin`, what reflection shows. Bytes are shared with the message they came in, not copied. The
//! files of Swagger UI that the page at `/docs` loads, in `swagger-ui/`. And the variable `MODELHOST_COMMIT`,
//! for `host --version`: as the environment says, else as git does, else `unknown`. And an argument of the
//! linker, where it takes that.

use std::env::{self, VarError};
use std::error::Error;
use std::fs;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::process::Command;

use protox::prost::Message as _;

const PROTOS: &str = "proto";
/// They import the others.
const SERVICES: [&str; 2] = ["open_inference.proto", "tensorflow_serving.proto"];
/// The others are further builds of the same, 0.7 MB packed.
const SWAGGER_UI: [&str; 4] = ["favicon-32x32.png", "index.css", "swagger-ui-bundle.js", "swagger-ui.css"];
const COMMIT: &str = "MODELHOST_COMMIT";
/// Functions of the same code are one: 1.2 MB of the binary. LLVM's linker, which is Rust's own here, can do that.
const FOLD: &str = "-Wl,--icf=all";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTOS}");
    let descriptors = protox::compile(SERVICES, [PROTOS])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::server::grpc::codec::Bounded")
        .compile_fds(descriptors)?;

    unpack_swagger_ui(&out.join("swagger-ui"))?;
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let commit = match env::var(COMMIT) {
        Err(VarError::NotPresent) => git_commit().unwrap_or_else(|| "unknown".to_owned()),
        given => given?,
    };
    println!("cargo::rustc-env={COMMIT}={commit}");

    if links_with(FOLD, &out)? {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
    Ok(())
}

/// Whether the linker of this build takes this argument.
fn links_with(argument: &str, folder: &Path) -> Result<bool, Box<dyn Error>> {
    let source = folder.join("empty.rs");
    fs::write(&source, "fn main() {}\n")?;
    let mut command = Command::new(env::var("RUSTC")?);
    command.arg(&source).arg("-o").arg(folder.join("empty")).args(["--target", &env::var("TARGET")?]);
    command.args(env::var("RUSTC_LINKER").map(|linker| format!("-Clinker={linker}")));
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    Ok(command.arg(format!("-Clink-arg={argument}")).output()?.status.success())
}

/// Writes the files of Swagger UI that are served to this folder.
fn unpack_swagger_ui(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut packed = zip::ZipArchive::new(Cursor::new(utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED))?;
    let paths: Vec<String> =
        packed.file_names().filter_map(Result::ok).map(|path| path.into_owned()).collect();
    for name in SWAGGER_UI {
        let path = paths.iter().find(|path| path.ends_with(&format!("/dist/{name}")));
        let path = path.ok_or_else(|| format!("Swagger UI has no `{name}`"))?;
        io::copy(&mut packed.by_name(path)?, &mut fs::File::create(folder.join(name))?)?;
    }
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
    let own = env::var("CARGO_MANIFEST_DIR").ok()?;
    if Path::new(&own).parent() != Some(Path::new(&top)) {
        return None;
    }
    // Every commit and checkout adds a line to this file.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "--short=12", "HEAD"])
}
