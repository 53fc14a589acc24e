//! Middleware that authenticates and authorises requests.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::problem::Problem;
use crate::audit::Actor;
use crate::auth::{Access, Permission, Rules, anonymous_may};
use crate::server::Handle;

fn need(method: &Method, path: &str) -> Permission {
    if let Some(rest) = path.strip_prefix("/v1/agents/") {
        return Permission::Report(rest.split('/').next().and_then(|host| host.parse().ok()));
    }
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) { Permission::Read } else { Permission::Write }
}

/// Returns the token of a request: a bearer token, or the password of basic authentication with any
/// user name, as browsers and `curl -u` send it.
fn token(headers: &HeaderMap) -> Option<String> {
    let (scheme, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    Some(decoded.split_once(':')?.1.to_owned())
}

/// Returns the only value of a header; `Err` if it is repeated or is not ASCII text.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Returns the host and port of a request (RFC 9112, section 3.2): from its target, else from its
/// only `Host` header, which is optional in HTTP/1.0 alone.
fn authority(request: &Request) -> Result<Option<Authority>, &'static str> {
    let host =
        single(request.headers(), header::HOST).map_err(|()| "exactly one Host header of ASCII text is required")?;
    let host = host.map(str::parse::<Authority>).transpose().map_err(|_| "the Host header is not a host and port")?;
    match request.uri().authority() {
        _ if host.is_none() && request.version() == Version::HTTP_11 => Err("an HTTP/1.1 request needs a Host header"),
        Some(target) => Ok(Some(target.clone())),
        None => Ok(host),
    }
}

/// Returns whether a host is an address or a configured name. A web page can make any other name
/// resolve to this machine, so that a browser sends the requests of that page here ("DNS
/// rebinding").
fn is_own(host: &Authority, names: &[String]) -> bool {
    let host = host.host();
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    address.parse::<IpAddr>().is_ok() || names.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// Returns whether a browser sends this request for a page of another site, that is, without the
/// intention of its user.
fn is_of_another_site(headers: &HeaderMap, host: Option<&Authority>) -> bool {
    let is_same = |origin: &str| {
        let origin = origin.split_once("://").map(|(_, authority)| authority);
        origin.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host.as_str()))
    };
    match (single(headers, header::ORIGIN), single(headers, HeaderName::from_static("sec-fetch-site"))) {
        (Ok(origin), Ok(site)) => {
            !origin.is_none_or(is_same) || site.is_some_and(|site| !["same-origin", "none"].contains(&site))
        }
        _ => true,
    }
}

pub(super) async fn guard(
    State(handle): State<Handle>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    match authorise(&handle.access, from.ip(), &request) {
        Ok(actor) => {
            request.extensions_mut().insert(actor);
            next.run(request).await
        }
        Err(rejection) => rejection.into_response(),
    }
}

/// The reason why a request is rejected.
#[derive(Debug)]
enum Rejection {
    Status(StatusCode, String),
    /// Too many wrong tokens; the next one is compared after this time.
    Wait(Duration),
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        match self {
            Rejection::Status(StatusCode::UNAUTHORIZED, message) => {
                let challenge = "Bearer realm=\"anabranch\", Basic realm=\"anabranch\", charset=\"UTF-8\"";
                let problem = Problem::new(StatusCode::UNAUTHORIZED, message);
                ([(header::WWW_AUTHENTICATE, challenge)], problem).into_response()
            }
            Rejection::Status(status, message) => Problem::new(status, message).into_response(),
            Rejection::Wait(time) => {
                let message = "too many wrong tokens from this address; repeat the request after `Retry-After` seconds";
                let seconds = time.as_millis().div_ceil(1000).to_string();
                let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, message);
                ([(header::RETRY_AFTER, seconds)], problem).into_response()
            }
        }
    }
}

/// Returns the sender of a request that is allowed.
fn authorise(access: &Access, from: IpAddr, request: &Request) -> Result<Actor, Rejection> {
    let rules = access.rules();
    let token = check(access, &rules, from, request)?;
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    Ok(Actor::Request { token, source: from.to_canonical(), method, path })
}

