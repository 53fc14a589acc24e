//! Who may do what over HTTP: tokens and roles.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use subtle::{Choice, ConstantTimeEq};

/// Fewest characters of a token.
const TOKEN_CHARS: usize = 16;

/// What someone may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Everything.
    Admin,
    /// Look.
    Read,
    /// Report how a host does, and hear what it is to do: of this host, or of any.
    Agent(Option<Ipv4Addr>),
}

/// What a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// To look.
    Look,
    /// To speak for a host; `None` if it names none.
    Report(Option<Ipv4Addr>),
    /// To change something.
    Change,
}

impl Role {
    /// Whether the role is enough.
    pub(crate) fn may(self, need: Need) -> bool {
        match (self, need) {
            (Role::Admin, _) | (Role::Read, Need::Look) => true,
            (Role::Agent(own), Need::Report(host)) => own.is_none() || own == host,
            (Role::Read | Role::Agent(_), _) => false,
        }
    }
}

/// Whether someone without a token may do something, where there are no tokens: this machine everything, others look and
/// speak for themselves.
pub(crate) fn may_untold(from: IpAddr, need: Need) -> bool {
    let from = from.to_canonical();
    match need {
        _ if from.is_loopback() => true,
        Need::Look => true,
        Need::Report(host) => host.is_some_and(|host| from == IpAddr::V4(host)),
        Need::Change => false,
    }
}

/// Tokens with their roles. They are not shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tokens(Vec<(Role, String)>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// A file of tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// It cannot be read.
    #[error("cannot read tokens from {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line is wrong. The line is not shown: it may hold a token.
    #[error(
        "{file}, line {line}: {words}; a line is a role (admin, read, agent) and a token, for agents also an address"
    )]
    Line {
        /// The file.
        file: String,
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        words: &'static str,
    },
}

impl Tokens {
    /// Reads a file: a role and a token per line; after the token of an agent, the address of its host if it may report for
    /// no other. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// It cannot be read, a line is wrong, or there is no token.
    pub fn load(file: &Path) -> Result<Tokens, TokensError> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).map_err(|source| TokensError::Read { file: name(), source })?;
        Tokens::parse(&text).map_err(|(line, words)| TokensError::Line { file: name(), line, words })
    }

    fn parse(text: &str) -> Result<Tokens, (usize, &'static str)> {
        let mut tokens = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let mut words = text.split_whitespace();
            let Some(role) = words.next().filter(|word| !word.starts_with('#')) else { continue };
            let token = words.next().ok_or((line, "there is no token"))?;
            let role = match (role, words.next()) {
                ("admin", None) => Role::Admin,
                ("read", None) => Role::Read,
                ("agent", None) => Role::Agent(None),
                ("agent", Some(host)) => {
                    Role::Agent(Some(host.parse().map_err(|_| (line, "what follows the token is no IPv4 address"))?))
                }
                ("admin" | "read", Some(_)) => return Err((line, "something follows the token")),
                _ => return Err((line, "its first word is no role")),
            };
            if token.len() < TOKEN_CHARS {
                return Err((line, "a token has at least 16 characters"));
            }
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err((line, "a token is of ASCII characters"));
            }
            if tokens.iter().any(|(_, other)| other == token) {
                return Err((line, "this token stands earlier in the file"));
            }
            tokens.push((role, token.to_owned()));
        }
        if tokens.is_empty() { Err((1, "there is no token in it")) } else { Ok(Tokens(tokens)) }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The role of a token. How long it takes does not tell how much of it is right.
    pub(crate) fn role(&self, token: &str) -> Option<Role> {
        let mut found = None;
        for (role, known) in &self.0 {
            let is_it: Choice = known.as_bytes().ct_eq(token.as_bytes());
            if bool::from(is_it) {
                found = Some(*role);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_and_mistakes_named_without_them() {
        let text = "# ours\nadmin aaaaaaaaaaaaaaaa\n\nread bbbbbbbbbbbbbbbb\nagent cccccccccccccccc 10.0.0.1\n";
        let tokens = Tokens::parse(text).expect("tokens");
        assert_eq!(tokens.role("aaaaaaaaaaaaaaaa"), Some(Role::Admin));
        assert_eq!(tokens.role("cccccccccccccccc"), Some(Role::Agent(Some([10, 0, 0, 1].into()))));
        assert_eq!((tokens.role("aaaaaaaaaaaaaaab"), tokens.role("")), (None, None));
        assert_eq!(format!("{tokens:?}"), "Tokens(3)");
        for (text, line) in [
            ("", 1),
            ("admin\n", 1),
            ("\nroot aaaaaaaaaaaaaaaa", 2),
            ("admin short", 1),
            ("agent aaaaaaaaaaaaaaaa h1", 1),
            ("read aaaaaaaaaaaaaaaa x", 1),
            ("read aaaaaaaaaaaaaaaa\nadmin aaaaaaaaaaaaaaaa", 2),
        ] {
            assert_eq!(Tokens::parse(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }

    #[test]
    fn roles_may_what_they_are_for() {
        let [own, other] = [1, 2].map(|last| Some(Ipv4Addr::new(10, 0, 0, last)));
        let needs = [Need::Look, Need::Report(own), Need::Report(other), Need::Change];
        for (role, expected) in [
            (Role::Admin, [true; 4]),
            (Role::Read, [true, false, false, false]),
            (Role::Agent(own), [false, true, false, false]),
            (Role::Agent(None), [false, true, true, false]),
        ] {
            assert_eq!(needs.map(|need| role.may(need)), expected, "{role:?}");
        }
        let from = |text: &str| needs.map(|need| may_untold(text.parse().expect("an address"), need));
        assert_eq!((from("127.0.0.1"), from("::1"), from("::ffff:127.0.0.1")), ([true; 4], [true; 4], [true; 4]));
        assert_eq!(from("10.0.0.1"), [true, true, false, false]);
        assert_eq!(from("::ffff:10.0.0.2"), [true, false, true, false]);
    }
}
