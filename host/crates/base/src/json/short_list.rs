//! Lists in files of strangers that cannot be long.
//!
//! Place in the flow: `#[serde(deserialize_with = …)]`, in recordings. In: a list. Out: its elements.
//! Invariant: a few bytes of a file never stand for many in memory: the list is refused where it becomes too
//! long.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::tensor::LARGEST_RANK;

/// Reads a list of no more elements than a shape may have.
///
/// # Errors
/// It is longer, or an element is none.
pub fn short_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(list: D) -> Result<Vec<T>, D::Error> {
    list.deserialize_seq(Short(PhantomData))
}

struct Short<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Short<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {LARGEST_RANK}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            if elements.len() == LARGEST_RANK {
                return Err(Error::invalid_length(LARGEST_RANK + 1, &self));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}
