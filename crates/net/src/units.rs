//! Time, bandwidth and sizes, each parsed from and printed as text with its unit.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

/// A point in simulated time, or a duration, in integer picoseconds.
///
/// One byte at 100 Gb/s takes exactly 80 ps; 64 bits hold 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// The rate of a link or flow in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bandwidth(u64);

/// A number of bytes. Text uses decimal units (`100KB` = 100 000 B) or binary ones (`64KiB`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

/// The error of a text that is not a quantity of the requested unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {quantity}: {reason} (write it as {example})")]
#[allow(missing_docs, reason = "the message explains the fields")]
pub struct UnitError {
    pub text: String,
    pub quantity: &'static str,
    pub reason: &'static str,
    pub example: &'static str,
}

#[allow(missing_docs, reason = "conversions are named after their units")]
impl Time {
    /// The start of a run.
    pub const ZERO: Time = Time(0);
    /// A time later than any event; means "never".
    pub const MAX: Time = Time(u64::MAX);

    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }
    pub const fn from_us(us: u64) -> Time {
        Time(us * 1_000_000)
    }
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms * 1_000_000_000)
    }
    pub const fn from_s(s: u64) -> Time {
        Time(s * 1_000_000_000_000)
    }
    /// From seconds as a float, rounded to the nearest picosecond; negative and NaN become zero.
    pub fn from_s_f64(s: f64) -> Time {
        Time((s * 1e12).round() as u64)
    }
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// `self - other`, or zero if `other` is later.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
    /// `self + other`, staying at [`Time::MAX`] on overflow.
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

#[allow(missing_docs, reason = "conversions are named after their units")]
impl Bandwidth {
    pub const fn from_bps(bps: u64) -> Bandwidth {
        Bandwidth(bps)
    }
    pub const fn from_mbps(mbps: u64) -> Bandwidth {
        Bandwidth(mbps * 1_000_000)
    }
    pub const fn from_gbps(gbps: u64) -> Bandwidth {
        Bandwidth(gbps * 1_000_000_000)
    }
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    pub fn as_bps_f64(self) -> f64 {
        self.0 as f64
    }
    /// Returns the transmission time of `bytes`, to the nearest ps; [`Time::MAX`] at a zero rate.
    pub fn time_for(self, bytes: u64) -> Time {
        if self.0 == 0 {
            return Time::MAX;
        }
        let ps = (u128::from(bytes) * 8_000_000_000_000 + u128::from(self.0 / 2)) / u128::from(self.0);
        Time(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

#[allow(missing_docs, reason = "conversions are named after their units")]
impl Bytes {
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}
impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}
impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}
impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, factor: u64) -> Time {
        Time(self.0 * factor)
    }
}
impl Div<u64> for Time {
    type Output = Time;
    fn div(self, divisor: u64) -> Time {
        Time(self.0 / divisor)
    }
}
impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(iter: I) -> Time {
        iter.fold(Time::ZERO, Add::add)
    }
}
impl Add for Bandwidth {
    type Output = Bandwidth;
    fn add(self, other: Bandwidth) -> Bandwidth {
        Bandwidth(self.0 + other.0)
    }
}
impl Sum for Bandwidth {
    fn sum<I: Iterator<Item = Bandwidth>>(iter: I) -> Bandwidth {
        iter.fold(Bandwidth(0), Add::add)
    }
}

/// The units of one quantity, largest first, with the number of base units in each.
type Scale = &'static [(&'static str, u64)];

const TIME_UNITS: Scale =
    &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];
