//! A world as the tables that the runtime of QuickJS reads: its types, what is imported and what is exported.
//!
//! In: a world of WIT, and the handler's source. Out: the bytes of the tables, and the functions that the
//! module has to import and to export for them. The form is that of `guest-sdk/quickjs/runtime.c`.
//! Invariant: a world that has more than the runtime can do is refused, with the name of what it is.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use wit_parser::abi::{AbiVariant, WasmSignature};
use wit_parser::{
    Function, FunctionKind, Handle, InterfaceId, LiftLowerAbi, ManglingAndAbi, Resolve, ResourceIntrinsic,
    SizeAlign, Type, TypeDefKind, TypeId, TypeOwner, WasmExport, WasmExportKind, WasmImport, WorldId,
    WorldItem, WorldKey,
};

use super::is_init;
use super::kind::Kind;
use super::names::camel;

const MAGIC: u32 = 0x3251_484d;
const NONE: u32 = u32::MAX;
/// The words before the tables.
const HEADER: usize = 12;
const OWN_INIT: u32 = 1;
/// The contract's `init`, among the kinds of functions.
const INIT_KIND: u32 = 4;
const NAMES: ManglingAndAbi = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);

/// A function of the module at its border.
pub(super) struct CoreFunction {
    /// Of an import.
    pub(super) module: String,
    pub(super) name: String,
    /// Of an export whose result is in memory: the name of the function that frees it.
    pub(super) post_return: Option<String>,
    pub(super) signature: WasmSignature,
}

/// A world to the runtime.
pub(super) struct Tables {
    pub(super) bytes: Vec<u8>,
    pub(super) imports: Vec<CoreFunction>,
    pub(super) exports: Vec<CoreFunction>,
}

/// The tables of a world, with the handler's source; `own_init` if its `init` is not the handler's.
///
/// # Errors
/// The world has something that the runtime cannot do.
pub(super) fn tables(
    resolve: &Resolve,
    world: WorldId,
    source: &str,
    own_init: bool,
) -> anyhow::Result<Tables> {
    let mut sizes = SizeAlign::default();
    sizes.fill(resolve);
    let mut making = Making { resolve, sizes, ..Making::new(resolve) };
    let world = resolve.worlds.get(world).context("there is no world")?;
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let (mut imported, mut exported) = (Vec::new(), Vec::new());
    for (key, item) in &world.imports {
        match item {
            WorldItem::Interface { id, .. } => {
                for function in making.functions(*id)? {
                    let import = WasmImport::Func { interface: Some(key), func: function };
                    imports.push(making.import(import, function));
                    imported.push(making.function(Some(*id), function, AbiVariant::GuestImport)?);
                }
            }
            WorldItem::Function(function) => {
                bail!("the world imports the function `{}` by itself, not in an interface", function.name)
            }
            WorldItem::Type { .. } => {}
        }
    }
    for (key, item) in &world.exports {
        let (id, functions) = match item {
            WorldItem::Interface { id, .. } => (Some((key, *id)), making.functions(*id)?),
            WorldItem::Function(function) => (None, vec![function]),
            WorldItem::Type { .. } => continue,
        };
        for function in functions {
            ensure!(
                matches!(function.kind, FunctionKind::Freestanding),
                "the world exports a resource or an asynchronous function, `{}`",
                function.name
            );
            exports.push(making.export(id.map(|(key, _)| key), function));
            let mut row = making.function(id.map(|(_, id)| id), function, AbiVariant::GuestExport)?;
            if id.is_some_and(|(_, id)| is_init(resolve, id)) {
                let [kind, ..] = &mut row.rest;
                *kind = INIT_KIND;
            }
            exported.push(row);
        }
    }
    let drops: Vec<CoreFunction> =
        making.resources.iter().map(|it| making.drop(*it)).collect::<anyhow::Result<_>>()?;
    let first_drop = imports.len();
    imports.extend(drops);
    let bytes = making.finish(&imported, &exported, first_drop, source, own_init)?;
    Ok(Tables { bytes, imports, exports })
}

/// A function in the words of the tables, with its texts in place of their numbers.
struct Row {
    /// The name of an imported interface, or the one that an exported one has in JavaScript.
    interface: Option<String>,
    name: String,
    rest: [u32; 6],
}

struct Making<'a> {
    resolve: &'a Resolve,
    sizes: SizeAlign,
    words: Vec<u32>,
    texts: Vec<u8>,
    /// The words that are numbers of texts.
    text_words: Vec<usize>,
    /// The word at which each type begins.
    types: Vec<u32>,
    known: HashMap<Type, u32>,
    resources: Vec<TypeId>,
}

