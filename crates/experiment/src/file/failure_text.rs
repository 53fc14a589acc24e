//! Failures on one line: `link-rate:20%,fraction=0.2`, as `--failure` and lists of texts write them.

use net::document::{At, Data, Document, Entry, Table, Value};
use net::mistake::FileError;

/// Turns every text among the failures of a document into the table it stands for.
pub(crate) fn expand(document: &mut Document) -> Result<(), FileError> {
    let Some(entry) = document.root.get("failure") else { return Ok(()) };
    let items = match &entry.value.data {
        Data::Text(_) => vec![entry.value.clone()],
        Data::List(items) => items.clone(),
        // Anything else is refused where failures are read.
        _ => return Ok(()),
    };
    let items = items.into_iter().map(|item| match &item.data {
        Data::Text(text) => Ok(Value { data: Data::Table(table(document, text, &item.at)?), at: item.at }),
        _ => Ok(item),
    });
    let items = items.collect::<Result<Vec<Value>, FileError>>()?;
    if let Some(entry) = document.root.get_mut("failure") {
        entry.value.data = Data::List(items);
    }
    Ok(())
}

/// `kind:target,key=value,…`, or `kind,key=value,…`; the target may also be given by its key, `link` or `switch`.
fn table(document: &Document, text: &str, at: &At) -> Result<Table, FileError> {
    // What has no place, such as the controller, goes without the colon.
    let has_target = text.find(':').is_some_and(|colon| !text[..colon].contains(','));
    let (kind, rest) = text.split_once(if has_target { ':' } else { ',' }).unwrap_or((text, ""));
    let mut table = Table::new();
    let mut put = |key: &str, data: Data| {
        let value = Value { data, at: at.clone() };
        match table.insert(key.to_owned(), Entry { key_at: at.clone(), value }) {
            None => Ok(()),
            Some(_) => Err(document.error(at, "failure", format!("in `{text}`: `{key}` is given twice"))),
        }
    };
    put("kind", Data::Text(kind.trim().to_owned()))?;
    for (place, part) in rest.split(',').map(str::trim).enumerate().filter(|_| !rest.trim().is_empty()) {
        match part.split_once('=') {
            Some((key, value)) => put(key.trim(), data(key.trim(), value.trim()))?,
            None if place == 0 && !part.is_empty() => {
                put(target_key(kind.trim(), part), Data::Text(part.to_owned()))?;
            }
            None => {
                let error =
                    document.error(at, "failure", format!("in `{text}`: `{part}` is not of the form key=value"));
                return Err(error.with_hint("write a failure as `link-down:leaf0->spine1,at=1ms`"));
            }
        }
    }
    Ok(table)
}

/// A target without a key is a link or a switch, as the kind has it; a random drop can have both.
fn target_key(kind: &str, target: &str) -> &'static str {
    let is_link = target.contains("->") || target == "any" || target.ends_with('%');
    match kind {
        "blackhole" | "switch-down" | "channel-stall" | "channel-down" => "switch",
        "random-drop" if !is_link => "switch",
        _ => "link",
    }
}

/// Numbers where numbers are meant; a switch may be called `7`.
fn data(key: &str, value: &str) -> Data {
    if matches!(key, "link" | "switch") {
        return Data::Text(value.to_owned());
    }
    match (value.parse::<i64>(), value.parse::<f64>()) {
        (Ok(number), _) => Data::Integer(number.into()),
        (_, Ok(number)) if number.is_finite() => Data::Real(number),
        _ => Data::Text(value.to_owned()),
    }
}
