//! Failures on one line, as `--failure` and lists of texts write them:
//! `link-rate:20%,fraction=0.2`.

use config::diagnostic::FileError;
use config::document::{Data, Document, Entry, Table, Value, ValueOrigin};

use super::failures::target_key;

pub(crate) fn expand(document: &mut Document) -> Result<(), FileError> {
    let Some(entry) = document.root.get("failure") else { return Ok(()) };
    let items = match &entry.value.data {
        Data::Text(_) => vec![entry.value.clone()],
        Data::List(items) => items.clone(),
        // The reader of failures reports values of other types.
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

/// Parses `kind:target,key=value,…` or `kind,key=value,…`. The keys `link` and `switch` may give
/// the target instead.
fn table(document: &Document, text: &str, at: &ValueOrigin) -> Result<Table, FileError> {
    // A kind without a target, such as `controller-down`, has no colon.
    let has_target = text.find(':').is_some_and(|colon| !text[..colon].contains(','));
    let (kind, rest) = text.split_once(if has_target { ':' } else { ',' }).unwrap_or((text, ""));
    let mut table = Table::new();
    let mut put = |key: &str, data: Data| {
        let value = Value { data, at: at.clone() };
        match table.insert(key.to_owned(), Entry { key_origin: at.clone(), value }) {
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

/// Returns a number if the key takes one; a switch may have the name `7`.
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