impl<'a> Making<'a> {
    fn new(resolve: &'a Resolve) -> Making<'a> {
        Making {
            resolve,
            sizes: SizeAlign::default(),
            words: vec![0; HEADER],
            texts: Vec::new(),
            text_words: Vec::new(),
            types: Vec::new(),
            known: HashMap::new(),
            resources: Vec::new(),
        }
    }

    fn functions(&self, interface: InterfaceId) -> anyhow::Result<Vec<&'a Function>> {
        let interface = self.resolve.interfaces.get(interface).context("there is no interface")?;
        Ok(interface.functions.values().collect())
    }

    fn import(&self, import: WasmImport<'_>, function: &Function) -> CoreFunction {
        let signature = self.resolve.wasm_signature(AbiVariant::GuestImport, function);
        let (module, name) = self.resolve.wasm_import_name(NAMES, import);
        CoreFunction { module, name, post_return: None, signature }
    }

    fn export(&self, interface: Option<&WorldKey>, function: &Function) -> CoreFunction {
        let signature = self.resolve.wasm_signature(AbiVariant::GuestExport, function);
        let name = |kind| {
            let export = WasmExport::Func { interface, func: function, kind };
            self.resolve.wasm_export_name(NAMES, export)
        };
        let post_return = signature.retptr.then(|| name(WasmExportKind::PostReturn));
        CoreFunction { module: String::new(), name: name(WasmExportKind::Normal), post_return, signature }
    }

    fn drop(&self, resource: TypeId) -> anyhow::Result<CoreFunction> {
        let owner = self.resolve.types.get(resource).context("there is no resource")?.owner;
        let TypeOwner::Interface(interface) = owner else { bail!("the world has a resource of its own") };
        let key = WorldKey::Interface(interface);
        let import = WasmImport::ResourceIntrinsic {
            interface: Some(&key),
            resource,
            intrinsic: ResourceIntrinsic::ImportedDrop,
        };
        let (module, name) = self.resolve.wasm_import_name(NAMES, import);
        let signature = WasmSignature {
            params: vec![wit_parser::abi::WasmType::I32],
            results: Vec::new(),
            indirect_params: false,
            retptr: false,
        };
        Ok(CoreFunction { module, name, post_return: None, signature })
    }

    fn function(
        &mut self,
        interface: Option<InterfaceId>,
        function: &Function,
        variant: AbiVariant,
    ) -> anyhow::Result<Row> {
        let at = || format!("the world's function `{}`", function.name);
        let signature = self.resolve.wasm_signature(variant, function);
        let (kind, resource) = match function.kind {
            FunctionKind::Freestanding => (0, NONE),
            FunctionKind::Method(id) => (1, self.resource(id)),
            FunctionKind::Static(id) => (2, self.resource(id)),
            FunctionKind::Constructor(id) => (3, self.resource(id)),
            _ => bail!("{} is asynchronous", at()),
        };
        let types: Vec<Type> = function.params.iter().map(|it| it.ty).collect();
        let parameters = self.members(Kind::Tuple, &types, None).with_context(at)?;
        let result = match &function.result {
            Some(result) => self.number(result).with_context(at)?,
            None => NONE,
        };
        let mode = match (result, signature.retptr) {
            (NONE, _) => 0,
            (_, false) => 1,
            (_, true) => 2,
        };
        let interface = match (interface, variant) {
            (None, _) => None,
            (Some(id), AbiVariant::GuestImport) => self.resolve.id_of(id),
            (Some(id), _) => {
                let name = self.resolve.interfaces.get(id).and_then(|it| it.name.as_deref());
                name.map(|name| camel(name, false))
            }
        };
        Ok(Row {
            interface,
            name: camel(function.item_name(), false),
            rest: [kind, resource, parameters, result, signature.indirect_params.into(), mode],
        })
    }

