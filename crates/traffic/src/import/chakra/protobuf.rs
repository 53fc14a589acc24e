//! The protobuf stream of a Chakra trace: the fields that are read, by their numbers.

use std::io::{BufRead, Read};

use super::{Attributes, MESSAGE_MAX, Node};

/// Calls `add` with each node and the byte where its message begins. An error names that byte.
pub(super) fn read(
    input: &mut dyn BufRead,
    add: &mut dyn FnMut(Node, u64) -> Result<(), String>,
) -> Result<(), (u64, String)> {
    let unreadable = |error: std::io::Error| (0, format!("cannot be read: {error}"));
    if input.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]) {
        return Err((0, "the file is compressed by gzip, which is not read; decompress it with `gunzip`".to_owned()));
    }
    let (mut begin, mut buffer, mut is_first) = (0, Vec::new(), true);
    while let Some(taken) = message(input, &mut buffer).map_err(|problem| (begin, problem))? {
        // The first message is about the file.
        if !std::mem::take(&mut is_first) {
            node(&buffer).and_then(|node| add(node, begin)).map_err(|problem| (begin, problem))?;
        }
        begin += taken;
    }
    if is_first { Err((0, "the file is empty".to_owned())) } else { Ok(()) }
}

/// Reads a message into `buffer`. Returns the bytes of it and its length; `None` at the end.
fn message(input: &mut dyn BufRead, buffer: &mut Vec<u8>) -> Result<Option<u64>, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let mut prefix = [0; 10];
    let mut digits = 0;
    loop {
        let Some(byte) = prefix.get_mut(digits) else { return Err("a length has more than 10 bytes".to_owned()) };
        if (&mut *input).take(1).read(std::slice::from_mut(byte)).map_err(failed)? == 0 {
            return if digits == 0 { Ok(None) } else { Err(cut()) };
        }
        digits += 1;
        if *byte < 0x80 {
            break;
        }
    }
    let length = Fields(&prefix[..digits]).varint()?;
    if length > MESSAGE_MAX {
        return Err(format!(
            "a message of {length} bytes is above the limit of {MESSAGE_MAX}; is this a Chakra trace?"
        ));
    }
    buffer.clear();
    (&mut *input).take(length).read_to_end(buffer).map_err(failed)?;
    if (buffer.len() as u64) < length { Err(cut()) } else { Ok(Some(digits as u64 + length)) }
}

fn cut() -> String {
    "the file ends within a message; it is incomplete".to_owned()
}

fn node(bytes: &[u8]) -> Result<Node, String> {
    let (mut node, mut fields) = (Node::default(), Fields(bytes));
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Number(id)) => node.id = id,
            (3, Value::Number(kind)) => node.kind = kind,
            (4 | 5, Value::Number(id)) => node.dependencies.push(id),
            (4 | 5, Value::Bytes(packed)) => {
                let mut packed = Fields(packed);
                while !packed.0.is_empty() {
                    node.dependencies.push(packed.varint()?);
                }
            }
            (7, Value::Number(duration)) => node.duration_us = duration,
            (10, Value::Bytes(bytes)) => attribute(bytes, &mut node.attributes)?,
            _ => {}
        }
    }
    Ok(node)
}

fn attribute(bytes: &[u8], attributes: &mut Attributes) -> Result<(), String> {
    let (mut name, mut fields) = ("", Fields(bytes));
    let mut value = None;
    while let Some((number, found)) = fields.next()? {
        match (number, found) {
            (1, Value::Bytes(text)) => {
                name = str::from_utf8(text).map_err(|_| "a name is not UTF-8 text".to_owned())?
            }
            (3..=31, found) => value = Some((number, found)),
            _ => {}
        }
    }
    let signed = |bits: u64| i128::from(bits as i64);
    match value {
        // int32, int64, and their fixed forms.
        Some((7 | 9 | 25, Value::Number(bits))) => attributes.set_number(name, signed(bits)),
        Some((23, Value::Number(bits))) => attributes.set_number(name, i128::from(bits as i32)),
        // uint32, uint64, and their fixed forms; bool.
        Some((11 | 13 | 19 | 21 | 27, Value::Number(bits))) => attributes.set_number(name, i128::from(bits)),
        // sint32 and sint64: the sign is the last bit.
        Some((15 | 17, Value::Number(bits))) => {
            attributes.set_number(name, signed((bits >> 1) ^ (bits & 1).wrapping_neg()));
        }
        Some((29, Value::Bytes(text))) => {
            attributes.set_text(name, str::from_utf8(text).map_err(|_| "a value is not UTF-8 text".to_owned())?);
        }
        _ => {}
    }
    Ok(())
}

/// The fields of a message that are left.
struct Fields<'b>(&'b [u8]);

enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl<'b> Fields<'b> {
    fn next(&mut self) -> Result<Option<(u64, Value<'b>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(self.fixed(8)?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(self.fixed(4)?),
            other => {
                return Err(format!("wire type {other} of field {} is unknown; is this a Chakra trace?", key >> 3));
            }
        };
        Ok(Some((key >> 3, value)))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for (place, byte) in (0u32..).zip(self.0) {
            let bits = u64::from(byte & 0x7f);
            if place > 9 || place == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * place);
            if *byte < 0x80 {
                self.0 = &self.0[place as usize + 1..];
                return Ok(value);
            }
        }
        Err("a number is incomplete or longer than 64 bits".to_owned())
    }

    fn fixed(&mut self, length: u64) -> Result<u64, String> {
        let bytes = self.take(length)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn take(&mut self, length: u64) -> Result<&'b [u8], String> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = split.ok_or_else(|| format!("a field of {length} bytes is longer than its message"))?;
        self.0 = rest;
        Ok(taken)
    }
}
