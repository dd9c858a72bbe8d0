//! What is wrong with one input of a request, in parts: so that each protocol can say it in words of its own.
//!
//! Place in the flow: found where a request is held against an endpoint's schema; carried by a
//! [`RequestError`](super::RequestError), whose message is all of them in our words.
//! Invariant: short and fit for the caller, for any request.

use std::fmt;
use std::sync::Arc;

use crate::tensor::{Datatype, ShownShape};

/// Most violations that are looked for in one request.
pub const MAX_VIOLATIONS: usize = 16;

/// One input that is not as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name; of a tensor that is not declared, the caller's, cut.
    pub input: Arc<str>,
    /// The kind of violation.
    pub kind: ViolationKind,
}

/// The kinds of violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViolationKind {
    /// It is required and not there.
    Missing {
        /// The type that was expected.
        expected: Expected,
    },
    /// A tensor of a name that is not declared.
    Unknown,
    /// There are two tensors of this name.
    Repeated,
    /// A JSON value that is no element of the datatype, or lists that make no tensor.
    Value {
        /// The type that was expected.
        expected: Expected,
        /// The defect of the value.
        error: ValueError,
    },
    /// Its values are fine, their number is not; or it is a tensor of another datatype.
    Mismatch {
        /// The type that was expected.
        expected: Expected,
        /// Of JSON, which has none, the expected one.
        datatype: Datatype,
        /// Its extents; of a bare value in JSON there are none.
        shape: Vec<u64>,
    },
}

/// The declared type of an input: `FP32 [-1, 4]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Element type.
    pub datatype: Datatype,
    /// Extents, outermost first; -1 for any.
    pub shape: Vec<i64>,
}

/// Why a JSON value is no tensor of a datatype.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ValueError {
    /// In what way.
    pub kind: ValueErrorKind,
    /// The element as it stands in the JSON, cut; empty for [`ValueErrorKind::Lists`].
    pub value: String,
    /// All of it, for the caller: `element [1, 3]: cannot convert "x" to FP32`.
    pub text: String,
}

/// In what way a JSON value is no tensor of a datatype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueErrorKind {
    /// An element of another type: text where a number belongs.
    Type,
    /// A number with a fraction where a whole one belongs.
    Inexact,
    /// A number that is too large or too small.
    Range,
    /// Lists of different lengths, single values beside lists, too many lists in one another.
    Lists,
    /// It says that it is base64, and is not.
    Base64,
}

/// `FP32 [-1, 4]`
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.datatype, self.shape)
    }
}

/// ``input `prompt`: missing, expected BYTES [1]``
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input `{}`: ", self.input)?;
        match &self.kind {
            ViolationKind::Missing { expected } => write!(f, "missing, expected {expected}"),
            ViolationKind::Unknown => f.write_str("unknown"),
            ViolationKind::Repeated => f.write_str("given twice"),
            ViolationKind::Value { error, .. } => write!(f, "{error}"),
            ViolationKind::Mismatch { expected, datatype, shape } => {
                write!(f, "expected {expected}, got {datatype} {}", ShownShape(shape))
            }
        }
    }
}

/// All of `violations` on one line.
pub(super) fn line(violations: &[Violation]) -> String {
    let violations: Vec<String> = violations.iter().map(Violation::to_string).collect();
    violations.join("; ")
}
