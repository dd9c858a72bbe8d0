//! A module of a compiler, wrapped into a component: for languages whose compilers make no components.
//!
//! In: the bytes of a module for WASI's first version, whose exports and imports have the contract's names.
//! Out: the bytes of a component that exports what the module defines of the contract.
//! Invariant: nothing is exported that the module does not define; imports that are not called are left out.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{KnownCustom, Name, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, SourceMap, WorldId, WorldKey};

use crate::contract::{CONTRACT, LIBRARIES, is_wit, part};

const INTERFACES: &str = "modelhost:handler/";
/// The packages of others that the contract names, each after those that it names itself.
const OTHERS: [&str; 2] = ["deps/io", "deps/blobstore"];

/// The parts of a module that decide about the component.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Interfaces of the contract, `pre-inference@0.1.0`, of which it exports functions.
    pub(super) interfaces: Vec<String>,
    /// The names of its functions, if they were kept.
    pub(super) functions: Vec<String>,
}

impl Module {
    /// Reads what a module exports.
    ///
    /// # Errors
    /// The bytes are no module.
    pub(super) fn read(core: &[u8]) -> anyhow::Result<Module> {
        let mut module = Module::default();
        for payload in Parser::new(0).parse_all(core) {
            match payload? {
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let name = export?.name;
                        let interface =
                            name.strip_prefix(INTERFACES).and_then(|name| Some(name.split_once('#')?.0));
                        // `respond-all` has two functions.
                        let new = interface.map(str::to_owned).filter(|it| !module.interfaces.contains(it));
                        module.interfaces.extend(new);
                    }
                }
                Payload::CustomSection(section) => {
                    let KnownCustom::Name(names) = section.as_known() else { continue };
                    for name in names {
                        let Name::Function(functions) = name? else { continue };
                        for function in functions {
                            module.functions.push(function?.name.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(module)
    }
}

/// Wraps a module that exports functions of these interfaces.
///
/// # Errors
/// The module does not keep to the contract: a function of another type, or an import that no host has.
pub(super) fn component(core: Vec<u8>, interfaces: &[String]) -> anyhow::Result<Vec<u8>> {
    encoded(core, interfaces).map_err(|error| {
        anyhow!(
            "{error:#}\n  hint: a handler calls what its SDK and WASI have, and defines what the SDK declares"
        )
    })
}

fn encoded(core: Vec<u8>, interfaces: &[String]) -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let text = |path: &Path| {
        CONTRACT.get_file(path).and_then(|file| file.contents_utf8()).context("the contract is incomplete")
    };
    for folder in OTHERS.map(part).into_iter().chain([Ok(&CONTRACT)]) {
        let mut package = SourceMap::new();
        for file in folder?.files().filter(|file| is_wit(file.path())) {
            package.push(file.path(), file.contents_utf8().unwrap_or_default());
        }
        let package = package.parse().map_err(|(_, error)| anyhow!("{error}"))?;
        resolve.push_group(package)?;
    }
    let mut world = "package modelhost:build;\nworld made {\n".to_owned();
    for import in ["types", "models", "request", "kv", "jobs", "metrics"] {
        world += &format!("  import {INTERFACES}{import}@0.1.0;\n");
    }
    for import in ["types", "container", "blobstore"] {
        world += &format!("  import wasi:blobstore/{import}@0.2.0-draft;\n");
    }
    for file in part(LIBRARIES)?.files() {
        let library = resolve.push_source(&file.path().display().to_string(), text(file.path())?)?;
        let library = resolve.packages.get(library).context("the contract is incomplete")?;
        for name in library.interfaces.values().filter_map(|interface| resolve.id_of(*interface)) {
            world += &format!("  import {name};\n");
        }
    }
    for interface in interfaces {
        world += &format!("  export {INTERFACES}{interface};\n");
    }
    let package = resolve.push_source("world.wit", &(world + "}\n"))?;
    let world = resolve.select_world(&[package], None)?;
    with_adapter(without_debug_information(&core)?, &resolve, world)
}

/// Wraps a module for WASI's first version that imports and exports what a world says.
///
/// # Errors
/// The module does not do what the world says.
pub(super) fn with_adapter(mut core: Vec<u8>, resolve: &Resolve, world: WorldId) -> anyhow::Result<Vec<u8>> {
    embed_component_metadata(&mut core, resolve, world, StringEncoding::UTF8)?;
    // Where the module names no function that the adapter takes its memory from, it adds a page.
    let takes = Parser::new(0).parse_all(&core).any(|payload| match payload {
        Ok(Payload::ExportSection(exports)) => {
            exports.into_iter().any(|export| export.is_ok_and(|export| export.name == "cabi_realloc_adapter"))
        }
        _ => false,
    });
    ComponentEncoder::default()
        .validate(true)
        .realloc_via_memory_grow(!takes)
        .module(&core)?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}

/// The same module without DWARF, which is most of some; names of functions stay.
fn without_debug_information(core: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut kept = core.get(..8).context("the module is cut off")?.to_vec();
    for payload in Parser::new(0).parse_all(core) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else { continue };
        if matches!(&payload, Payload::CustomSection(section) if section.name().starts_with(".debug_")) {
            continue;
        }
        let contents = core.get(range).context("a section is cut off")?;
        kept.push(id);
        let mut rest = contents.len();
        loop {
            let byte = (rest & 0x7f) as u8;
            rest >>= 7;
            kept.push(if rest == 0 { byte } else { byte | 0x80 });
            if rest == 0 {
                break;
            }
        }
        kept.extend(contents);
    }
    Ok(kept)
}

/// Whether a world of a project exports an interface of the contract, such as `init@0.1.0`, by itself or by
/// a world that it includes. Not, if its WIT cannot be read: the tool that needs it says what is wrong.
pub(super) fn exports(folder: &Path, world: &str, interface: &str) -> bool {
    let mut resolve = Resolve::default();
    let world =
        resolve.push_dir(folder).and_then(|(package, _)| resolve.select_world(&[package], Some(world)));
    let Some(world) = world.ok().and_then(|world| resolve.worlds.get(world)) else { return false };
    let id = format!("{INTERFACES}{interface}");
    world.exports.keys().any(|key| match key {
        WorldKey::Interface(exported) => resolve.id_of(*exported).as_ref() == Some(&id),
        WorldKey::Name(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MODULE: &str = r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "modelhost:handler/init@0.1.0#init") (param i32 i32) (result i32) i32.const 0)
        (func $elsewhere (export "other")))"#;

    #[test]
    fn a_component_exports_what_the_module_defines() {
        let core = wat::parse_str(MODULE).unwrap();
        let module = Module::read(&core).unwrap();
        assert_eq!(module.interfaces, ["init@0.1.0"]);
        assert!(module.functions.contains(&"elsewhere".to_owned()), "{module:?}");
        let component = component(core, &module.interfaces).unwrap();
        let mut exported = Vec::new();
        for payload in Parser::new(0).parse_all(&component) {
            if let Payload::ComponentExportSection(exports) = payload.unwrap() {
                exported.extend(exports.into_iter().map(|export| export.unwrap().name.name.to_owned()));
            }
        }
        assert!(exported.contains(&"modelhost:handler/init@0.1.0".to_owned()), "{exported:?}");
        assert!(!exported.contains(&"modelhost:handler/pre-inference@0.1.0".to_owned()), "{exported:?}");
    }

    #[test]
    fn an_interface_of_two_functions_is_named_once() {
        let text = r#"(module
            (func (export "modelhost:handler/respond-all@0.1.0#paths"))
            (func (export "modelhost:handler/respond-all@0.1.0#respond-all")))"#;
        let module = Module::read(&wat::parse_str(text).unwrap()).unwrap();
        assert_eq!(module.interfaces, ["respond-all@0.1.0"]);
    }

    #[test]
    fn a_world_exports_what_it_names_outside_of_comments() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &[u8]| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for file in OTHERS.iter().flat_map(|path| CONTRACT.get_dir(path).unwrap().files()) {
            write(file.path().to_str().unwrap(), file.contents());
        }
        for file in CONTRACT.files().filter(|file| is_wit(file.path())) {
            write(&format!("deps/modelhost/{}", file.path().display()), file.contents());
        }
        for (world, expected) in [
            ("export modelhost:handler/init@0.1.0;", true),
            ("include modelhost:handler/init-handler@0.1.0;", true),
            ("include modelhost:handler/every-handler@0.1.0;", true),
            ("include mine;", true),
            ("// export modelhost:handler/init@0.1.0;", false),
            ("/* export modelhost:handler/init@0.1.0; */", false),
            ("/* line\n  export modelhost:handler/init@0.1.0;\n*/", false),
            ("export initial-values: func();", false),
            ("export init: func();", false),
            ("import modelhost:handler/init@0.1.0;", false),
            ("export modelhost:handler/pre-inference@0.1.0;", false),
            ("export modelhost:handler/init@0.1.0", false),
        ] {
            let mine = "world mine { export modelhost:handler/init@0.1.0; }";
            write("world.wit", format!("package my:handler;\n{mine}\nworld app {{ {world} }}").as_bytes());
            assert_eq!(exports(folder.path(), "app", "init@0.1.0"), expected, "{world}");
        }
        assert!(!exports(&folder.path().join("none"), "app", "init@0.1.0"));
    }

    #[test]
    fn a_module_loses_its_dwarf_and_keeps_the_rest() {
        let text = MODULE.replace(
            "(module",
            "(module (@custom \".debug_info\" \"DWARF-here\") (@custom \"own\" \"stays\")",
        );
        let core = wat::parse_str(text).unwrap();
        let kept = without_debug_information(&core).unwrap();
        let has =
            |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has(&core, "DWARF-here") && !has(&kept, "DWARF-here"));
        assert!(has(&kept, "stays"));
        assert_eq!(Module::read(&kept).unwrap().functions, Module::read(&core).unwrap().functions);
    }

    #[test]
    fn a_module_that_calls_what_no_host_has_is_refused() {
        let core = wat::parse_str(r#"(module (import "env" "system" (func)) (memory (export "memory") 1))"#);
        let error = component(core.unwrap(), &[]).unwrap_err().to_string();
        assert!(error.contains("env") && error.contains("\n  hint: "), "{error}");
    }
}
