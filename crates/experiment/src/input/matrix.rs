//! The `[matrix]` section: the part of an experiment that represents it in a matrix (`anabranch
//! matrix`).
//!
//! A matrix needs one or a few points of each experiment, with fewer flows and seeds than the
//! experiment itself. The section is converted into values of the rest of the file, so the reduced
//! experiment is an ordinary experiment.

use config::diagnostic::FileError;
use config::document::{Data, Document, Entry, Value};
use config::section::Section;

const REPLACED_KEYS: [(&str, &str); 3] = [("loads", "traffic.load"), ("flows", "traffic.flows"), ("seeds", "seeds")];

pub(crate) fn title(top: &Section<'_>) -> Result<Option<String>, FileError> {
    Ok(top.section("matrix")?.text("title")?.map(str::to_owned))
}

/// Replaces the section by the values it represents; without a section the document is unchanged.
pub(crate) fn apply(document: &mut Document) -> Result<(), FileError> {
    let given = document.clone();
    let section = Section::top(&given)?.section("matrix")?;
    for (key, stands_for) in REPLACED_KEYS {
        if let Some(value) = section.get(key) {
            document.put(stands_for, value.clone())?;
        }
    }
    if let Some(value) = section.get("variants") {
        choose_variants(&given, &section, value, document)?;
    }
    // The title stays: no run depends on it.
    match document.root.get_mut("matrix").map(|entry| &mut entry.value.data) {
        Some(Data::Table(table)) => table.retain(|key, _| key == "title"),
        _ => return Ok(()),
    }
    Ok(())
}

pub(crate) fn check(document: &Document) -> Result<(), FileError> {
    apply(&mut document.clone())
}

fn choose_variants(
    given: &Document,
    section: &Section<'_>,
    value: &Value,
    document: &mut Document,
) -> Result<(), FileError> {
    let Data::Table(axes) = &value.data else {
        let error = section.error("variants", format!("must be a table, not {}", value.kind()));
        return Err(error.with_hint("write variants = { \"transport.kind\" = [\"dctcp\"] }"));
    };
    let sweep = Section::top(given)?.section("sweep")?;
    for (axis, chosen) in axes {
        let Some(Data::List(swept)) = sweep.get(axis).map(|value| &value.data) else {
            let error = given.error(&chosen.key_origin, "matrix.variants", format!("`{axis}` is not swept over"));
            let axes: Vec<&str> = sweep.entries().map(|(axis, _)| axis).collect();
            return Err(error.with_hint(format!("axes of [sweep]: {}", axes.join(", "))));
        };
        document.put(&format!("sweep.{axis}"), chosen_values(given, axis, chosen, swept)?)?;
    }
    Ok(())
}

fn chosen_values(given: &Document, axis: &str, chosen: &Entry, swept: &[Value]) -> Result<Value, FileError> {
    let selected = match &chosen.value.data {
        Data::List(items) => items.as_slice(),
        _ => std::slice::from_ref(&chosen.value),
    };
    let is_same = |a: &Value, b: &Value| a.inline() == b.inline() || a.plain() == b.plain();
    if let Some(unknown) = selected.iter().find(|value| !swept.iter().any(|other| is_same(value, other))) {
        let message = format!("{} is not among the values of the axis `{axis}`", unknown.inline());
        let values: Vec<String> = swept.iter().map(Value::inline).collect();
        return Err(given
            .error(&unknown.at, "matrix.variants", message)
            .with_hint(format!("its values are {}", values.join(", "))));
    }
    let kept: Vec<Value> =
        swept.iter().filter(|value| selected.iter().any(|other| is_same(value, other))).cloned().collect();
    if kept.is_empty() {
        return Err(given.error(&chosen.value.at, "matrix.variants", format!("chooses no value of `{axis}`")));
    }
    Ok(Value { data: Data::List(kept), at: chosen.value.at.clone() })
}