/// Returns the name of the token of a request that is allowed; `None` if no tokens are configured.
fn check(access: &Access, rules: &Rules, from: IpAddr, request: &Request) -> Result<Option<String>, Rejection> {
    let need = need(request.method(), request.uri().path());
    let host = authority(request).map_err(|message| Rejection::Status(StatusCode::BAD_REQUEST, message.to_owned()))?;
    let forbidden = |message: &str| Err(Rejection::Status(StatusCode::FORBIDDEN, message.to_owned()));
    if rules.tokens.is_empty()
        && let Some(host) = host.as_ref().filter(|host| !is_own(host, &rules.names))
    {
        let message =
            format!("{} is not a name of this machine; add it to `names` of [api] or configure tokens", host.host());
        return Err(Rejection::Status(StatusCode::MISDIRECTED_REQUEST, message));
    }
    if need == Permission::Write && is_of_another_site(request.headers(), host.as_ref()) {
        return forbidden("requests of other sites must not change anything");
    }
    if rules.tokens.is_empty() {
        if anonymous_may(from, need) {
            return Ok(None);
        }
        return forbidden(
            "without tokens only this machine may change anything; configure a token file as `tokens` of [api]",
        );
    }
    let token = token(request.headers());
    if let Some(time) = token.as_ref().and_then(|_| access.wrong_tokens.must_wait(from)) {
        return Err(Rejection::Wait(time));
    }
    match token.as_ref().and_then(|token| rules.tokens.find(token)) {
        Some((role, name)) if role.may(need) => Ok(Some(name.to_owned())),
        Some(_) => forbidden("the role of this token does not allow this request"),
        None => {
            if token.is_some() {
                access.wrong_tokens.note(from);
            }
            let message =
                "a token is required: send `Authorization: Bearer TOKEN`, or TOKEN as the password of any user";
            Err(Rejection::Status(StatusCode::UNAUTHORIZED, message.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: Version, target: &str, headers: &[(HeaderName, &[u8])]) -> Request {
        let mut request = Request::builder().version(version).uri(target);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(axum::body::Body::empty()).expect("a request")
    }

    #[test]
    fn token_extracted_from_bearer_and_basic() {
        let found = |value: &'static str| {
            token(request(Version::HTTP_11, "/", &[(header::AUTHORIZATION, value.as_bytes())]).headers())
        };
        assert_eq!(found("Bearer abc"), Some("abc".to_owned()));
        assert_eq!(found("basic dXNlcjphYmM="), Some("abc".to_owned()));
        assert_eq!((found("Basic ???"), found("Digest abc"), found("abc")), (None, None, None));
        assert_eq!(need(&Method::POST, "/v1/agents/10.0.0.1/stats"), Permission::Report(Some([10, 0, 0, 1].into())));
        assert_eq!(need(&Method::DELETE, "/quantum/v1.0/clear/"), Permission::Write);
    }

    #[test]
    fn cross_site_requests_recognised() {
        let host: Authority = "127.0.0.1:8080".parse().expect("a host");
        let is_other = |headers: &[(HeaderName, &[u8])]| {
            is_of_another_site(request(Version::HTTP_11, "/", headers).headers(), Some(&host))
        };
        let site = HeaderName::from_static("sec-fetch-site");
        assert!(!is_other(&[(header::ACCEPT, b"text/html")]));
        assert!(!is_other(&[(header::ORIGIN, b"http://127.0.0.1:8080"), (site.clone(), b"same-origin")]));
        for headers in [
            &[(header::ORIGIN, &b"http://example.org"[..])][..],
            &[(header::ORIGIN, b"null")],
            &[(header::ORIGIN, "http://\u{e9}".as_bytes())],
            &[(header::ORIGIN, b"http://127.0.0.1:8080"), (header::ORIGIN, b"http://example.org")],
            &[(site, b"cross-site")],
        ] {
            assert!(is_other(headers), "{headers:?}");
        }
    }

    #[test]
    fn host_header_accepts_own_names_only() {
        let names = ["localhost".to_owned(), "controller".to_owned()];
        let host = |version, target, headers: &[(HeaderName, &[u8])]| {
            authority(&request(version, target, headers)).map(|host| host.is_none_or(|host| is_own(&host, &names)))
        };
        for own in ["127.0.0.1:8080", "[::1]:8080", "10.0.0.1", "localhost", "LocalHost:8080", "controller:80"] {
            assert_eq!(host(Version::HTTP_11, "/", &[(header::HOST, own.as_bytes())]), Ok(true), "{own}");
        }
        for other in ["evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "x"] {
            assert_eq!(host(Version::HTTP_11, "/", &[(header::HOST, other.as_bytes())]), Ok(false), "{other}");
        }
        let local: (HeaderName, &[u8]) = (header::HOST, b"localhost");
        assert_eq!(
            host(Version::HTTP_11, "http://evil/", std::slice::from_ref(&local)),
            Ok(false),
            "the target takes precedence"
        );
        assert_eq!(host(Version::HTTP_10, "/", &[]), Ok(true));
        assert!(host(Version::HTTP_11, "/", &[]).is_err());
        assert!(host(Version::HTTP_11, "/", &[local.clone(), local]).is_err());
        assert!(host(Version::HTTP_11, "/", &[(header::HOST, b"a b")]).is_err());
    }
}
