//! A handler and the libraries that it imports, put together to one component.
//!
//! Place in the flow: the last step of a build. In: the component of the handler, those of the libraries.
//! Out: a component that has all of them inside, exports what the handler does, and imports what is left.
//! Invariants: the parts stay what they are, each with a memory of its own; a library gets what an earlier
//! one exports, the handler what any of them does; what comes out has been validated.

use std::collections::HashMap;

use anyhow::{Context as _, anyhow, bail, ensure};
use wasm_encoder::reencode::{ReencodeComponent as _, RoundtripReencoder};
use wasm_encoder::{
    Alias, Component, ComponentAliasSection, ComponentExportKind, ComponentExportSection,
    ComponentImportSection, ComponentInstanceSection, ComponentSectionId, ComponentTypeSection, RawSection,
};
use wasmparser::{
    ComponentExternalKind, ComponentType, ComponentTypeDeclaration, Parser, Payload, Validator,
};
use wit_component::DecodedWasm;
use wit_parser::{Package, PackageId, PackageName, Resolve, Span, WorldId};

use super::libraries::hint;

/// The hint where types differ.
const SAME_WIT: &str = "each has to be built with the same WIT of the interfaces between them";

/// The handler in messages.
const HANDLER: &str = "the handler";

/// A component that exports interfaces for handlers.
pub(super) struct Library {
    /// As the project calls it.
    pub(super) name: String,
    /// The component.
    pub(super) bytes: Vec<u8>,
}

/// A part of the component that is made.
struct Member<'a> {
    /// For messages.
    name: String,
    bytes: &'a [u8],
    names: Names,
    /// The imports that an earlier part exports.
    plugged: HashMap<String, Export>,
}

/// An export of one of the parts.
#[derive(Clone)]
struct Export {
    part: usize,
    name: String,
}

/// The names that a component imports and exports.
#[derive(Default)]
struct Names {
    imports: Vec<(String, ComponentExportKind)>,
    exports: Vec<(String, ComponentExportKind)>,
}

/// The handler with its libraries inside; `None` if it takes nothing of any of them. The names of those that
/// nothing is taken of are put into `idle`.
///
/// # Errors
/// Something that is imported is neither the host's nor exported by a library, not in this version, or is
/// exported twice or with other types.
pub(super) fn compose<'a>(
    handler: &[u8],
    libraries: &'a [Library],
    idle: &mut Vec<&'a str>,
) -> anyhow::Result<Option<Vec<u8>>> {
    let mut parts = Vec::new();
    for library in libraries {
        let name = format!("library `{}`", library.name);
        parts.push(Member::read(name, &library.bytes, &parts)?);
    }
    parts.push(Member::read(HANDLER.to_owned(), handler, &parts)?);
    let used = used(&parts);
    let names = libraries.iter().zip(&used).filter(|(_, is_used)| !**is_used);
    idle.extend(names.map(|(library, _)| library.name.as_str()));
    if used.iter().filter(|is_used| **is_used).count() == 1 {
        return Ok(None);
    }
    let composed = put_together(&parts, &used)?;
    validate(&composed)
        .map_err(|error| anyhow!("the handler and its libraries do not fit: {error}\n  hint: {SAME_WIT}"))?;
    Ok(Some(composed))
}

impl<'a> Member<'a> {
    fn read(name: String, bytes: &'a [u8], earlier: &[Member<'_>]) -> anyhow::Result<Member<'a>> {
        let names = Names::of(bytes).with_context(|| format!("{name} is no component"))?;
        let mut plugged = HashMap::new();
        for (import, _) in names.imports.iter().filter(|(import, _)| !is_hosts(import)) {
            let found = earlier.iter().enumerate().flat_map(|(part, other)| {
                let exports = other.names.exports.iter().map(|(export, _)| export);
                let same = exports.filter(|export| interface(export).0 == interface(import).0);
                same.map(move |export| Export { part, name: export.clone() })
            });
            let found: Vec<Export> = found.collect();
            let said = |export: &Export| earlier.get(export.part).map_or("", |part| part.name.as_str());
            match found.as_slice() {
                [] => {
                    let before = if name == HANDLER { "" } else { " before it" };
                    bail!(
                        "{name} imports `{import}`, which no library{before} exports\n  hint: {}",
                        hint(import)
                    );
                }
                [export] if is_served(import, &export.name) => {
                    plugged.insert(import.clone(), export.clone());
                }
                [export] => bail!(
                    "{name} imports `{import}`, and {} exports `{}`
  hint: build both with the same version of the interface",
                    said(export),
                    export.name
                ),
                [one, other, ..] => {
                    bail!("{} and {} both export `{}`", said(one), said(other), interface(import).0);
                }
            }
        }
        Ok(Member { name, bytes, names, plugged })
    }
}

/// Whether an import is the host's to give, which checks it when it loads the component.
fn is_hosts(import: &str) -> bool {
    import.starts_with("modelhost:handler/") || import.starts_with("wasi:")
}

