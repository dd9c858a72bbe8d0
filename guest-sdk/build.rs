//! Finds out whether the C library that a component is linked with can let go of its handles.
//!
//! In: the toolchain cargo uses. Out: `cfg(libc_releases)` if its C library has what `src/libc.rs` calls. Libraries without it
//! (older ones, or another one in place of the toolchain's own) still link; their handlers only start slower.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// What `src/libc.rs` calls besides POSIX.
const NEEDED: [&str; 2] = ["__wasilibc_reset_preopens", "__wasilibc_init_stdio"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(libc_releases)");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let is_component = variable("CARGO_CFG_TARGET_FAMILY") == "wasm";
    let is_own = !variable("CARGO_ENCODED_RUSTFLAGS").contains("link-self-contained=no");
    if is_component
        && is_own
        && library(&variable("RUSTC"), &variable("TARGET")).is_some_and(|it| has_all(&it))
    {
        println!("cargo::rustc-cfg=libc_releases");
    }
}

/// The toolchain's C library for `target`.
fn library(rustc: &str, target: &str) -> Option<Vec<u8>> {
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    std::fs::read(sysroot.join("lib/rustlib").join(target).join("lib/self-contained/libc.a")).ok()
}

fn has_all(library: &[u8]) -> bool {
    NEEDED.iter().all(|name| library.windows(name.len()).any(|window| window == name.as_bytes()))
}
