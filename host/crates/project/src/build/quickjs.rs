//! The component of a handler in JavaScript on QuickJS: the runtime, which is the same for all, with the
//! tables of the project's world and the bundle in it.
//!
//! In: the bundle, which is one module, and the world. Out: a component whose `init` runs the bundle; the
//! host keeps the memory that it leaves.
//! Invariant: nothing is run here, so a build takes as long as the bundler.

mod kind;
mod link;
mod names;
mod tables;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use wit_parser::{InterfaceId, Resolve, WorldId, WorldItem, WorldKey};

use self::link::linked;
pub(super) use self::names::camel;
use self::tables::tables;
use super::LARGEST;
use super::component::with_adapter;
use crate::beside;
use crate::file;

const INIT: &str = "modelhost:handler/init@";
const WORLDS: &str = "`engine = \"spidermonkey\"` under [build] in modelhost.toml takes every world";

/// The component of a bundle and the world `name` below the folder `wit`.
///
/// # Errors
/// The runtime is not installed, the world cannot be read or has more than the runtime can do, or the bundle
/// lacks an export.
pub(super) fn component(bundle: &Path, wit: &Path, name: &str) -> anyhow::Result<Vec<u8>> {
    let runtime = runtime()?;
    let source = file::text(bundle).with_context(|| format!("cannot read `{}`", bundle.display()))?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).with_context(|| format!("cannot read `{}`", wit.display()))?;
    let world = resolve.select_world(&[package], Some(name))?;
    check_exports(&resolve, world, &source)?;
    let own_init = add_init(&mut resolve, world)?;
    let tables = tables(&resolve, world, &source, own_init)
        .map_err(|error| anyhow!("the engine `quickjs` cannot do this: {error:#}\n  hint: {WORLDS}"))?;
    with_adapter(linked(&runtime, &tables)?, &resolve, world)
}

