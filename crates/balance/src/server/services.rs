//! The table of services of MALOB: which algorithm a port has.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::registry::{Build, SERVER, Spec, SpecError};

/// The name of what has a table, and cannot be in one.
const TABLE: &str = "malob";

/// The numbers F1 has for its algorithms.
const NUMBERS: [(&str, &str); 3] = [("1", "sl-ps"), ("2", "ht-ps"), ("3", "server-cpu")];

/// Which algorithm the requests for a port have, and those for any other. Written `80=sl-ps;21=ht-ps;default=sl-ps`, with `+`
/// between the parameters of an algorithm: `80=server-rr:path=htp+htp=capacity`.
#[derive(Clone, Debug)]
pub struct Services {
    by_port: BTreeMap<u16, Spec>,
    default: Spec,
}

/// What is wrong with a table of services.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServicesError {
    /// A piece without `=`.
    #[error("`{0}` is not of the form port=algorithm, such as 80=sl-ps")]
    Form(String),
    /// No port number.
    #[error("`{0}` is no port: it is a whole number from 0 to 65535, or `default`")]
    Port(String),
    /// The same port again.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// Nothing for other ports.
    #[error("it does not say what other ports have; add default=ALGORITHM, such as default=sl-ps")]
    NoDefault,
    /// No such algorithm, or a parameter it does not have.
    #[error(transparent)]
    Algorithm(#[from] SpecError),
    /// A balancer that picks no servers, or a table within a table.
    #[error("`{name}` does not pick servers for a service; {hint}")]
    NotServer {
        /// The balancer.
        name: &'static str,
        /// What does.
        hint: String,
    },
}

impl Services {
    /// A table in which every port has the same algorithm.
    ///
    /// # Errors
    /// It picks no servers, or has a table itself.
    pub fn new(default: Spec) -> Result<Services, ServicesError> {
        Ok(Services { by_port: BTreeMap::new(), default: checked(default)? })
    }

    /// The algorithm of a port.
    pub fn of(&self, port: u16) -> &Spec {
        self.by_port.get(&port).unwrap_or(&self.default)
    }

    /// The ports that have one of their own, in order.
    pub fn ports(&self) -> impl Iterator<Item = (u16, &Spec)> {
        self.by_port.iter().map(|(port, spec)| (*port, spec))
    }

    /// What all other ports have.
    pub fn default(&self) -> &Spec {
        &self.default
    }

    /// Gives a port an algorithm of its own; answers the one it had.
    ///
    /// # Errors
    /// It picks no servers, or has a table itself. Nothing has changed then.
    pub fn set(&mut self, port: u16, spec: Spec) -> Result<Option<Spec>, ServicesError> {
        Ok(self.by_port.insert(port, checked(spec)?))
    }

    /// Leaves a port to the default; answers the algorithm it had.
    pub fn remove(&mut self, port: u16) -> Option<Spec> {
        self.by_port.remove(&port)
    }

    /// Every algorithm there is in it.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.by_port.values().chain([&self.default])
    }

    /// An algorithm as users write it in a table.
    ///
    /// # Errors
    /// There is none such, or it picks no servers.
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
