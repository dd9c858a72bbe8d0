//! The `content_type` that MLServer's clients give an input, as a parameter of it.
//!
//! Place in the flow: after an input of the Open Inference Protocol has become a tensor. Most codecs of those
//! clients (`np`, `str`, `pd`, `datetime`, `hg_json`) say of the data what they are as they are; `base64`
//! says that BYTES are text in place of bytes.

use super::base64;
use crate::tensor::{BytesElements, Datatype, Tensor, push_bytes_element};

/// A tensor, decoded as its `content_type` says.
///
/// # Errors
/// Text for the caller: the element that is not what that says.
pub fn decoded(tensor: Tensor, content_type: Option<&str>) -> Result<Tensor, String> {
    if content_type != Some("base64") || tensor.datatype != Datatype::Bytes {
        return Ok(tensor);
    }
    let mut data = Vec::with_capacity(tensor.data.len());
    for (place, element) in BytesElements::new(&tensor.data).enumerate() {
        let text = element.map_err(|error| error.to_string())?;
        let bytes = str::from_utf8(text).ok().and_then(base64::decode);
        let bytes =
            bytes.ok_or_else(|| format!("element {place} is not base64, as its `content_type` says"))?;
        push_bytes_element(&mut data, &bytes);
    }
    Ok(Tensor { data: data.into(), ..tensor })
}