/// The module that has QuickJS inside.
fn runtime() -> anyhow::Result<Vec<u8>> {
    let executable = env::current_exe().context("cannot find out where this program is")?;
    let mut places = places(&executable);
    let path = places.find(|path| path.is_file()).context(
        "the engine `quickjs` is not installed
  hint: install the package `modelhost-library`, or `make libraries` in the sources",
    )?;
    file::read(&path, LARGEST).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Where the runtime may be that came with the program at `executable`.
fn places(executable: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    beside(executable, "share/modelhost/engine/quickjs.wasm", "target/components/engine/quickjs.wasm")
}

/// Whether an interface is the contract's `init`.
fn is_init(resolve: &Resolve, interface: InterfaceId) -> bool {
    resolve.id_of(interface).is_some_and(|name| name.starts_with(INIT))
}

/// Makes the world export `init`, which runs the bundle; whether it did not before.
fn add_init(resolve: &mut Resolve, world: WorldId) -> anyhow::Result<bool> {
    let mut interfaces = resolve.interfaces.iter().map(|(id, _)| id);
    let id = interfaces
        .find(|id| is_init(resolve, *id))
        .context("wit/deps does not have the contract's `init`")?;
    let world = resolve.worlds.get_mut(world).context("there is no world")?;
    let key = WorldKey::Interface(id);
    if world.exports.contains_key(&key) {
        return Ok(false);
    }
    let init = WorldItem::Interface {
        id,
        stability: Default::default(),
        external_id: None,
        docs: Default::default(),
        span: Default::default(),
    };
    world.exports.insert(key, init);
    Ok(true)
}

/// Looks for what the world exports in the bundle, which ends with a list of its own exports.
fn check_exports(resolve: &Resolve, world: WorldId, bundle: &str) -> anyhow::Result<()> {
    let list = match bundle.rsplit_once("\nexport {") {
        Some((_, list)) => list.split('}').next().unwrap_or_default(),
        // An empty file, or one without exports.
        None if !bundle.contains("export") => "",
        None => return Ok(()),
    };
    let names: Vec<&str> = list
        .split(',')
        .filter_map(|it| it.rsplit(" as ").next())
        .map(|name| name.trim().trim_matches('"'))
        .collect();
    let world = resolve.worlds.get(world).context("there is no world")?;
    for (key, item) in &world.exports {
        let (name, what) = match (key, item) {
            (WorldKey::Interface(id), _) => {
                let name = resolve.interfaces.get(*id).and_then(|it| it.name.clone());
                (name.unwrap_or_default(), "interface")
            }
            (WorldKey::Name(name), WorldItem::Function(_)) => (name.clone(), "function"),
            (WorldKey::Name(name), _) => (name.clone(), "interface"),
        };
        let wanted = camel(&name, false);
        ensure!(
            names.contains(&wanted.as_str()),
            "\"handler.js\" does not export a \"{wanted}\" {what} as expected by the world.
  hint: wit/world.wit lists what the component exports"
        );
    }
    Ok(())
}

/// Writes the component.
///
/// # Errors
/// See [`component`].
pub(super) fn write(bundle: &Path, wit: &Path, name: &str, output: &Path) -> anyhow::Result<()> {
    fs::write(output, component(bundle, wit, name)?).context("cannot write the component")
}

#[cfg(test)]
mod tests {
    use wasmparser::{Parser, Payload, Validator};

    use super::*;

    /// A runtime in name only.
    const RUNTIME: &str = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (import "handler" "call" (func $call (param i32 i32)))
        (import "handler" "length" (func $length (result i32)))
        (import "handler" "copy" (func $copy (param i32)))
        (memory (export "memory") 2)
        (global (export "frame") i32 i32.const 64)
        (table 1 funcref) (elem (i32.const 0) $call)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "dispatch") (param i32)
            (call $copy (call $length)) (call $call (i32.const 0) (i32.const 64)) (call $exit (i32.const 1)))
        (func (export "post_return"))
        (data (i32.const 128) "data"))"#;

    const WIT: &str = "package test:project;
        interface things {
            enum colour { red, dark-green }
            record part { the-name: string, sizes: list<u64>, colour: option<colour> }
            variant why { gone(string), other }
            flags marks { a, b }
            resource thing {
                constructor(name: string);
                size: func() -> u64;
                open: static func(name: string, marks: marks) -> result<thing, why>;
            }
            many: func(a: u8, b: f32, c: list<part>, d: tuple<s16, f64>) -> result<list<part>, why>;
        }
        interface init { init: func(metadata: string) -> result<_, string>; }
        interface work {
            use things.{thing, part};
            work: func(it: borrow<thing>, parts: list<part>) -> result<part, string>;
        }
        world app { import things; export work; export init; }
        world resources { export things; }
        world by-itself { import f: func(); export init; }";

    fn world(name: &str) -> (Resolve, WorldId) {
        let mut resolve = Resolve::default();
        let package = resolve.push_source("own.wit", WIT).unwrap();
        let world = resolve.select_world(&[package], Some(name)).unwrap();
        (resolve, world)
    }

    #[test]
    fn what_is_linked_is_what_the_world_says() {
        let (resolve, world) = world("app");
        let tables = tables(&resolve, world, "export const work = 1;", false).unwrap();
        assert_eq!(tables.imports.len(), 5);
        let runtime = wat::parse_str(RUNTIME).unwrap();
        let module = linked(&runtime, &tables).unwrap();
        Validator::new().validate_all(&module).unwrap();
        let mut imported = Vec::new();
        for payload in Parser::new(0).parse_all(&module) {
            if let Payload::ImportSection(imports) = payload.unwrap() {
                imported.extend(imports.into_imports().map(|import| import.unwrap().name.to_owned()));
            }
        }
        let expected = [
            "proc_exit",
            "[constructor]thing",
            "[method]thing.size",
            "[static]thing.open",
            "many",
            "[resource-drop]thing",
        ];
        assert_eq!(imported, expected);
        let component = with_adapter(module, &resolve, world).unwrap();
        Validator::new().validate_all(&component).unwrap();
    }

    #[test]
    fn what_the_runtime_cannot_do_is_named() {
        for (name, expected) in [("resources", "resource"), ("by-itself", "`f`")] {
            let (resolve, world) = world(name);
            let error = tables(&resolve, world, "", false).err().map(|error| format!("{error:#}"));
            assert!(error.as_ref().is_some_and(|error| error.contains(expected)), "{name}: {error:?}");
        }
    }

    /// Other interfaces have functions of that name, and may be called so.
    #[test]
    fn only_the_contracts_init_is_init() {
        let mut resolve = Resolve::default();
        let own = "package test:project;
            interface work { init: func(); work: func(); }
            world app { export work; export init: func(); }
            world whole { include app; export modelhost:handler/init@0.1.0; }
            package modelhost:handler@0.1.0 { interface init { init: func(); } }";
        let package = resolve.push_source("own.wit", own).unwrap();
        for (name, is_added) in [("app", true), ("whole", false)] {
            let world = resolve.select_world(&[package], Some(name)).unwrap();
            assert_eq!(add_init(&mut resolve, world).unwrap(), is_added);
            let tables = tables(&resolve, world, "", is_added).unwrap();
            let word = |at: usize| u32::from_le_bytes(tables.bytes[4 * at..][..4].try_into().unwrap());
            let (at, count) = (word(7) as usize, word(8) as usize);
            let marked = (0..count).filter(|row| word(at + 8 * row + 2) == 4);
            let marked: Vec<_> = marked.map(|row| tables.exports[row].name.as_str()).collect();
            assert_eq!(marked, ["modelhost:handler/init@0.1.0#init"], "{name}");
        }
    }

    #[test]
    fn a_bundle_lacks_what_its_list_lacks() {
        let (resolve, world) = world("app");
        for (bundle, expected) in [
            ("var a;\nexport { a as work, init };\n", None),
            ("export const work = 1;", None),
            ("var a;\nexport { init };\n", Some("\"handler.js\" does not export a \"work\" interface")),
            ("", Some("\"handler.js\" does not export a \"work\" interface")),
        ] {
            let error = check_exports(&resolve, world, bundle).err().map(|error| error.to_string());
            match expected {
                None => assert_eq!(error, None, "{bundle}"),
                Some(part) => assert!(error.as_ref().is_some_and(|it| it.starts_with(part)), "{error:?}"),
            }
        }
    }
}
