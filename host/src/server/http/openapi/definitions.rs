//! The definitions inside of schemas that applications bring, as components of the document.
//!
//! Place in the flow: beside it; called for each operation by [`super::document`]. In: an operation, whose
//! schemas are JSON Schema as pydantic or schemars write it: `{"$ref": "#/$defs/Item"}` is a place in the
//! schema itself. Out: the same with references into the document (OpenAPI 3.1, section 4.8.24.4), and the
//! components that they refer to.
//! Invariants: what refers to a component of the document already stays; a component's name begins with the
//! operation's id, which is unique.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The keywords below which definitions are: of today's drafts, and of those before 2019.
const KEYWORDS: [&str; 2] = ["$defs", "definitions"];
const COMPONENTS: &str = "#/components/schemas/";

/// Takes the definitions out of an operation's schemas.
pub(super) fn take_out(operation: &mut Value, components: &mut Map<String, Value>) {
    let Some(id) = operation.get("operationId").and_then(Value::as_str).map(named) else { return };
    for (what, place) in [("input", "/requestBody/content"), ("output", "/responses/200/content")] {
        let contents = operation.pointer_mut(place).and_then(Value::as_object_mut);
        for schema in contents.into_iter().flatten().filter_map(|(_, content)| content.get_mut("schema")) {
            of_schema(schema, &format!("{id}.{what}"), components);
        }
    }
}

fn of_schema(schema: &mut Value, prefix: &str, components: &mut Map<String, Value>) {
    // With an id of its own a schema's references are its own as well.
    let Some(members) = schema.as_object_mut().filter(|members| !members.contains_key("$id")) else { return };
    let mut prefix = prefix.to_owned();
    while components.contains_key(&prefix) {
        prefix.push('_');
    }
    let mut definitions = BTreeMap::new();
    for keyword in KEYWORDS {
        let Some(Value::Object(own)) = members.remove(keyword) else { continue };
        for (name, definition) in own {
            let mut component = format!("{prefix}.{}", named(&name));
            while components.contains_key(&component) {
                component.push('_');
            }
            components.insert(component.clone(), Value::Null);
            definitions.insert((keyword, name), (component, definition));
        }
    }
    let mut places = Places { prefix: &prefix, has_root: false, names: BTreeMap::new() };
    let names = definitions.iter().map(|(place, (component, _))| (place.clone(), component.clone()));
    places.names = names.collect();
    places.rewrite(schema);
    for (component, mut definition) in definitions.into_values() {
        places.rewrite(&mut definition);
        components.insert(component, definition);
    }
    if places.has_root {
        let reference = Value::from(format!("{COMPONENTS}{prefix}"));
        let whole =
            std::mem::replace(schema, Value::Object([("$ref".to_owned(), reference)].into_iter().collect()));
        components.insert(prefix, whole);
    }
}

/// The places in a schema that its references may mean.
struct Places<'a> {
    prefix: &'a str,
    /// The components that definitions have become, by keyword and name.
    names: BTreeMap<(&'static str, String), String>,
    /// Whether something refers to the schema as a whole, or to a part that is no definition.
    has_root: bool,
}

impl Places<'_> {
    fn rewrite(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    match (&**key, member) {
                        ("$ref", Value::String(place)) => self.rewrite_reference(place),
                        // A discriminator's: schemas by the values of a property.
                        ("mapping", Value::Object(mapping)) => {
                            for place in mapping.values_mut() {
                                match place {
                                    Value::String(place) => self.rewrite_reference(place),
                                    other => self.rewrite(other),
                                }
                            }
                        }
                        (_, member) => self.rewrite(member),
                    }
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.rewrite(element)),
            _ => {}
        }
    }

    fn rewrite_reference(&mut self, reference: &mut String) {
        let is_own =
            |place: &&str| place.is_empty() || place.starts_with('/') && !place.starts_with("/components/");
        let Some(place) = reference.strip_prefix('#').filter(is_own) else { return };
        let definition = KEYWORDS.into_iter().find_map(|keyword| {
            let place = place.strip_prefix('/')?.strip_prefix(keyword)?.strip_prefix('/')?;
            let (name, rest) = place.split_at(place.find('/').unwrap_or(place.len()));
            let name = percent_decode_str(name).decode_utf8().ok()?.replace("~1", "/").replace("~0", "~");
            Some(format!("{COMPONENTS}{}{rest}", self.names.get(&(keyword, name))?))
        });
        let whole = || format!("{COMPONENTS}{}{place}", self.prefix);
        self.has_root |= definition.is_none();
        *reference = definition.unwrap_or_else(whole);
    }
}

