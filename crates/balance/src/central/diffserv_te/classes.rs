//! Class types by the addresses of users: a table such as `10.0.0.0/24=1;default=0`.

use core::net::Ipv4Addr;
use std::str::FromStr;

use net::FiveTuple;

use super::reservations::CLASSES;

/// The class type of each listed prefix, and of all other addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassTable {
    /// First address, length of the prefix, class type; the longest prefixes first.
    prefixes: Vec<(u32, u32, usize)>,
    default: usize,
}

impl ClassTable {
    /// Returns the class type of a flow: that of the longest prefix with its source, or else with
    /// its destination.
    pub fn of(&self, tuple: &FiveTuple) -> usize {
        let class = |address: Ipv4Addr| {
            let known = self.prefixes.iter().find(|(first, length, _)| masked(u32::from(address), *length) == *first);
            known.map(|(.., class)| *class)
        };
        class(tuple.src).or_else(|| class(tuple.dst)).unwrap_or(self.default)
    }
}

fn masked(address: u32, length: u32) -> u32 {
    address & u32::MAX.checked_shl(32 - length).unwrap_or(0)
}

impl FromStr for ClassTable {
    type Err = String;

    fn from_str(text: &str) -> Result<ClassTable, String> {
        let mut table = ClassTable { prefixes: Vec::new(), default: 0 };
        for piece in text.split(';').map(str::trim).filter(|piece| !piece.is_empty()) {
            let form = || format!("`{piece}` is not of the form prefix=class, such as 10.0.0.0/24=1 or default=0");
            let (prefix, class) = piece.split_once('=').ok_or_else(form)?;
            let class = class.trim().parse::<usize>().ok().filter(|class| *class < CLASSES);
            let class = class.ok_or_else(|| format!("`{piece}`: a class is a whole number from 0 to 7"))?;
            if prefix.trim() == "default" {
                table.default = class;
                continue;
            }
            let (address, length) = prefix.trim().split_once('/').unwrap_or((prefix.trim(), "32"));
            let address = u32::from(address.parse::<Ipv4Addr>().map_err(|_| form())?);
            let length = length.parse::<u32>().ok().filter(|length| *length <= 32).ok_or_else(form)?;
            if masked(address, length) != address {
                return Err(format!("`{piece}`: the address has bits beyond the prefix"));
            }
            if table.prefixes.iter().any(|(first, known, _)| (*first, *known) == (address, length)) {
                return Err(format!("`{piece}`: the prefix occurs twice"));
            }
            table.prefixes.push((address, length, class));
        }
        table.prefixes.sort_by_key(|(_, length, _)| std::cmp::Reverse(*length));
        Ok(table)
    }
}

/// Bandwidth constraints by class type, as shares: `100;60;30` in percent.
#[derive(Clone, PartialEq, Debug)]
pub struct Constraints(pub Vec<f64>);

impl FromStr for Constraints {
    type Err = String;

    fn from_str(text: &str) -> Result<Constraints, String> {
        let percent = |piece: &str| piece.trim().parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let shares: Option<Vec<f64>> = text.split(';').map(|piece| Some(percent(piece)? / 100.0)).collect();
        let shares = shares.filter(|shares| (1..=CLASSES).contains(&shares.len()));
        shares
            .map(Constraints)
            .ok_or_else(|| "it is 1 to 8 percentages of class types 0, 1, … (`100;60;30`)".to_owned())
    }
}
