//! Authorisation of HTTP requests: tokens and roles.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use crate::http::WrongTokens;
use crate::live::Live;
use crate::settings::Settings;

const TOKEN_CHARS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Requests of any kind, changes included.
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

#[derive(Clone, PartialEq, Eq)]
struct Token {
    role: Role,
    /// Name in the audit log.
    name: String,
    secret: String,
}

/// Tokens with their roles and names. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tokens(Vec<Token>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Token {
    fn parse(line: usize, words: &[&str]) -> Result<Token, &'static str> {
        let name = words.last().and_then(|last| last.strip_prefix("name="));
        let words = &words[..words.len() - usize::from(name.is_some())];
        let (role, secret) = match *words {
            ["admin", token] => (Role::Admin, token),
            ["read", token] => (Role::Read, token),
            ["agent", token] => (Role::Agent(None), token),
            ["agent", token, host] => {
                let host = host.parse().map_err(|_| "the text after the token is not an IPv4 address")?;
                (Role::Agent(Some(host)), token)
            }
            ["admin" | "read" | "agent"] => return Err("the token is missing"),
            ["admin" | "read" | "agent", ..] => return Err("unexpected text after the token"),
            _ => return Err("unknown role"),
        };
        if secret.len() < TOKEN_CHARS {
            return Err("a token must have at least 16 characters");
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token must be of visible ASCII characters");
        }
        if name == Some("") {
            return Err("the name is empty");
        }
        let name = name.map_or_else(|| format!("line {line}"), str::to_owned);
        Ok(Token { role, name, secret: secret.to_owned() })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("cannot read tokens from {file}: {source}")]
    Read { file: String, source: std::io::Error },
    /// The line itself is not shown: it may hold a token.
    #[error(
        "{file}, line {line}: {message}; a line is a role (admin, read, agent) and a token, for agents also an address, \
         and optionally name=NAME"
    )]
    Line { file: String, line: usize, message: &'static str },
}

impl Tokens {
    /// Reads a token file: a role and a token per line. After the token of an agent, the address of
    /// the only host it may report for can follow. A name for the audit log, `name=NAME`, may end
    /// the line. Empty lines and lines that begin with `#` are skipped.
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
        let mut tokens: Vec<Token> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let words: Vec<&str> = text.split_whitespace().collect();
            if words.first().is_none_or(|word| word.starts_with('#')) {
                continue;
            }
            let token = Token::parse(line, &words).map_err(|message| (line, message))?;
            if tokens.iter().any(|other| other.secret == token.secret) {
                return Err((line, "duplicate token"));
            }
            tokens.push(token);
        }
        if tokens.is_empty() { Err((1, "the file contains no token")) } else { Ok(Tokens(tokens)) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns role and name of a token. The comparison takes constant time, so its duration does
    /// not reveal a prefix.
    pub(crate) fn find(&self, token: &str) -> Option<(Role, &str)> {
        let is_it = |known: &Token| bool::from(known.secret.as_bytes().ct_eq(token.as_bytes()));
        let found = self.0.iter().fold(None, |found, known| if is_it(known) { Some(known) } else { found });
        found.map(|known| (known.role, known.name.as_str()))
    }
}

/// The rules of access in the settings.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) tokens: Tokens,
    /// Host names, in lower case, that requests may use if no tokens are configured.
    pub(crate) names: Vec<String>,
}

impl Rules {
    pub(crate) fn of(settings: &Settings) -> Rules {
        let host_name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let own = ["localhost".to_owned()].into_iter().chain(host_name);
        let names = own.chain(settings.http_names.iter().cloned()).map(|name| name.to_ascii_lowercase()).collect();
        Rules { tokens: settings.tokens.clone(), names }
    }
}

/// Who may use the HTTP interface. The rules are replaced at a reload.
#[derive(Debug)]
pub(crate) struct Access {
    rules: Live<Arc<Rules>>,
    pub(crate) wrong_tokens: WrongTokens,
}

impl Access {
    pub(crate) fn new(rules: Rules) -> Access {
        Access { rules: Live::new(Arc::new(rules)), wrong_tokens: WrongTokens::default() }
    }
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.get()
    }
    pub(crate) fn set_rules(&self, rules: Rules) {
        self.rules.set(Arc::new(rules));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_parsed_and_errors_hide_them() {
        let text = "# roles\nadmin aaaaaaaaaaaaaaaa\n\nread bbbbbbbbbbbbbbbb name=alice\nagent cccccccccccccccc 10.0.0.1 name=h1\n";
        let tokens = Tokens::parse(text).expect("tokens");
        assert_eq!(tokens.find("aaaaaaaaaaaaaaaa"), Some((Role::Admin, "line 2")));
        assert_eq!(tokens.find("bbbbbbbbbbbbbbbb"), Some((Role::Read, "alice")));
        assert_eq!(tokens.find("cccccccccccccccc"), Some((Role::Agent(Some([10, 0, 0, 1].into())), "h1")));
        assert_eq!((tokens.find("aaaaaaaaaaaaaaab"), tokens.find("")), (None, None));
        assert_eq!(format!("{tokens:?}"), "Tokens(3)");
        for (text, line) in [
            ("", 1),
            ("admin\n", 1),
            ("\nroot aaaaaaaaaaaaaaaa", 2),
            ("admin short", 1),
            ("agent aaaaaaaaaaaaaaaa h1", 1),
            ("read aaaaaaaaaaaaaaaa x", 1),
            ("read aaaaaaaaaaaaaaaa name=", 1),
            ("agent aaaaaaaaaaaaaaaa 10.0.0.1 x", 1),
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