/// A text as the name of a component, of the characters that OpenAPI lets it have.
fn named(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The schema that an operation with this one has, and the components.
    fn taken_out(schema: Value) -> (Value, Value) {
        let content = json!({ "application/json": { "schema": schema } });
        let mut operation = json!({ "operationId": "app.post", "requestBody": { "content": content } });
        let mut components = Map::new();
        take_out(&mut operation, &mut components);
        let schema = operation["requestBody"]["content"]["application/json"]["schema"].take();
        (schema, Value::Object(components))
    }

    #[test]
    fn definitions_become_components() {
        let place = |name: &str| json!({ "$ref": format!("#/components/schemas/app.post.input{name}") });
        for (schema, expected, components) in [
            (
                json!({
                    "$defs": {
                        "Item": { "properties": { "of": { "$ref": "#/$defs/Page[int]" }, "next": { "$ref": "#/$defs/Item" } } },
                        "Page[int]": { "type": "integer" },
                    },
                    "items": { "$ref": "#/$defs/Item" },
                    "not": { "$ref": "#/$defs/Item/properties/next" },
                }),
                json!({ "items": place(".Item"), "not": place(".Item/properties/next") }),
                json!({
                    "app.post.input.Item": { "properties": { "of": place(".Page_int_"), "next": place(".Item") } },
                    "app.post.input.Page_int_": { "type": "integer" },
                }),
            ),
            // Pydantic's first version; names that pointers write otherwise, or that are the same to OpenAPI.
            (
                json!({
                    "definitions": { "a/b": { "type": "integer" }, "a b": { "type": "string" } },
                    "anyOf": [{ "$ref": "#/definitions/a~1b" }, { "$ref": "#/definitions/a%20b" }],
                }),
                json!({ "anyOf": [place(".a_b_"), place(".a_b")] }),
                json!({ "app.post.input.a_b": { "type": "string" }, "app.post.input.a_b_": { "type": "integer" } }),
            ),
            // The whole, as schemars writes a type that has itself inside.
            (
                json!({ "properties": { "next": { "$ref": "#" } } }),
                place(""),
                json!({ "app.post.input": { "properties": { "next": place("") } } }),
            ),
            (
                json!({
                    "$defs": { "Cat": { "type": "object" } },
                    "discriminator": { "propertyName": "kind", "mapping": { "cat": "#/$defs/Cat" } },
                }),
                json!({ "discriminator": {
                    "propertyName": "kind", "mapping": { "cat": "#/components/schemas/app.post.input.Cat" },
                } }),
                json!({ "app.post.input.Cat": { "type": "object" } }),
            ),
            (
                json!({ "$ref": "#/components/schemas/Error" }),
                json!({ "$ref": "#/components/schemas/Error" }),
                json!({}),
            ),
            (json!({ "$ref": "https://a.example/b" }), json!({ "$ref": "https://a.example/b" }), json!({})),
            (
                json!({ "$id": "x:y", "$ref": "#/$defs/a" }),
                json!({ "$id": "x:y", "$ref": "#/$defs/a" }),
                json!({}),
            ),
            (json!(true), json!(true), json!({})),
        ] {
            assert_eq!(taken_out(schema.clone()), (expected, components), "{schema}");
        }
    }
}
