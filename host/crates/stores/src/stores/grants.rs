//! Which buckets of values, or containers of objects, a handler may open.
//!
//! Place in the flow: beside the stores that handlers reach; the configuration reads grants by [`is_grant`].
//! In: an endpoint's grants, and the name that its handler asks for. Out: whose that one is.
//! Invariant: nothing has an owner that is not granted.

use std::sync::Arc;

/// How the name of a shared one begins.
const SHARED: &str = "shared/";
/// The grant of all of the endpoint's own.
const ANY: &str = "*";

/// The grants of one endpoint.
#[derive(Debug, Clone)]
pub struct Grants {
    endpoint: Arc<str>,
    names: Arc<[String]>,
}

/// Whose a bucket or a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The endpoint of this name.
    Endpoint(&'a str),
    /// All that are granted what is shared by this name.
    Shared(&'a str),
}

impl Grants {
    /// Of this endpoint.
    pub fn new(endpoint: &str, names: &[String]) -> Grants {
        Grants { endpoint: endpoint.into(), names: names.into() }
    }

    /// The grants as they were written.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whose the one of this name is; `None` if it is not granted.
    pub fn owner<'a>(&'a self, name: &'a str) -> Option<Owner<'a>> {
        let shared = name.strip_prefix(SHARED);
        let is_granted = |granted: &String| granted == name || granted == ANY && shared.is_none();
        if !is_name(name) || !self.names.iter().any(is_granted) {
            return None;
        }
        Some(shared.map_or(Owner::Endpoint(&self.endpoint), Owner::Shared))
    }
}

/// Whether a text is a grant: one of the endpoint's own, `shared/NAME`, or `*` for all of its own.
pub fn is_grant(text: &str) -> bool {
    text == ANY || is_name(text)
}

fn is_name(text: &str) -> bool {
    let own = text.strip_prefix(SHARED).unwrap_or(text);
    let is_tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    !own.is_empty() && own.len() <= 128 && own.bytes().all(is_tame)
}
