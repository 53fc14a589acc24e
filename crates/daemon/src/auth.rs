//! Authorisation of HTTP requests: tokens and roles.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use subtle::ConstantTimeEq;

const TOKEN_CHARS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// All requests.
    Admin,
    /// Requests that change nothing.
    Read,
    /// Requests of an agent: reports and commands of this host, or of any host with `None`.
    Agent(Option<Ipv4Addr>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permission {
    Read,
    /// To report for a host; `None` if the path does not name one.
    Report(Option<Ipv4Addr>),
    Write,
}

impl Role {
    pub(crate) fn may(self, need: Permission) -> bool {
        match (self, need) {
            (Role::Admin, _) | (Role::Read, Permission::Read) => true,
            (Role::Agent(own), Permission::Report(host)) => own.is_none() || own == host,
            (Role::Read | Role::Agent(_), _) => false,
        }
    }
}

/// Returns whether an anonymous request is allowed when no tokens are configured: loopback may do
/// everything, other addresses may read and may report for themselves.
pub(crate) fn anonymous_may(from: IpAddr, need: Permission) -> bool {
    let from = from.to_canonical();
    match need {
        _ if from.is_loopback() => true,
        Permission::Read => true,
        Permission::Report(host) => host.is_some_and(|host| from == IpAddr::V4(host)),
        Permission::Write => false,
    }
}

/// Tokens with their roles. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tokens(Vec<(Role, String)>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("cannot read tokens from {file}: {source}")]
    Read { file: String, source: std::io::Error },
    /// The line itself is not shown: it may hold a token.
    #[error(
        "{file}, line {line}: {message}; a line is a role (admin, read, agent) and a token, for agents also an address"
    )]
    Line { file: String, line: usize, message: &'static str },
}

impl Tokens {
    /// Reads a token file: a role and a token per line. After the token of an agent, the address of
    /// the only host it may report for can follow. Empty lines and lines that begin with `#` are
    /// skipped.
    ///
    /// # Errors
    /// Returns why the file cannot be read, which line is wrong, or that the file contains no
    /// token.
    pub fn load(file: &Path) -> Result<Tokens, TokensError> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).map_err(|source| TokensError::Read { file: name(), source })?;
        Tokens::parse(&text).map_err(|(line, message)| TokensError::Line { file: name(), line, message })
    }

    fn parse(text: &str) -> Result<Tokens, (usize, &'static str)> {
        let mut tokens = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let mut words = text.split_whitespace();
            let Some(role) = words.next().filter(|word| !word.starts_with('#')) else { continue };
            let token = words.next().ok_or((line, "the token is missing"))?;
            let role = match (role, words.next()) {
                ("admin", None) => Role::Admin,
                ("read", None) => Role::Read,
                ("agent", None) => Role::Agent(None),
                ("agent", Some(host)) => Role::Agent(Some(
                    host.parse().map_err(|_| (line, "the text after the token is not an IPv4 address"))?,
                )),
                ("admin" | "read", Some(_)) => return Err((line, "unexpected text after the token")),
                _ => return Err((line, "unknown role")),
            };
            if token.len() < TOKEN_CHARS {
                return Err((line, "a token must have at least 16 characters"));
            }
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err((line, "a token must be of visible ASCII characters"));
            }
            if tokens.iter().any(|(_, other)| other == token) {
                return Err((line, "duplicate token"));
            }
            tokens.push((role, token.to_owned()));
        }
        if tokens.is_empty() { Err((1, "the file contains no token")) } else { Ok(Tokens(tokens)) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns the role of a token. The comparison takes constant time, so its duration does not
    /// reveal a prefix.
    pub(crate) fn role(&self, token: &str) -> Option<Role> {
        let is_it = |known: &str| bool::from(known.as_bytes().ct_eq(token.as_bytes()));
        self.0.iter().fold(None, |found, (role, known)| if is_it(known) { Some(*role) } else { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_parsed_and_errors_hide_them() {
        let text = "# roles\nadmin aaaaaaaaaaaaaaaa\n\nread bbbbbbbbbbbbbbbb\nagent cccccccccccccccc 10.0.0.1\n";
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
    fn roles_grant_their_permissions() {
        let [own, other] = [1, 2].map(|last| Some(Ipv4Addr::new(10, 0, 0, last)));
        let needs = [Permission::Read, Permission::Report(own), Permission::Report(other), Permission::Write];
        for (role, expected) in [
            (Role::Admin, [true; 4]),
            (Role::Read, [true, false, false, false]),
            (Role::Agent(own), [false, true, false, false]),
            (Role::Agent(None), [false, true, true, false]),
        ] {
            assert_eq!(needs.map(|need| role.may(need)), expected, "{role:?}");
        }
        let from = |text: &str| needs.map(|need| anonymous_may(text.parse().expect("an address"), need));
        assert_eq!((from("127.0.0.1"), from("::1"), from("::ffff:127.0.0.1")), ([true; 4], [true; 4], [true; 4]));
        assert_eq!(from("10.0.0.1"), [true, true, false, false]);
        assert_eq!(from("::ffff:10.0.0.2"), [true, false, true, false]);
    }
}