/// An interface's name without its version, and the version.
fn interface(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// Whether who imports one version can be given the other: of the same line, and not an earlier one.
fn is_served(import: &str, export: &str) -> bool {
    let parsed = |name: &str| -> Option<Vec<u64>> {
        let version = interface(name).1;
        version.split('.').map(|number| number.parse().ok()).collect()
    };
    match (parsed(import).as_deref(), parsed(export).as_deref()) {
        (Some([0, minor, patch]), Some([0, other, later])) => minor == other && later >= patch,
        (Some([major, rest @ ..]), Some([other, later @ ..])) => major == other && later >= rest,
        _ => interface(import).1 == interface(export).1,
    }
}

/// Whether the handler takes something of each part, by itself or by another.
fn used(parts: &[Member<'_>]) -> Vec<bool> {
    let mut used = vec![false; parts.len()];
    if let Some(handler) = used.last_mut() {
        *handler = true;
    }
    for (at, part) in parts.iter().enumerate().rev() {
        if used.get(at) == Some(&true) {
            for export in part.plugged.values() {
                if let Some(is_used) = used.get_mut(export.part) {
                    *is_used = true;
                }
            }
        }
    }
    used
}

impl Names {
    fn of(bytes: &[u8]) -> anyhow::Result<Names> {
        ensure!(Parser::is_component(bytes), "it does not begin as one does");
        let (mut names, mut depth) = (Names::default(), 0_usize);
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        let import = import?;
                        names.imports.push((import.name.name.to_owned(), kind(import.ty.kind())));
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        let export = export?;
                        names.exports.push((export.name.name.to_owned(), kind(export.kind)));
                    }
                }
                _ => {}
            }
        }
        Ok(names)
    }
}

fn kind(kind: ComponentExternalKind) -> ComponentExportKind {
    RoundtripReencoder.component_export_kind(kind)
}

/// The component, section by section.
#[derive(Default)]
struct Output {
    component: Component,
    /// How many of each kind there are.
    counts: Vec<(ComponentExportKind, u32)>,
    components: u32,
    /// Imports by name.
    imported: HashMap<String, u32>,
}

impl Output {
    /// The index of one more of this kind.
    fn next(&mut self, kind: ComponentExportKind) -> u32 {
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| *known == kind) {
            *count += 1;
            return *count - 1;
        }
        self.counts.push((kind, 1));
        0
    }

    fn alias(&mut self, alias: Alias<'_>, kind: ComponentExportKind) -> u32 {
        let mut section = ComponentAliasSection::new();
        section.alias(alias);
        self.component.section(&section);
        self.next(kind)
    }

    /// A part's export, to be given to another.
    fn taken(&mut self, instance: u32, name: &str, kind: ComponentExportKind) -> u32 {
        self.alias(Alias::InstanceExport { instance, kind, name }, kind)
    }

    /// Adds the imports of all parts, as declared by a type whose declarations are those of a component.
    fn import(&mut self, declarations: Vec<ComponentTypeDeclaration<'_>>) -> anyhow::Result<()> {
        let mut same = RoundtripReencoder;
        for declaration in declarations {
            match declaration {
                ComponentTypeDeclaration::Type(ty) => {
                    let mut section = ComponentTypeSection::new();
                    same.parse_component_type(section.ty(), ty)?;
                    self.component.section(&section);
                    self.next(ComponentExportKind::Type);
                }
                ComponentTypeDeclaration::Alias(alias) => {
                    // The world of imports names nothing but types of what it imports.
                    let alias = same.component_alias(alias)?;
                    self.alias(alias, ComponentExportKind::Type);
                }
                ComponentTypeDeclaration::Import(import) => {
                    let mut section = ComponentImportSection::new();
                    section.import(import.name, same.component_type_ref(import.ty)?);
                    self.component.section(&section);
                    let index = self.next(kind(import.ty.kind()));
                    self.imported.insert(import.name.name.to_owned(), index);
                }
                ComponentTypeDeclaration::CoreType(_) | ComponentTypeDeclaration::Export { .. } => {
                    bail!("a world of imports has something else");
                }
            }
        }
        Ok(())
    }

    /// Puts a part in, and makes an instance of it.
    fn instance(&mut self, part: &Member<'_>, instances: &[Option<u32>]) -> anyhow::Result<u32> {
        self.component.section(&RawSection { id: ComponentSectionId::Component.into(), data: part.bytes });
        let mut arguments = Vec::new();
        for (import, kind) in &part.names.imports {
            let index = match part.plugged.get(import) {
                Some(export) => {
                    let instance = instances.get(export.part).copied().flatten();
                    let instance = instance.context("a library comes after what imports it")?;
                    self.taken(instance, &export.name, *kind)
                }
                None => *self.imported.get(import).with_context(|| format!("`{import}` is lost"))?,
            };
            arguments.push((import.as_str(), *kind, index));
        }
        let mut section = ComponentInstanceSection::new();
        section.instantiate(self.components, arguments);
        self.component.section(&section);
        self.components += 1;
        Ok(self.next(ComponentExportKind::Instance))
    }
}