const RATE_UNITS: Scale =
    &[("Tbps", 1_000_000_000_000), ("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000), ("bps", 1)];
const SIZE_UNITS: Scale = &[("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1)];
const SIZE_UNITS_BINARY: Scale = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

fn print(value: u64, units: Scale, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // The largest unit that shows the value exactly with at most three decimals.
    let (name, scale) = units
        .iter()
        .find(|(_, scale)| value >= *scale && (*scale < 1_000 || value.is_multiple_of(scale / 1_000)))
        .or(units.last())
        .expect("a scale has at least one unit");
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return write!(f, "{whole}{name}");
    }
    let decimals = format!("{:03}", rest / (scale / 1_000));
    write!(f, "{whole}.{}{name}", decimals.trim_end_matches('0'))
}

fn parse(text: &str, quantity: &'static str, example: &'static str, units: &[Scale]) -> Result<u64, UnitError> {
    let error = |reason| UnitError { text: text.to_owned(), quantity, reason, example };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..split].replace('_', ""), trimmed[split..].trim());
    if number.is_empty() {
        return Err(error("the number before the unit is missing"));
    }
    if unit.is_empty() {
        return Err(error("the unit is missing"));
    }
    let unit = if unit == "µs" { "us" } else { unit };
    let scale = units
        .iter()
        .flat_map(|units| units.iter())
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, scale)| *scale)
        .ok_or_else(|| error("the unit is unknown"))?;
    let (whole, decimals) = number.split_once('.').unwrap_or((&number, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| error("the number is too large"))? };
    let mut value = whole.checked_mul(scale).ok_or_else(|| error("the number is too large"))?;
    let mut place = scale;
    for digit in decimals.chars() {
        let digit = digit.to_digit(10).ok_or_else(|| error("there are two decimal points"))?;
        place /= 10;
        value = value.checked_add(place * u64::from(digit)).ok_or_else(|| error("the number is too large"))?;
    }
    Ok(value)
}

macro_rules! text_form {
    ($type:ident, $quantity:literal, $example:literal, $print:expr, $parse:expr) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(self.0, $print, f)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(self.0, $print, f)
            }
        }
        impl FromStr for $type {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                parse(text, $quantity, $example, $parse).map($type)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

text_form!(Time, "time", "`50us`", TIME_UNITS, &[TIME_UNITS]);
text_form!(Bandwidth, "bandwidth", "`10Gbps`", RATE_UNITS, &[RATE_UNITS]);
text_form!(Bytes, "size", "`100KB`", SIZE_UNITS, &[SIZE_UNITS, SIZE_UNITS_BINARY]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["10Gbps", "1.5Mbps", "400Gbps", "57.8Mbps", "1bps"] {
            assert_eq!(text.parse::<Bandwidth>().unwrap().to_string(), text);
        }
        for text in ["50us", "1.2us", "10ms", "80ps", "3s", "2.75ns"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!("64KiB".parse::<Bytes>().unwrap(), Bytes::new(65_536));
        assert_eq!("100KB".parse::<Bytes>().unwrap().to_string(), "100KB");
        assert_eq!("0.5 us".parse::<Time>().unwrap(), Time::from_ns(500));
        assert_eq!(Time::ZERO.to_string(), "0ps");
    }

    #[test]
    fn parse_wrong_text_returns_reason() {
        for (text, reason) in [
            ("10", "the unit is missing"),
            ("Gbps", "the number before the unit is missing"),
            ("10 parsec", "the unit is unknown"),
            ("1.2.3Gbps", "there are two decimal points"),
            ("99999999999999999999bps", "the number is too large"),
            ("99999999999Tbps", "the number is too large"),
        ] {
            assert_eq!(text.parse::<Bandwidth>().unwrap_err().reason, reason, "{text}");
        }
        assert!("-5us".parse::<Time>().is_err());
    }

    #[test]
    fn serialisation_time_of_whole_picoseconds_is_exact() {
        assert_eq!(Bandwidth::from_gbps(10).time_for(1500), Time::from_ns(1200));
        assert_eq!(Bandwidth::from_gbps(100).time_for(1), Time::from_ps(80));
        assert_eq!(Bandwidth::from_bps(0).time_for(1), Time::MAX);
    }

    proptest::proptest! {
        #[test]
        fn every_value_round_trips_to_within_its_printed_digits(ps in 0u64..u64::MAX / 2) {
            let time = Time::from_ps(ps);
            proptest::prop_assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        }
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = text.parse::<Time>();
            let _ = text.parse::<Bandwidth>();
            let _ = text.parse::<Bytes>();
        }
    }
}
