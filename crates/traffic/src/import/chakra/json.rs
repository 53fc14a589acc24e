//! The text of `chakra_jsonizer`: objects in a row, without commas between them.

use std::cell::Cell;
use std::io::{BufRead, Error, Read};

use serde_json::Value;

use super::super::{not, unknown};
use super::{KINDS, MESSAGE_MAX, Node};

/// Calls `add` with each node and the line where its object ends. An error names the line.
pub(super) fn read(
    input: &mut dyn BufRead,
    add: &mut dyn FnMut(Node, u64) -> Result<(), String>,
) -> Result<(), (u64, String)> {
    let (line, left) = (Cell::new(1), Cell::new(MESSAGE_MAX));
    let text = Counted { input, line: &line, left: &left };
    let mut is_first = true;
    for object in serde_json::Deserializer::from_reader(text).into_iter::<Value>() {
        let object = object.map_err(|error| (line.get(), format!("is not valid JSON: {error}")))?;
        left.set(MESSAGE_MAX);
        let is_about_file = std::mem::take(&mut is_first) && object.get("type").is_none();
        if object.get("workload_graph").is_some() {
            let problem = "this is the JSON of Chakra's feeder, which is not read; use .et or chakra_jsonizer's text";
            return Err((line.get(), problem.to_owned()));
        }
        if !is_about_file {
            node(&object).and_then(|node| add(node, line.get())).map_err(|problem| (line.get(), problem))?;
        }
    }
    if is_first { Err((1, "the file is empty".to_owned())) } else { Ok(()) }
}

/// A reader that counts lines, and refuses objects that are too long.
struct Counted<'r> {
    input: &'r mut dyn BufRead,
    line: &'r Cell<u64>,
    left: &'r Cell<u64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(buffer)?;
        let newlines = buffer[..count].iter().filter(|byte| **byte == b'\n').count();
        self.line.set(self.line.get() + newlines as u64);
        let left = self.left.get().checked_sub(count as u64);
        self.left.set(left.ok_or_else(|| Error::other(format!("an object is longer than {MESSAGE_MAX} bytes")))?);
        Ok(count)
    }
}

fn node(object: &Value) -> Result<Node, String> {
    if !object.is_object() {
        return Err("is not an object; write the objects of chakra_jsonizer in a row".to_owned());
    }
    let unsigned = |value: &Value, key: &str| {
        u64::try_from(integer(value, key)?).map_err(|_| not(key, &value.to_string(), "a whole number in range"))
    };
    let number = |key: &str| object.get(key).map_or(Ok(0), |value| unsigned(value, key));
    let kind = match object.get("type") {
        Some(Value::String(name)) => {
            let kind = KINDS.iter().position(|kind| kind == name);
            kind.ok_or_else(|| unknown(name, &KINDS[1..].join(", ")))? as u64
        }
        _ => number("type")?,
    };
    let mut node = Node { id: number("id")?, kind, duration_us: number("durationMicros")?, ..Node::default() };
    for key in ["ctrlDeps", "dataDeps"] {
        for id in list(object, key) {
            node.dependencies.push(unsigned(id, key)?);
        }
    }
    for attribute in list(object, "attr") {
        let name = attribute.get("name").and_then(Value::as_str).unwrap_or_default();
        let value = |(key, _): &(&String, &Value)| key.ends_with("Val");
        match attribute.as_object().and_then(|attribute| attribute.iter().find(value)) {
            Some((key, Value::String(text))) if key == "stringVal" => node.attributes.set_text(name, text),
            Some((_, Value::Bool(value))) => node.attributes.set_number(name, i128::from(*value)),
            Some((key, value)) if key.contains("int") || key.contains("fixed") => {
                node.attributes.set_number(name, integer(value, name)?);
            }
            _ => {}
        }
    }
    Ok(node)
}

fn list<'v>(object: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A number, which is in quotes if it may have 64 bits.
fn integer(value: &Value, key: &str) -> Result<i128, String> {
    let number = match value {
        Value::String(text) => text.parse::<i128>().ok(),
        other => other.as_i64().map(i128::from).or_else(|| other.as_u64().map(i128::from)),
    };
    number.ok_or_else(|| not(key, &value.to_string(), "a whole number in range"))
}
