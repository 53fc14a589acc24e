//! The JSON Schema of a kind of file, for editors (draft 7, which those for TOML support).

use serde_json::{Map, Value as Json, json};

use crate::keys::{Key, Layout};

/// Returns the JSON Schema of a file.
pub fn schema(layout: &Layout, title: &str) -> Json {
    let mut schema = table(layout, "");
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!(title);
    schema
}

/// Returns the schema of a section; the empty name is the top of the file.
fn table(layout: &Layout, section: &str) -> Json {
    let own = || layout.of(section).filter(|key| !key.is_placeholder());
    let mut properties: Map<String, Json> = own().map(|key| (key.name.to_owned(), property(key))).collect();
    for below in layout.sections(section) {
        let name = below.rsplit_once('.').map_or(below, |(_, name)| name);
        let mut schema = table(layout, below);
        if layout.repeated.contains(&below) {
            schema = json!({ "type": "array", "items": schema });
        }
        match properties.get_mut(name) {
            // The section is one of the forms of a key, such as a ramp of `switch.ecn`.
            Some(form) => {
                let description = form.as_object_mut().and_then(|form| form.remove("description"));
                *form = json!({ "anyOf": [form.take(), schema], "description": description });
            }
            None => drop(properties.insert(name.to_owned(), schema)),
        }
    }
    let others = layout.of(section).find(|key| key.is_placeholder()).map_or(Json::Bool(false), property);
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": others });
    let required: Vec<&str> = own().filter(|key| key.default == "required").map(|key| key.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(key: &Key) -> Json {
    let mut schema = key.kind.schema();
    let literal = key.kind.literal(key.default);
    let default = if literal.is_some() { String::new() } else { format!(" (default: {})", key.default) };
    schema["description"] = json!(format!("{}{default}", key.doc));
    if let Some(literal) = literal {
        schema["default"] = literal;
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::LAYOUT;

    #[test]
    fn schema_has_types_defaults_and_unknown_keys_refused() {
        let schema = schema(&LAYOUT, "a test");
        let at = |pointer: &str| schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}: {schema}"));
        assert_eq!(at("/properties/seed/type"), "integer");
        assert_eq!(at("/properties/seed/default"), 1);
        assert_eq!(at("/properties/log/properties/format/enum"), &json!(["text", "json"]));
        assert_eq!(
            at("/properties/links/properties/ramp/properties/min/description"),
            "the lower end (default: required)"
        );
        assert_eq!(at("/properties/links/properties/ramp/required/0"), "min");
        assert_eq!(at("/properties/host/type"), "array");
        assert_eq!(at("/properties/host/items/additionalProperties"), false);
        assert_eq!(at("/properties/pools/additionalProperties/description"), "a pool (default: none)");
    }
}
