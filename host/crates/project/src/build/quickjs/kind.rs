//! The kinds of types in the tables, in the order of `enum kind` in `guest-sdk/quickjs/engine.h`.
//!
//! Out: a kind, whose number is what the tables have.

/// The kind of a type, by its number in the runtime.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Bool,
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
    F32,
    F64,
    Char,
    String,
    List,
    Record,
    Tuple,
    Variant,
    Option,
    Result,
    Enum,
    Flags,
    Own,
    Borrow,
}
