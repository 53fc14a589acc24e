//! Parameters of balancers: declared as data, checked when a specification is read.

use std::collections::BTreeMap;

use net::Time;

use crate::dataplane::Scale;
use crate::server::Services;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamKind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A real number in this closed range.
    Number {
        /// Least allowed.
        min: f64,
        /// Greatest allowed.
        max: f64,
    },
    /// A whole number in this closed range.
    Count {
        /// Least allowed.
        min: u64,
        /// Greatest allowed.
        max: u64,
    },
    /// A time such as `500us`.
    Duration,
    /// A time, or a multiple of what the network has: `2rtt` (base round-trip times), `1.5hop` (delays of a congested
    /// hop), or `500us` for a published absolute value.
    Scaled,
    /// A table of services: `80=sl-ps;default=ht-ps`.
    Services,
}

impl ParamKind {
    /// What values it takes, in words: "one of modulo, threshold", "a number from 0 to 1".
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
        }
    }
}

/// One declared parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name as users write it.
    pub name: &'static str,
    /// Values it takes.
    pub kind: ParamKind,
    /// Default, in the form users write.
    pub default: &'static str,
    /// Unit of a number, or empty.
    pub unit: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// A checked set of values, one for each declared parameter.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Params(BTreeMap<&'static str, String>);

impl Param {
    /// Checks one value.
    ///
    /// # Errors
    /// A sentence that says which values are allowed.
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
            ParamKind::Scaled => match multiple(value) {
                Some((factor, _)) if factor.is_finite() && (0.0..=1e9).contains(&factor) => Ok(()),
                Some(_) => Err("a multiple is a number from 0 to 1e9".to_owned()),
                None => value.parse::<Time>().map(|_| ()).map_err(|_| refused()),
            },
        }
    }
}

/// `2rtt` or `1.5hop` as factor and unit.
fn multiple(value: &str) -> Option<(f64, &'static str)> {
    ["rtt", "hop"].into_iter().find_map(|unit| Some((value.strip_suffix(unit)?.trim().parse().ok()?, unit)))
}

impl Params {
    /// The defaults of `declared`, overridden by `given`, which must already have been checked.
    pub(crate) fn with_defaults(declared: &'static [Param], given: &BTreeMap<String, String>) -> Params {
        Params(
            declared
                .iter()
                .map(|p| (p.name, given.get(p.name).map_or_else(|| p.default.to_owned(), Clone::clone)))
                .collect(),
        )
    }
    /// The value as text.
    ///
    /// # Panics
    /// If no such parameter is declared: a slip in the balancer's own file, caught by its first test.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or_else(|| panic!("parameter `{name}` is not declared"), String::as_str)
    }
    /// A real number.
    pub fn number(&self, name: &str) -> f64 {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// A whole number.
    pub fn count(&self, name: &str) -> u64 {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// A time.
    pub fn duration(&self, name: &str) -> Time {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// A time that may be given as a multiple of what the network has.
    pub fn scaled(&self, name: &str, scale: &Scale) -> Time {
        match multiple(self.text(name)) {
            Some((factor, unit)) => {
                let one = if unit == "rtt" { scale.base_rtt } else { scale.hop_delay };
                Time::from_ps((one.as_ps() as f64 * factor) as u64)
            }
            None => self.duration(name),
        }
    }
    /// A table of services.
    pub fn services(&self, name: &str) -> Services {
        self.text(name).parse().expect("checked against its ParamKind")
    }
    /// All values in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_scale_with_the_network_or_are_absolute() {
        let param = Param { name: "gap", kind: ParamKind::Scaled, default: "2rtt", unit: "", doc: "" };
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
