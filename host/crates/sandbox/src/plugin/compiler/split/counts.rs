//! How much of each kind a component has so far, so that something can be added at its end.
//!
//! Place in the flow: inside the splitter, which shows it each section. In: sections. Out: the index that the
//! next definition of each kind has (the component model's binary format, Index Spaces).
//! Invariant: core modules and core instances are the splitter's own to count, for it adds to them.

use wasmparser::{
    BinaryReader, CanonicalFunction, ComponentAlias, ComponentAliasSectionReader,
    ComponentCanonicalSectionReader, ComponentExportSectionReader, ComponentExternalKind,
    ComponentImportSectionReader, ComponentInstanceSectionReader, ComponentOuterAliasKind, ComponentTypeRef,
    ComponentTypeSectionReader, ExternalKind,
};

use super::module::Section;
use super::{ALIAS, CANON, EXPORT, IMPORT, INSTANCE, TYPE};

/// Most definitions of one kind in a section of a valid component.
const MOST: u32 = 1_000_000;

/// The sizes of a component's index spaces.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) core_modules: u32,
    pub(super) core_instances: u32,
    pub(super) core_functions: u32,
    pub(super) core_memories: u32,
    pub(super) types: u32,
    pub(super) functions: u32,
    pub(super) instances: u32,
    /// Whether it makes resources of its own: handles of them are in no memory.
    pub(super) has_resources: bool,
}

impl Counts {
    /// Counts what a section defines.
    pub(super) fn add(&mut self, section: &Section<'_>) -> Option<()> {
        let reader = BinaryReader::new(section.contents, 0);
        match section.id {
            TYPE => {
                self.types +=
                    ComponentTypeSectionReader::new(reader).ok().filter(|it| it.count() <= MOST)?.count();
            }
            INSTANCE => {
                self.instances +=
                    ComponentInstanceSectionReader::new(reader).ok().filter(|it| it.count() <= MOST)?.count();
            }
            IMPORT => {
                for import in ComponentImportSectionReader::new(reader).ok()? {
                    match import.ok()?.ty {
                        ComponentTypeRef::Func(_) => self.functions += 1,
                        ComponentTypeRef::Type(_) => self.types += 1,
                        ComponentTypeRef::Instance(_) => self.instances += 1,
                        _ => {}
                    }
                }
            }
            ALIAS => {
                for alias in ComponentAliasSectionReader::new(reader).ok()? {
                    match alias.ok()? {
                        ComponentAlias::InstanceExport { kind, .. } => self.of(kind),
                        ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, .. } => self.types += 1,
                        ComponentAlias::CoreInstanceExport { kind: ExternalKind::Func, .. } => {
                            self.core_functions += 1;
                        }
                        ComponentAlias::CoreInstanceExport { kind: ExternalKind::Memory, .. } => {
                            self.core_memories += 1;
                        }
                        _ => {}
                    }
                }
            }
            CANON => {
                for function in ComponentCanonicalSectionReader::new(reader).ok()? {
                    let function = function.ok()?;
                    self.has_resources |= matches!(function, CanonicalFunction::ResourceNew { .. });
                    match function {
                        CanonicalFunction::Lift { .. } => self.functions += 1,
                        _ => self.core_functions += 1,
                    }
                }
            }
            EXPORT => {
                for export in ComponentExportSectionReader::new(reader).ok()? {
                    self.of(export.ok()?.kind);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn of(&mut self, kind: ComponentExternalKind) {
        match kind {
            ComponentExternalKind::Func => self.functions += 1,
            ComponentExternalKind::Type => self.types += 1,
            ComponentExternalKind::Instance => self.instances += 1,
            _ => {}
        }
    }
}