    fn resource(&mut self, id: TypeId) -> u32 {
        let mut id = id;
        while let Some(TypeDefKind::Type(Type::Id(of))) = self.resolve.types.get(id).map(|it| &it.kind) {
            id = *of;
        }
        let at = self.resources.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.resources.push(id);
            self.resources.len() - 1
        });
        u32::try_from(at).unwrap_or(NONE)
    }

    /// The number of a type.
    fn number(&mut self, of: &Type) -> anyhow::Result<u32> {
        if let Some(number) = self.known.get(of) {
            return Ok(*number);
        }
        let number = self.add(of)?;
        self.known.insert(*of, number);
        Ok(number)
    }

    fn add(&mut self, of: &Type) -> anyhow::Result<u32> {
        let kind = match of {
            Type::Bool => Kind::Bool,
            Type::S8 => Kind::S8,
            Type::U8 => Kind::U8,
            Type::S16 => Kind::S16,
            Type::U16 => Kind::U16,
            Type::S32 => Kind::S32,
            Type::U32 => Kind::U32,
            Type::S64 => Kind::S64,
            Type::U64 => Kind::U64,
            Type::F32 => Kind::F32,
            Type::F64 => Kind::F64,
            Type::Char => Kind::Char,
            Type::String => return Ok(self.plain(Kind::String, of, 2, &[])),
            Type::ErrorContext => bail!("it has an error context"),
            Type::Id(id) => return self.defined(*id, of),
        };
        Ok(self.plain(kind, of, 1, &[]))
    }

    fn defined(&mut self, id: TypeId, of: &Type) -> anyhow::Result<u32> {
        let resolve = self.resolve;
        let defined = resolve.types.get(id).context("there is no type")?;
        match &defined.kind {
            TypeDefKind::Type(inner) => self.number(inner),
            TypeDefKind::List(element) => {
                let element = self.number(element)?;
                Ok(self.plain(Kind::List, of, 2, &[element]))
            }
            TypeDefKind::Record(record) => {
                let types: Vec<Type> = record.fields.iter().map(|it| it.ty).collect();
                let names: Vec<String> = record.fields.iter().map(|it| camel(&it.name, false)).collect();
                self.members(Kind::Record, &types, Some(&names))
            }
            TypeDefKind::Tuple(tuple) => self.members(Kind::Tuple, &tuple.types, None),
            TypeDefKind::Variant(variant) => {
                let cases = variant.cases.iter().map(|it| (it.name.clone(), it.ty));
                self.cases(Kind::Variant, of, variant.tag(), cases.collect())
            }
            TypeDefKind::Enum(names) => {
                let cases = names.cases.iter().map(|it| (it.name.clone(), None));
                self.cases(Kind::Enum, of, names.tag(), cases.collect())
            }
            TypeDefKind::Option(inner) => {
                let cases = vec![("none".to_owned(), None), ("some".to_owned(), Some(*inner))];
                self.cases(Kind::Option, of, wit_parser::Int::U8, cases)
            }
            TypeDefKind::Result(result) => {
                let cases = vec![("ok".to_owned(), result.ok), ("err".to_owned(), result.err)];
                self.cases(Kind::Result, of, wit_parser::Int::U8, cases)
            }
            TypeDefKind::Flags(flags) => {
                ensure!(flags.flags.len() <= 32, "it has more than 32 flags");
                let names: Vec<u32> =
                    flags.flags.iter().map(|it| self.text(&camel(&it.name, false))).collect();
                let count = u32::try_from(names.len())?;
                let number = self.plain(Kind::Flags, of, 1, &[count]);
                for name in names {
                    self.push_text(name);
                }
                Ok(number)
            }
            TypeDefKind::Handle(handle) => {
                let (kind, resource) = match handle {
                    Handle::Own(id) => (Kind::Own, *id),
                    Handle::Borrow(id) => (Kind::Borrow, *id),
                };
                let resource = self.resource(resource);
                Ok(self.plain(kind, of, 1, &[resource]))
            }
            other => bail!("it has a {}", other.as_str()),
        }
    }

    fn members(&mut self, kind: Kind, types: &[Type], names: Option<&[String]>) -> anyhow::Result<u32> {
        let mut rows = Vec::new();
        let mut flat = 0;
        for (at, of) in types.iter().enumerate() {
            let number = self.number(of)?;
            flat += self.flat(number);
            let name = names.and_then(|names| names.get(at)).map(|name| self.text(name));
            rows.push((name, number));
        }
        let info = self.sizes.record(types);
        let offsets = self.sizes.field_offsets(types);
        self.begin(kind, info.size.size_wasm32(), info.align.align_wasm32(), flat);
        self.words.push(u32::try_from(rows.len())?);
        for ((name, number), (offset, _)) in rows.into_iter().zip(offsets) {
            match name {
                Some(name) => self.push_text(name),
                None => self.words.push(NONE),
            }
            self.words.push(number);
            self.words.push(u32::try_from(offset.size_wasm32())?);
        }
        Ok(self.last())
    }

    fn cases(
        &mut self,
        kind: Kind,
        of: &Type,
        tag: wit_parser::Int,
        cases: Vec<(String, Option<Type>)>,
    ) -> anyhow::Result<u32> {
        let mut rows = Vec::new();
        let mut flat = 0;
        for (name, inner) in &cases {
            let number = inner.as_ref().map(|inner| self.number(inner)).transpose()?;
            flat = flat.max(number.map_or(0, |number| self.flat(number)));
            rows.push((self.text(name), number.unwrap_or(NONE)));
        }
        let payload = self.sizes.payload_offset(tag, cases.iter().map(|(_, inner)| inner.as_ref()));
        let width = match tag {
            wit_parser::Int::U8 => 1,
            wit_parser::Int::U16 => 2,
            _ => 4,
        };
        let size = self.sizes.size(of).size_wasm32();
        self.begin(kind, size, self.sizes.align(of).align_wasm32(), flat + 1);
        self.words.extend([u32::try_from(rows.len())?, width, u32::try_from(payload.size_wasm32())?]);
        for (name, number) in rows {
            self.push_text(name);
            self.words.extend([number, 0]);
        }
        Ok(self.last())
    }

    fn plain(&mut self, kind: Kind, of: &Type, flat: u32, rest: &[u32]) -> u32 {
        let (size, align) = (self.sizes.size(of).size_wasm32(), self.sizes.align(of).align_wasm32());
        self.begin(kind, size, align, flat);
        self.words.extend(rest);
        self.last()
    }

    fn begin(&mut self, kind: Kind, size: usize, align: usize, flat: u32) {
        self.types.push(self.words.len() as u32);
        self.words.extend([kind as u32, size as u32, align as u32, flat]);
    }

    fn last(&self) -> u32 {
        self.types.len() as u32 - 1
    }

    /// How many flat values a type is.
    fn flat(&self, number: u32) -> u32 {
        let at = self.types.get(number as usize).map_or(0, |at| *at as usize);
        self.words.get(at + 3).copied().unwrap_or(0)
    }

    /// Where a text is among the texts.
    fn text(&mut self, text: &str) -> u32 {
        let at = self.texts.len() as u32;
        self.texts.extend(text.as_bytes());
        self.texts.push(0);
        at
    }

    fn push_text(&mut self, text: u32) {
        self.text_words.push(self.words.len());
        self.words.push(text);
    }

    fn finish(
        mut self,
        imports: &[Row],
        exports: &[Row],
        first_drop: usize,
        source: &str,
        own_init: bool,
    ) -> anyhow::Result<Vec<u8>> {
        let at_types = self.words.len() as u32;
        let types = std::mem::take(&mut self.types);
        self.words.extend(&types);
        let at_imports = self.rows(imports);
        let at_exports = self.rows(exports);
        let at_resources = self.words.len() as u32;
        let resources = self.resources.clone();
        for (at, id) in resources.iter().enumerate() {
            let resource = self.resolve.types.get(*id).context("there is no resource")?;
            let interface = match resource.owner {
                TypeOwner::Interface(id) => self.resolve.id_of(id).unwrap_or_default(),
                _ => String::new(),
            };
            let interface = self.text(&interface);
            self.push_text(interface);
            let name = self.text(&camel(resource.name.as_deref().unwrap_or_default(), true));
            self.push_text(name);
            self.words.push(u32::try_from(first_drop + at)?);
        }
        let at_source = self.text(source);
        let header = [
            MAGIC,
            at_types,
            types.len() as u32,
            at_imports,
            imports.len() as u32,
            at_resources,
            resources.len() as u32,
            at_exports,
            exports.len() as u32,
            at_source,
            u32::try_from(source.len())?,
            if own_init { OWN_INIT } else { 0 },
        ];
        self.words.splice(..HEADER, header);
        // The place of the source is that of a text.
        self.text_words.push(9);
        let base = u32::try_from(self.words.len() * 4)?;
        for at in self.text_words {
            if let Some(word) = self.words.get_mut(at) {
                *word += base;
            }
        }
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(self.texts);
        Ok(bytes)
    }

    fn rows(&mut self, rows: &[Row]) -> u32 {
        let at = self.words.len() as u32;
        for row in rows {
            match &row.interface {
                Some(interface) => {
                    let interface = self.text(interface);
                    self.push_text(interface);
                }
                None => self.words.push(NONE),
            }
            let name = self.text(&row.name);
            self.push_text(name);
            self.words.extend(row.rest);
        }
        at
    }
}
