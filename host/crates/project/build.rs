//! Copies the SDKs as projects get them: without their own tests and macros, into `sdk/` of `OUT_DIR`.

#[path = "build/bindings.rs"]
mod bindings;

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SDKS: &str = "../../../guest-sdk";
/// The SDKs that have other files beside their own: tests, 25 kB packed, and what toolchains have left.
const COPIED_SDKS: [&str; 4] = ["c", "go", "python/modelhost_guest", "zig"];
/// The Rust SDK's code, the file of it that is expanded, and what that is made of.
const RUST_SDK: &str = "src";
const BINDINGS: &str = "bindings.rs";
const CONTRACT: &str = "../../../wit";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for name in COPIED_SDKS.into_iter().chain([RUST_SDK]) {
        let (sdk, copy) = (Path::new(SDKS).join(name), out.join("sdk").join(name));
        println!("cargo::rerun-if-changed={}", sdk.display());
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        copy_sources(&sdk, &copy)?;
    }
    println!("cargo::rerun-if-changed={CONTRACT}");
    let bindings = out.join("sdk").join(RUST_SDK).join(BINDINGS);
    fs::write(&bindings, bindings::expanded(&fs::read_to_string(&bindings)?, Path::new(SDKS))?)?;
    Ok(())
}

/// Copies a folder, but for tests and what toolchains make.
fn copy_sources(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        match name.to_string_lossy() {
            name if name.starts_with('.') || matches!(&*name, "tests" | "zig-out" | "__pycache__") => {}
            name if name.ends_with("_test.go") => {}
            _ if entry.is_dir() => copy_sources(&entry, &to.join(name))?,
            _ => {
                fs::copy(&entry, to.join(name))?;
            }
        }
    }
    Ok(())
}
