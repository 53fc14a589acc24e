//! Parameters of balancers: declared as data, and checked when a specification is parsed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use net::Time;

use crate::central::diffserv_te::{ClassTable, Constraints};
use crate::dataplane::Scale;
use crate::server::Services;

/// The values a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "[`ParamKind::takes`] describes the variants")]
pub enum ParamKind {
    Choice(&'static [&'static str]),
    /// A real number in this closed range.
    Number {
        min: f64,
        max: f64,
    },
    /// A whole number in this closed range.
    Count {
        min: u64,
        max: u64,
    },
    /// A time such as `500us`.
    Duration,
    /// A time, or a multiple of a time of the network: `2rtt` (base round-trip times), `1.5hop`
    /// (delays of a congested hop), or `500us` for a published absolute value.
    Scaled,
    /// A table of services: `80=sl-ps;default=ht-ps`.
    Services,
    /// Class types by prefix: `10.0.0.0/24=1;default=0`.
    ClassTable,
    /// Bandwidth constraints by class type, in percent: `100;60`.
    Constraints,
}

impl ParamKind {
    /// Returns a description of the values: "one of modulo, threshold", "a number from 0 to 1".
    pub fn takes(&self) -> String {
        match self {
            ParamKind::Choice(words) => format!("one of {}", words.join(", ")),
            ParamKind::Number { min, max } => format!("a number from {min} to {max}"),
            ParamKind::Count { min, max } => format!("a whole number from {min} to {max}"),
            ParamKind::Duration => "a time (`500us`)".to_owned(),
            ParamKind::Scaled => {
                "a multiple of the base round-trip time (`2rtt`), of a congested hop's delay (`1.5hop`), \
                 or a time (`500us`)"
                    .to_owned()
            }
            ParamKind::Services => "a table of services (`80=sl-ps;default=ht-ps`)".to_owned(),
            ParamKind::ClassTable => "a table of class types by prefix (`10.0.0.0/24=1;default=0`)".to_owned(),
            ParamKind::Constraints => "1 to 8 percentages of class types 0, 1, … (`100;60;30`)".to_owned(),
        }
    }
}

/// A parameter as a balancer declares it.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name users write in specifications.
    pub name: &'static str,
    /// The values it accepts.
    pub kind: ParamKind,
    /// The default, in the form users write.
    pub default: &'static str,
    /// The unit of a number; empty if it has none.
    pub unit: &'static str,
    /// The meaning, printed by `anabranch list`.
    pub doc: &'static str,
}

/// Checked values, one for each declared parameter.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Params(BTreeMap<&'static str, String>);

impl Param {
    /// Declares a parameter that takes one of `choices`.
    pub const fn choice(name: &'static str, choices: &'static [&'static str], default: &'static str) -> Param {
        Param { name, kind: ParamKind::Choice(choices), default, unit: "", doc: "" }
    }

    /// Declares a parameter that takes a real number in `range`.
    pub const fn number(name: &'static str, range: RangeInclusive<f64>, default: &'static str) -> Param {
        let kind = ParamKind::Number { min: *range.start(), max: *range.end() };
        Param { name, kind, default, unit: "", doc: "" }
    }

    /// Declares a parameter that takes a whole number in `range`.
    pub const fn count(name: &'static str, range: RangeInclusive<u64>, default: &'static str) -> Param {
        let kind = ParamKind::Count { min: *range.start(), max: *range.end() };
        Param { name, kind, default, unit: "", doc: "" }
    }

    /// Declares a parameter that takes a time.
    pub const fn duration(name: &'static str, default: &'static str) -> Param {
        Param { name, kind: ParamKind::Duration, default, unit: "", doc: "" }
    }

    /// Declares a parameter that takes a time, or a multiple of a time of the network.
    pub const fn scaled(name: &'static str, default: &'static str) -> Param {
        Param { name, kind: ParamKind::Scaled, default, unit: "", doc: "" }
    }

    /// Declares a parameter that takes a table of services.
    pub const fn services(name: &'static str, default: &'static str) -> Param {
        Param { name, kind: ParamKind::Services, default, unit: "", doc: "" }
    }

    /// Declares a parameter that takes class types by prefix.
    pub const fn class_table(name: &'static str, default: &'static str) -> Param {
        Param { name, kind: ParamKind::ClassTable, default, unit: "", doc: "" }
    }

    /// Declares a parameter that takes bandwidth constraints.
    pub const fn constraints(name: &'static str, default: &'static str) -> Param {
        Param { name, kind: ParamKind::Constraints, default, unit: "", doc: "" }
    }

    /// Sets the unit of a number.
    pub const fn unit(self, unit: &'static str) -> Param {
        Param { unit, ..self }
    }

    /// Sets the meaning.
    pub const fn doc(self, doc: &'static str) -> Param {
        Param { doc, ..self }
    }

    /// Checks that the parameter accepts the value.
    ///
    /// # Errors
    /// Returns a sentence that describes the accepted values.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let refused = || format!("it is {}", self.kind.takes());
        match self.kind {
            ParamKind::Choice(words) => words.contains(&value).then_some(()).ok_or_else(refused),
            ParamKind::Number { min, max } => match value.parse::<f64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                _ => Err(refused()),
            },
            ParamKind::Count { min, max } => match value.parse::<u64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                _ => Err(refused()),
            },
            ParamKind::Duration => value.parse::<Time>().map(|_| ()).map_err(|error| error.to_string()),
            ParamKind::Services => value.parse::<Services>().map(|_| ()).map_err(|error| error.to_string()),
            ParamKind::ClassTable => value.parse::<ClassTable>().map(|_| ()),
            ParamKind::Constraints => value.parse::<Constraints>().map(|_| ()),
            ParamKind::Scaled => match multiple(value) {
                Some((factor, _)) if factor.is_finite() && (0.0..=1e9).contains(&factor) => Ok(()),
                Some(_) => Err("a multiple is a number from 0 to 1e9".to_owned()),
                None => value.parse::<Time>().map(|_| ()).map_err(|_| refused()),
            },
        }
    }
}

