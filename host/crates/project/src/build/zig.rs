//! C, C++ and Zig, by Zig's compiler, which brings a C library and a C++ library for WASI.
//!
//! In: a project's sources. Out: the component of the module that they are linked to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::component::{Module, component};
use super::{LARGEST, Project, announce, cause_first};
use crate::file;

const FLAGS: &str = "compile_flags.txt";
const SOURCES: &str = "src";
/// The folder of the SDK's own sources.
const SDK: &str = "modelhost-guest/src";
const SDK_FLAGS: [&str; 2] = ["-std=c17", "-Imodelhost-guest/include"];
/// The flags of every file. Every engine that runs components has SIMD.
const TARGET: [&str; 5] = [
    "--target=wasm32-wasi",
    "-O2",
    "-mcpu=generic+simd128",
    "-mexec-model=reactor",
    "-fno-sanitize=undefined",
];
/// The version of Zig, whose language and build files change with each.
const ZIG: &str = "0.16.";
const NO_ZIG: &str = "https://ziglang.org/download has Zig 0.16, which compiles C and C++ too, or: pip install ziglang==0.16.0";
const NO_FUNCTION: &str = "the handler defines no function that the host calls";

/// Builds a handler in C or C++. See [`super::Builder`].
pub(super) fn build_c(project: &Project) -> anyhow::Result<PathBuf> {
    let zig = zig(project)?;
    let flags = file::text(&project.folder.join(FLAGS)).with_context(|| format!("cannot read `{FLAGS}`"))?;
    let flags: Vec<&str> = flags.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let sources = sources(&project.folder.join(SOURCES))?;
    ensure!(!sources.is_empty(), "`{SOURCES}` has no file in C or C++\n  hint: handler.c or handler.cpp");
    announce("building with zig");
    let objects = project.private().join("objects");
    fs::create_dir_all(&objects).with_context(|| format!("cannot make `{}`", objects.display()))?;
    let mut made = Vec::new();
    let own = self::sources(&project.folder.join(SDK))?;
    let own = own.iter().map(|source| (source, &SDK_FLAGS[..]));
    for (number, (source, flags)) in own.chain(sources.iter().map(|it| (it, flags.as_slice()))).enumerate() {
        let object = objects.join(format!("{number}.o"));
        let compiler = if is_cpp(source) { "c++" } else { "cc" };
        let mut command = zig.command(project, compiler);
        command.args(TARGET).args(flags).arg("-c");
        command.arg(source.strip_prefix(&project.folder).unwrap_or(source)).arg("-o").arg(&object);
        project.finish(&mut command, NO_ZIG, cause)?;
        made.push(object);
    }
    let core = project.private().join("core.wasm");
    let linker = if sources.iter().any(|source| is_cpp(source)) { "c++" } else { "cc" };
    let mut command = zig.command(project, linker);
    command.args(TARGET).args(made).args(["-Wl,--strip-debug", "-o"]).arg(&core);
    project.finish(&mut command, NO_ZIG, cause)?;
    wrapped(project, &core, "define one by a macro of `modelhost.h`, such as `MH_PRE_INFERENCE`")
}

/// Builds a handler in Zig. See [`super::Builder`].
pub(super) fn build_zig(project: &Project) -> anyhow::Result<PathBuf> {
    let zig = zig(project)?;
    announce("building with zig");
    let prefix = project.private().join("zig");
    let mut command = zig.command(project, "build");
    project.finish(command.args(["--release=fast", "--prefix"]).arg(&prefix), NO_ZIG, cause)?;
    wrapped(project, &prefix.join("bin/handler.wasm"), "`comptime { guest.handler(.{ … }); }` names them")
}

/// The component of a module that was linked.
fn wrapped(project: &Project, core: &Path, hint: &str) -> anyhow::Result<PathBuf> {
    let core = file::read(core, LARGEST).context("cannot read the module")?;
    let interfaces = Module::read(&core)?.interfaces;
    ensure!(!interfaces.is_empty(), "{NO_FUNCTION}\n  hint: {hint}");
    fs::write(project.output(), component(core, &interfaces)?).context("cannot write the component")?;
    Ok(project.output())
}

/// How Zig is called here.
struct Zig(&'static [&'static str]);

impl Zig {
    fn command(&self, project: &Project, subcommand: &str) -> Command {
        let (program, before) = self.0.split_first().unwrap_or((&"zig", &[]));
        let mut command = project.command(program);
        command.args(before).arg(subcommand);
        command
    }
}

/// The program `zig`, or that of Python's package.
fn zig(project: &Project) -> anyhow::Result<Zig> {
    let mut other = None;
    for way in [&["zig"][..], &["python3", "-m", "ziglang"]] {
        let zig = Zig(way);
        let Ok(output) = zig.command(project, "version").output() else { continue };
        if !output.status.success() {
            continue;
        }
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if version.starts_with(ZIG) {
            return Ok(zig);
        }
        other.get_or_insert(version);
    }
    if let Some(version) = other {
        bail!("Zig is {version}, not {ZIG}x\n  hint: {NO_ZIG}");
    }
    bail!("`zig` is not installed\n  hint: {NO_ZIG}")
}

/// The files in C and C++ below a folder, in an order that does not change.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            found.extend(sources(&path)?);
        } else if is_cpp(&path) || path.extension().is_some_and(|kind| kind == "c") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_cpp(path: &Path) -> bool {
    path.extension().is_some_and(|kind| ["cpp", "cc", "cxx"].iter().any(|known| kind == *known))
}

/// The compiler's first error.
fn cause(printed: &str) -> String {
    cause_first(printed.lines().find(|line| line.contains("error: ")), printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found_below_the_folder_in_order() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        for name in ["b.cpp", "a.c", "inner/c.cc", "a.h", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = sources(folder.path()).unwrap();
        let names = found.iter().map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["a.c", "b.cpp", "inner/c.cc"]);
    }

    #[test]
    fn the_first_error_comes_before_the_rest() {
        let printed = "In file included\nsrc/handler.c:3:5: error: unknown type\n1 error generated.";
        assert_eq!(cause(printed), format!("src/handler.c:3:5: error: unknown type\n\n{printed}"));
    }
}
