//! Text of the form `name:key=value,key=value`: topologies, traffic and balancers are written so.

use std::collections::BTreeMap;

/// A text split into a name and values by key, all trimmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecText<'a> {
    /// The text before the colon.
    pub name: &'a str,
    /// The values by key; empty parts between commas are skipped.
    pub values: BTreeMap<&'a str, &'a str>,
}

/// The reason why a text does not have the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecTextError<'a> {
    /// This part is not `key=value`.
    NotKeyValue(&'a str),
    /// This key occurs twice.
    Repeated(&'a str),
}

impl<'a> SpecText<'a> {
    /// Splits a text.
    pub fn parse(text: &'a str) -> Result<SpecText<'a>, SpecTextError<'a>> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut values = BTreeMap::new();
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(SpecTextError::NotKeyValue(part))?;
            if values.insert(key.trim(), value.trim()).is_some() {
                return Err(SpecTextError::Repeated(key.trim()));
            }
        }
        Ok(SpecText { name: name.trim(), values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_and_trimmed() {
        let spec = SpecText::parse(" incast : fan_in = 8 ,target=a=b").unwrap();
        assert_eq!((spec.name, spec.values), ("incast", [("fan_in", "8"), ("target", "a=b")].into()));
        for text in ["stride", "stride:", "stride: ", "stride:,"] {
            assert_eq!(SpecText::parse(text), Ok(SpecText { name: "stride", values: BTreeMap::new() }));
        }
        for (text, error) in
            [("stride:30", SpecTextError::NotKeyValue("30")), ("a:b=1,b=2", SpecTextError::Repeated("b"))]
        {
            assert_eq!(SpecText::parse(text), Err(error), "{text}");
        }
    }
}
