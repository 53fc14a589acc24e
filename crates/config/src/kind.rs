//! The types of values that users write. Documentation, ranges, choices and JSON Schemas come from
//! the same declaration.

use std::fmt;

use net::{Bandwidth, Bytes, Time};
use serde_json::{Value as Json, json};

/// Counts from here on are shown without their upper limit, which only prevents overflow.
const UNBOUNDED: u64 = 1_000_000;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Text; the description says what it contains, such as "IPv4 address".
    Text(&'static str),
    /// `true` or `false`.
    Flag,
    /// A whole number from the first to the second, inclusive.
    Count(u64, u64),
    /// A finite number of either sign.
    Number,
    /// A number above 0, up to this one.
    Positive(f64),
    /// A time with its unit, such as "10us".
    Time,
    /// A bandwidth with its unit, such as "10Gbps".
    Bandwidth,
    /// A size in bytes with its unit, from the first to the second, inclusive.
    Size(u64, u64),
    /// One of these texts, of which the first is often the default.
    Choice(&'static [&'static str]),
    /// A list of values of one type.
    List(&'static Kind),
    /// A value of any of these types.
    Either(&'static [Kind]),
    /// A value whose form a description gives, such as "{ axis = values }".
    Form(&'static str),
}

/// A whole number of at least 1.
pub const COUNT: Kind = Kind::Count(1, u32::MAX as u64);
/// A size of any number of bytes.
pub const SIZE: Kind = Kind::Size(0, u64::MAX);
/// Text without a further rule.
pub const TEXT: Kind = Kind::Text("text");

impl Kind {
    /// Returns the JSON Schema of the value.
    pub fn schema(&self) -> Json {
        match self {
            Kind::Text(_) => json!({ "type": "string" }),
            Kind::Flag => json!({ "type": "boolean" }),
            // Editors hold numbers as floating point, so only limits that this represents are stated.
            Kind::Count(min, max) if *max < 1 << 53 => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Kind::Count(min, _) => json!({ "type": "integer", "minimum": min }),
            Kind::Number => json!({ "type": "number" }),
            Kind::Positive(max) if max.is_finite() => {
                json!({ "type": "number", "exclusiveMinimum": 0, "maximum": max })
            }
            Kind::Positive(_) => json!({ "type": "number", "exclusiveMinimum": 0 }),
            Kind::Time => quantity("[pnuµmPNUM]?[sS]"),
            Kind::Bandwidth => quantity("[kmgtKMGT]?[bB][pP][sS]"),
            Kind::Size(..) => quantity("([kmgKMG][iI]?)?[bB]"),
            Kind::Choice(texts) => json!({ "type": "string", "enum": texts }),
            Kind::List(item) => json!({ "type": "array", "items": item.schema() }),
            Kind::Either(kinds) => json!({ "anyOf": kinds.iter().map(Kind::schema).collect::<Vec<_>>() }),
            Kind::Form(_) => json!({}),
        }
    }

    /// Returns a default as a value, or `None` if it is a description, such as "the name of the file".
    pub fn literal(&self, text: &str) -> Option<Json> {
        let unquoted = text.trim_matches('"');
        match self {
            Kind::Text(_) => text.starts_with('"').then(|| json!(unquoted)),
            Kind::Flag => text.parse::<bool>().ok().map(Json::from),
            Kind::Count(..) => text.parse::<u64>().ok().map(Json::from),
            Kind::Number | Kind::Positive(_) => text.parse::<f64>().ok().map(Json::from),
            Kind::Time => unquoted.parse::<Time>().ok().map(|_| json!(unquoted)),
            Kind::Bandwidth => unquoted.parse::<Bandwidth>().ok().map(|_| json!(unquoted)),
            Kind::Size(..) => unquoted.parse::<Bytes>().ok().map(|_| json!(unquoted)),
            Kind::Choice(texts) => texts.contains(&unquoted).then(|| json!(unquoted)),
            Kind::List(_) => (text == "[]").then(|| json!([])),
            Kind::Either(kinds) => kinds.iter().find_map(|kind| kind.literal(text)),
            Kind::Form(_) => None,
        }
    }
}

/// Returns the schema of a number with a unit, as [`net::Time`] and the other quantities parse it;
/// `unit` is a regular expression.
fn quantity(unit: &str) -> Json {
    json!({ "type": "string", "pattern": format!("^ *[0-9._]+ *{unit} *$") })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text(content) | Kind::Form(content) => f.write_str(content),
            Kind::Flag => f.write_str("true|false"),
            Kind::Count(0 | 1, UNBOUNDED..) => f.write_str("count"),
            Kind::Count(min, UNBOUNDED..) => write!(f, "{min} or more"),
            Kind::Count(min, max) => write!(f, "{min} to {max}"),
            Kind::Positive(max) if *max == 1.0 => f.write_str("share"),
            Kind::Number | Kind::Positive(_) => f.write_str("number"),
            Kind::Time => f.write_str("time"),
            Kind::Bandwidth => f.write_str("bandwidth"),
            Kind::Size(0 | 1, _) => f.write_str("size"),
            Kind::Size(min, max) => write!(f, "{} to {}", amount(*min), amount(*max)),
            Kind::Choice(texts) => f.write_str(&texts.join("|")),
            Kind::List(item) => write!(f, "list of {}", plural(&item.to_string())),
            Kind::Either(kinds) => f.write_str(&kinds.iter().map(Kind::to_string).collect::<Vec<_>>().join(" or ")),
        }
    }
}

/// Returns a size as text, in binary units if these are whole.
pub(crate) fn amount(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        bytes => Bytes::new(bytes).to_string(),
    }
}

fn plural(noun: &str) -> String {
    if noun.ends_with('s') { noun.to_owned() } else { format!("{noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_shown_as_users_write_them() {
        let cases = [
            (COUNT, "count"),
            (Kind::Count(1, 65_535), "1 to 65535"),
            (Kind::Count(100, 100_000_000), "100 or more"),
            (Kind::Size(1 << 20, 1 << 32), "1MiB to 4GiB"),
            (Kind::Positive(1.0), "share"),
            (Kind::Choice(&["warm", "cold"]), "warm|cold"),
            (Kind::List(&SIZE), "list of sizes"),
            (Kind::Either(&[Kind::Time, Kind::Choice(&["auto"])]), "time or auto"),
        ];
        for (kind, shown) in cases {
            assert_eq!(kind.to_string(), shown);
        }
    }

    #[test]
    fn literals_are_distinguished_from_descriptions() {
        let auto = Kind::Either(&[COUNT, Kind::Choice(&["auto"])]);
        let cases = [
            (COUNT, "1000", json!(1000)),
            (Kind::Time, "10us", json!("10us")),
            (Kind::Time, "\"5s\"", json!("5s")),
            (Kind::Bandwidth, "10Gbps", json!("10Gbps")),
            (Kind::Size(0, 9), "1MiB", json!("1MiB")),
            (auto, "auto", json!("auto")),
            (Kind::Flag, "false", json!(false)),
        ];
        for (kind, text, literal) in cases {
            assert_eq!(kind.literal(text), Some(literal), "{text}");
        }
        for (kind, text) in [(COUNT, "one per host"), (Kind::Time, "never"), (TEXT, "the name"), (SIZE, "none")] {
            assert_eq!(kind.literal(text), None, "{text}");
        }
    }
}
