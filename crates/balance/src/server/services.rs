//! The table of services of MALOB: the algorithm of each port.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::entry::Build;
use crate::registry::{SERVER, Spec, SpecError};

/// The name of the balancer with a table, which cannot be in a table.
const TABLE: &str = "malob";

/// The numbers of algorithms in F1.
const NUMBERS: [(&str, &str); 3] = [("1", "sl-ps"), ("2", "ht-ps"), ("3", "server-cpu")];

/// The algorithm of each listed port, and of all others. The format is
/// `80=sl-ps;21=ht-ps;default=sl-ps`, with `+` between the parameters of an algorithm:
/// `80=server-rr:path=htp+htp=capacity`.
#[derive(Clone, Debug)]
pub struct Services {
    by_port: BTreeMap<u16, Spec>,
    default: Spec,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum ServicesError {
    #[error("`{0}` is not of the form port=algorithm, such as 80=sl-ps")]
    Form(String),
    #[error("`{0}` is not a valid port: it must be a whole number from 0 to 65535, or `default`")]
    Port(String),
    #[error("`{0}` occurs twice")]
    Twice(String),
    #[error("the table has no default; add default=ALGORITHM, such as default=sl-ps")]
    NoDefault,
    #[error(transparent)]
    Algorithm(#[from] SpecError),
    #[error("`{name}` does not pick servers for a service; {hint}")]
    NotServer { name: &'static str, hint: String },
}

impl Services {
    /// Makes a table with one algorithm for every port.
    pub fn new(default: Spec) -> Result<Services, ServicesError> {
        Ok(Services { by_port: BTreeMap::new(), default: checked(default)? })
    }

    /// Returns the algorithm of a port.
    pub fn of(&self, port: u16) -> &Spec {
        self.by_port.get(&port).unwrap_or(&self.default)
    }

    /// Returns the ports with an explicit algorithm, in order.
    pub fn ports(&self) -> impl Iterator<Item = (u16, &Spec)> {
        self.by_port.iter().map(|(port, spec)| (*port, spec))
    }

    /// Returns the algorithm of all other ports.
    pub fn default(&self) -> &Spec {
        &self.default
    }

    /// Sets the algorithm of a port; returns the previous one.
    ///
    /// # Errors
    /// Returns an error, without a change, if the balancer does not pick servers, or has a table
    /// itself.
    pub fn set(&mut self, port: u16, spec: Spec) -> Result<Option<Spec>, ServicesError> {
        Ok(self.by_port.insert(port, checked(spec)?))
    }

    /// Resets a port to the default; returns its algorithm.
    pub fn remove(&mut self, port: u16) -> Option<Spec> {
        self.by_port.remove(&port)
    }

    /// Returns every algorithm in the table.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.by_port.values().chain([&self.default])
    }

    /// Parses an algorithm in the format of a table.
    pub fn algorithm(text: &str) -> Result<Spec, ServicesError> {
        let text = text.trim();
        let name = NUMBERS.iter().find(|(number, _)| *number == text).map_or(text, |(_, name)| name);
        checked(Spec::parse(&name.replace('+', ","))?)
    }
}

fn checked(spec: Spec) -> Result<Spec, ServicesError> {
    if matches!(spec.entry.build, Build::Server(_)) && spec.entry.name != TABLE {
        return Ok(spec);
    }
    let names: Vec<&str> = SERVER.iter().map(|entry| entry.name).filter(|name| *name != TABLE).collect();
    Err(ServicesError::NotServer { name: spec.entry.name, hint: format!("there are: {}", names.join(", ")) })
}

impl FromStr for Services {
    type Err = ServicesError;

    fn from_str(text: &str) -> Result<Services, ServicesError> {
        let (mut by_port, mut default) = (BTreeMap::new(), None);
        for piece in text.split(';').map(str::trim).filter(|piece| !piece.is_empty()) {
            let (port, algorithm) = piece.split_once('=').ok_or_else(|| ServicesError::Form(piece.to_owned()))?;
            let (port, spec) = (port.trim(), Services::algorithm(algorithm)?);
            let replaced = match port {
                "default" => default.replace(spec),
                _ => by_port.insert(port.parse().map_err(|_| ServicesError::Port(port.to_owned()))?, spec),
            };
            if replaced.is_some() {
                return Err(ServicesError::Twice(port.to_owned()));
            }
        }
        Ok(Services { by_port, default: default.ok_or(ServicesError::NoDefault)? })
    }
}

impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |spec: &Spec| spec.label().replace(',', "+");
        self.ports().try_for_each(|(port, spec)| write!(f, "{port}={};", text(spec)))?;
        write!(f, "default={}", text(&self.default))
    }
}
