//! Fields as scripts send them: text or numbers, under any content type. Answers have text alone, in Floodlight's order.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::Answer;
use crate::services::{Fault, Floodlight};

/// What was sent.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// An object; nothing is one without fields.
    pub(super) fn read(body: &[u8]) -> Result<Fields, Answer> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Fields(Map::new()));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            _ => {
                let words = "The request could not be understood by the server due to malformed syntax";
                Err(Answer::error(StatusCode::BAD_REQUEST, words))
            }
        }
    }

    /// A field as text.
    pub(super) fn text(&self, field: &str) -> Result<Option<String>, Fault> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Bool(flag)) => Ok(Some(flag.to_string())),
            Some(_) => Err(Fault::at(field, "must be text or a number")),
        }
    }

    /// The identifier something is made with: what was sent, or one that is free.
    pub(super) fn id<T>(&self, taken: &BTreeMap<String, T>) -> Result<String, Fault> {
        let id = self.text("id")?.filter(|id| !id.is_empty());
        Ok(id.unwrap_or_else(|| Floodlight::free_id(taken)))
    }

    /// A field as a whole number up to some other.
    pub(super) fn number(&self, field: &str, most: u32) -> Result<Option<u32>, Fault> {
        let Some(text) = self.text(field)?.filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number <= most);
        let wrong = || Fault::at(field, format!("`{text}` is not a whole number from 0 to {most}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// A field as a port, or anything else of 16 bits.
    pub(super) fn short(&self, field: &str) -> Result<Option<u16>, Fault> {
        Ok(self.number(field, u16::MAX.into())?.map(|number| number as u16))
    }

    /// A field as an address.
    pub(super) fn address(&self, field: &str) -> Result<Option<Ipv4Addr>, Fault> {
        let Some(text) = self.text(field)?.filter(|text| !text.is_empty()) else { return Ok(None) };
        let wrong = || Fault::at(field, format!("`{text}` is not an IPv4 address"));
        text.parse().map(Some).map_err(|_| wrong())
    }
}

/// An object of text, with null for what is not known; a key may stand in it more than once.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let field = |(key, value): (&str, Option<String>)| format!("{}:{}", json!(key), json!(value));
    let fields: Vec<String> = fields.into_iter().map(field).collect();
    format!("{{{}}}", fields.join(","))
}

/// A list of objects.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}
