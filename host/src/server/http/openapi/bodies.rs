//! Bodies of which no schema says more than their media type.
//!
//! Place in the flow: beside it; for endpoints that take files, and for applications. In: a media type. Out:
//! a schema by which Swagger UI offers fields and files to choose.

use serde_json::{Value, json};

/// The schema of a form, of which its fields are the handler's; `None` for any other media type.
pub(super) fn form(media_type: &str) -> Option<Value> {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("multipart/form-data") {
        return Some(json!({
            "type": "object",
            "description": "Fields and files, by the names that the handler reads.",
            "properties": { "file": file() },
            "additionalProperties": { "type": "string" },
        }));
    }
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded").then(|| {
        json!({
            "type": "object",
            "description": "Fields, by the names that the handler reads.",
            "additionalProperties": { "type": "string" },
        })
    })
}

/// The schema of bytes: by its format Swagger UI offers a button that chooses a file.
pub(super) fn file() -> Value {
    json!({ "type": "string", "format": "binary" })
}
