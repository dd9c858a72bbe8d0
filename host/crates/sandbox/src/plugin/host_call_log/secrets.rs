//! What looks like a secret, by its name: in headers, queries and JSON.
//!
//! Place in the flow: asked of each call of a run that is to be recorded. In: names and documents. Out:
//! whether one of them names a secret.

use serde_json::Value;

use crate::keys;

/// Whether one of these headers does.
pub fn is_any_secret(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, _)| keys::is_secret_name(name))
}

/// Whether a parameter of this query does.
pub fn has_secret_parameter(query: &str) -> bool {
    let pairs = query.split(['&', ';']);
    let mut names = pairs.map(|pair| unescaped(pair.split('=').next().unwrap_or_default()));
    names.any(|name| keys::is_secret_name(&name))
}

/// Whether a member of this document does, at any depth.
pub fn has_secret_member(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, value)| keys::is_secret_name(name) || has_secret_member(value))
        }
        Value::Array(values) => values.iter().any(has_secret_member),
        _ => false,
    }
}

/// The name of a query's parameter with its escapes resolved, as far as they are any.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hexadecimal(*high).zip(hexadecimal(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => bytes.push(high << 4 | low),
            None => bytes.push(*first),
        }
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_names_are_resolved() {
        for (name, expected) in [
            ("", ""),
            ("token", "token"),
            ("%74oken", "token"),
            ("api%5Fkey", "api_key"),
            ("%", "%"),
            ("%7", "%7"),
            ("%zz", "%zz"),
            ("a%", "a%"),
        ] {
            assert_eq!(unescaped(name), expected, "{name}");
        }
    }

    #[test]
    fn secrets_are_found_at_any_depth_of_parameters() {
        for (json, expected) in [
            (r#"{"a": [1, {"b": {"api_key": "x"}}]}"#, true),
            (r#"{"key": null}"#, true),
            (r#"{"a": "key", "b": [true, "token"]}"#, false),
        ] {
            assert_eq!(has_secret_member(&serde_json::from_str(json).unwrap()), expected, "{json}");
        }
    }
}