fn put_together(parts: &[Member<'_>], used: &[bool]) -> anyhow::Result<Vec<u8>> {
    let mut output = Output::default();
    let world = imports(parts, used)?;
    output.import(declarations(&world)?)?;
    let mut instances = Vec::new();
    for (part, is_used) in parts.iter().zip(used) {
        instances.push(is_used.then(|| output.instance(part, &instances)).transpose()?);
    }
    let (Some(handler), Some(Some(instance))) = (parts.last(), instances.last()) else {
        bail!("there is no handler");
    };
    for (name, kind) in &handler.names.exports {
        let index = output.taken(*instance, name, *kind);
        let mut section = ComponentExportSection::new();
        section.export(name.as_str(), *kind, index, None);
        output.component.section(&section);
        output.next(*kind);
    }
    Ok(output.component.finish())
}

/// A world that imports what is imported by any part and exported by none, in bytes. Two views of one
/// interface become one that has what either has.
fn imports(parts: &[Member<'_>], used: &[bool]) -> anyhow::Result<Vec<u8>> {
    let mut all = Resolve::default();
    let mut worlds: Vec<(WorldId, &Member<'_>)> = Vec::new();
    for (number, (part, _)) in parts.iter().zip(used).filter(|(_, is_used)| **is_used).enumerate() {
        let decoded = wit_component::decode(part.bytes);
        let (mut own, world) = match decoded.with_context(|| format!("cannot read {}", part.name))? {
            DecodedWasm::Component(own, world) => (own, world),
            DecodedWasm::WitPackage(..) => bail!("{} is a package of WIT, not a component", part.name),
        };
        rename(&mut own, world, &format!("part{number}"))?;
        let merged = all.merge(own).map_err(|error| {
            anyhow!("{} does not fit the other parts: {error:#}\n  hint: {SAME_WIT}", part.name)
        })?;
        worlds.push((merged.map_world(world, Span::default()).map_err(|error| anyhow!("{error}"))?, part));
    }
    let (first, _) = worlds.first().context("there is no part")?;
    let mut whole = all.worlds.get(*first).context("a world is lost")?.clone();
    whole.imports.clear();
    whole.exports.clear();
    for (world, part) in worlds {
        for (key, item) in &all.worlds.get(world).context("a world is lost")?.imports {
            if !part.plugged.contains_key(&all.name_world_key(key)) {
                whole.imports.entry(key.clone()).or_insert_with(|| item.clone());
            }
        }
    }
    let package = package(&mut all, "composed");
    whole.name = "imports".to_owned();
    whole.package = Some(package);
    let world = all.worlds.alloc(whole);
    let package_of = all.packages.get_mut(package).context("a package is lost")?;
    package_of.worlds.insert("imports".to_owned(), world);
    // After it, what an interface takes types from comes before it in each world.
    all.merge(Resolve::default())?;
    wit_component::encode(&all, package)
}

/// Gives a component's world, which is called the same in all of them, a name of its own.
fn rename(resolve: &mut Resolve, world: WorldId, name: &str) -> anyhow::Result<()> {
    let package = resolve.worlds.get(world).and_then(|world| world.package);
    let package = package.context("a component's world has no package")?;
    let named = resolve.packages.get_mut(package).context("a package is lost")?;
    let old = std::mem::replace(&mut named.name, package_name(name));
    resolve.package_names.shift_remove(&old);
    resolve.package_names.insert(package_name(name), package);
    Ok(())
}

fn package(resolve: &mut Resolve, name: &str) -> PackageId {
    let name = package_name(name);
    let package = Package {
        name: name.clone(),
        docs: Default::default(),
        interfaces: Default::default(),
        worlds: Default::default(),
    };
    let package = resolve.packages.alloc(package);
    resolve.package_names.insert(name, package);
    package
}

fn package_name(name: &str) -> PackageName {
    PackageName { namespace: "modelhost-build".to_owned(), name: name.to_owned(), version: None }
}

/// The declarations of the one world of an encoded package.
fn declarations(package: &[u8]) -> anyhow::Result<Vec<ComponentTypeDeclaration<'_>>> {
    for payload in Parser::new(0).parse_all(package) {
        let Payload::ComponentTypeSection(types) = payload? else { continue };
        for ty in types {
            // The type of the world stands in that of a component which exports it.
            let ComponentType::Component(outer) = ty? else { continue };
            for declaration in Vec::from(outer) {
                if let ComponentTypeDeclaration::Type(ComponentType::Component(world)) = declaration {
                    return Ok(Vec::from(world));
                }
            }
        }
    }
    bail!("a world was not encoded")
}

/// Checks all but the code, which compiling checks.
fn validate(component: &[u8]) -> Result<(), wasmparser::BinaryReaderError> {
    let mut validator = Validator::new();
    for payload in Parser::new(0).parse_all(component) {
        validator.payload(&payload?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
