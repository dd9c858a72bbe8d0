//! Elements of messages as the little-endian bytes of a tensor, and the other way.
//!
//! Place in the flow: inside the conversions of every protocol over gRPC.
//! In: elements as protobuf has them. Out: data of a tensor. Its shape is for the caller to check.
//! [`each`] is the other way.

use bytemuck::NoUninit;
use bytes::Bytes;

use crate::error::{Code, RequestError, Stage};
use crate::tensor::{Datatype, push_bytes_element};

/// The refusal of inputs that would take more than `limit` bytes together.
pub(in crate::server) fn too_large(limit: usize) -> RequestError {
    let message = format!("the inputs are longer than {limit} bytes");
    RequestError::new(Code::BodyTooLarge, Stage::Admit, message)
}

/// Elements as they are: as everywhere in this host the machine's own order of bytes is taken to be
/// little-endian.
pub(super) fn plain<T: NoUninit>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

/// Elements in fewer bytes than the message has them in.
///
/// # Errors
/// Text for the caller: the first one that does not fit.
pub(super) fn narrowed<Wide, Narrow>(values: &[Wide], datatype: Datatype) -> Result<Vec<u8>, String>
where
    Wide: Copy + std::fmt::Display,
    Narrow: TryFrom<Wide> + NoUninit,
{
    let mut data = Vec::with_capacity(size_of_val(values));
    for (index, value) in values.iter().enumerate() {
        let narrow = Narrow::try_from(*value)
            .map_err(|_| format!("element {index}: {value} is out of range for {datatype}"))?;
        data.extend_from_slice(bytemuck::bytes_of(&narrow));
    }
    Ok(data)
}

/// Elements of so many bytes, each as `read` has it.
pub(in crate::server) fn each<const N: usize, T>(data: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (elements, _) = data.as_chunks::<N>();
    elements.iter().map(|element| read(*element)).collect()
}

/// BYTES, each with its length.
///
/// # Errors
/// Text for the caller: one is too long.
pub(super) fn texts<'a>(values: impl IntoIterator<Item = &'a Bytes>) -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    for element in values {
        if !push_bytes_element(&mut data, element) {
            return Err("an element of 4 GiB or more".to_owned());
        }
    }
    Ok(data)
}
