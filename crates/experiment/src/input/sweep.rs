//! The `[sweep]` section: further axes, each a key of the rest of the file with a list of values.

use config::diagnostic::FileError;
use config::document::{Data, Document, Value};
use config::section::Section;

/// Keys that every experiment varies, or that change no run.
const OWN_AXES: &str =
    "seeds balancers rank_by margin confidence traffic.load sweep matrix name title question source expect";

const VARIANTS_MAX: usize = 100_000;

pub(crate) fn expand(document: &Document) -> Result<Vec<(String, Document)>, FileError> {
    let top = Section::top(document)?;
    let sweep = top.section("sweep")?;
    let mut variants = vec![(String::new(), document.clone())];
    for (key, value) in sweep.entries() {
        let values = axis(&sweep, key, value)?;
        if variants.len().saturating_mul(values.len()) > VARIANTS_MAX {
            return Err(sweep.error(key, format!("makes more than {VARIANTS_MAX} combinations")));
        }
        let mut next = Vec::with_capacity(variants.len() * values.len());
        for (label, document) in &variants {
            for value in values {
                let mut document = document.clone();
                document.put(key, value.clone())?;
                let separator = if label.is_empty() { "" } else { ", " };
                next.push((format!("{label}{separator}{key}={}", value.plain()), document));
            }
        }
        variants = next;
    }
    Ok(variants)
}

fn axis<'a>(sweep: &Section<'a>, key: &str, value: &'a Value) -> Result<&'a [Value], FileError> {
    if key.starts_with("expect.") {
        return Err(sweep.error(key, "is not swept over").with_hint("claims do not change results"));
    }
    if key.starts_with("matrix.") {
        return Err(sweep.error(key, "is not swept over").with_hint("it selects results and does not change them"));
    }
    if OWN_AXES.split(' ').any(|axis| axis == key) {
        let error = sweep.error(key, "is not swept over");
        return Err(error.with_hint(format!("write the list at `{key}`")));
    }
    match &value.data {
        Data::List(items) if !items.is_empty() => Ok(items),
        Data::List(_) => Err(sweep.error(key, "is an empty list")),
        _ => {
            let error = sweep.error(key, format!("must be a list of values, not {}", value.kind()));
            Err(error.with_hint(format!("write \"{key}\" = [{}, …]", value.inline())))
        }
    }
}
