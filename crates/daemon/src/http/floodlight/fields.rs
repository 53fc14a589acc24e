//! Fields as scripts send them: text or numbers, with any content type. Responses contain text
//! only, in Floodlight's order.

use std::net::Ipv4Addr;
use std::str::FromStr;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::Answer;
use crate::http::strict_json;
use crate::services::FieldError;

#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Parses an object; an empty body is an object without fields.
    pub(super) fn read(body: &[u8]) -> Result<Fields, Answer> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Fields(Map::new()));
        }
        match strict_json::parse(body) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            _ => {
                let description = "The request could not be understood by the server due to malformed syntax";
                Err(Answer::error(StatusCode::BAD_REQUEST, description))
            }
        }
    }

    pub(super) fn text(&self, field: &str) -> Result<Option<String>, FieldError> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Bool(flag)) => Ok(Some(flag.to_string())),
            Some(_) => Err(FieldError::new(field, "must be text or a number")),
        }
    }
    pub(super) fn id(&self, taken: &[&String]) -> Result<String, FieldError> {
        let id = self.text("id")?.filter(|id| !id.is_empty());
        let free = || (1..).map(|number: u32| number.to_string()).find(|id| !taken.contains(&id));
        Ok(id.or_else(free).unwrap_or_default())
    }
    fn parsed<T: FromStr>(&self, field: &str, what: &str) -> Result<Option<T>, FieldError> {
        let Some(text) = self.text(field)?.filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| FieldError::new(field, format!("`{text}` is not {what}")))
    }
    pub(super) fn number(&self, field: &str) -> Result<Option<u32>, FieldError> {
        self.parsed(field, "a whole number from 0 to 4294967295")
    }
    pub(super) fn short(&self, field: &str) -> Result<Option<u16>, FieldError> {
        self.parsed(field, "a whole number from 0 to 65535")
    }
    pub(super) fn address(&self, field: &str) -> Result<Option<Ipv4Addr>, FieldError> {
        self.parsed(field, "an IPv4 address")
    }
}

/// Returns a JSON object of text values, with null for unknown ones. A key may occur repeatedly.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let field = |(key, value): (&str, Option<String>)| format!("{}:{}", json!(key), json!(value));
    let fields: Vec<String> = fields.into_iter().map(field).collect();
    format!("{{{}}}", fields.join(","))
}

pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}