/// Splits `2rtt` or `1.5hop` into factor and unit.
fn multiple(value: &str) -> Option<(f64, &'static str)> {
    ["rtt", "hop"].into_iter().find_map(|unit| Some((value.strip_suffix(unit)?.trim().parse().ok()?, unit)))
}

impl Params {
    /// Returns the defaults of `declared`, overridden by `given`, which must already be checked.
    pub(crate) fn with_defaults(declared: &'static [Param], given: &BTreeMap<String, String>) -> Params {
        Params(
            declared
                .iter()
                .map(|p| (p.name, given.get(p.name).map_or_else(|| p.default.to_owned(), Clone::clone)))
                .collect(),
        )
    }
    /// Returns the value as text.
    ///
    /// # Panics
    /// Panics if the parameter is not declared: a defect of the balancer's file that its first test
    /// finds.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or_else(|| panic!("parameter `{name}` is not declared"), String::as_str)
    }
    /// Returns the value of a [`ParamKind::Number`].
    pub fn number(&self, name: &str) -> f64 {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// Returns the value of a [`ParamKind::Count`].
    pub fn count(&self, name: &str) -> u64 {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// Returns the value of a [`ParamKind::Duration`].
    pub fn duration(&self, name: &str) -> Time {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// Returns the value of a [`ParamKind::Scaled`]; `scale` resolves multiples.
    pub fn scaled(&self, name: &str, scale: &Scale) -> Time {
        match multiple(self.text(name)) {
            Some((factor, unit)) => {
                let one = if unit == "rtt" { scale.base_rtt } else { scale.hop_delay };
                Time::from_ps((one.as_ps() as f64 * factor) as u64)
            }
            None => self.duration(name),
        }
    }
    /// Returns the value of a [`ParamKind::Services`].
    pub fn services(&self, name: &str) -> Services {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// Returns the value of a [`ParamKind::ClassTable`].
    pub fn class_table(&self, name: &str) -> ClassTable {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// Returns the value of a [`ParamKind::Constraints`].
    pub fn constraints(&self, name: &str) -> Constraints {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// Returns all values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_scale_with_the_network_or_are_absolute() {
        let param = Param::scaled("gap", "2rtt");
        for good in ["2rtt", "0.5rtt", "1.5hop", "500us", "0rtt"] {
            assert_eq!(param.check(good), Ok(()), "{good}");
        }
        for bad in ["rtt", "-1rtt", "2", "two rtt", "nanrtt", "infhop", "1e300rtt"] {
            assert!(param.check(bad).is_err(), "{bad}");
        }
        let scale = Scale {
            base_rtt: Time::from_us(80),
            hop_delay: Time::from_us(78),
            packet_bytes: 1500,
            host_rate: net::Bandwidth::from_bps(10_000_000_000),
        };
        let declared: &'static [Param] = Box::leak(Box::new([param]));
        let value = |text: &str| {
            let given = [("gap".to_owned(), text.to_owned())].into();
            Params::with_defaults(declared, &given).scaled("gap", &scale)
        };
        assert_eq!(value("2rtt"), Time::from_us(160));
        assert_eq!(value("0.5hop"), Time::from_us(39));
        assert_eq!(value("500us"), Time::from_us(500));
    }
}
