//! At the door: who asks, and whether they may.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::problem::Problem;
use crate::access::{Need, may_untold};
use crate::server::Handle;

/// What a request needs.
fn need(method: &Method, path: &str) -> Need {
    if let Some(rest) = path.strip_prefix("/v1/agents/") {
        return Need::Report(rest.split('/').next().and_then(|host| host.parse().ok()));
    }
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) { Need::Look } else { Need::Change }
}

/// The token of a request: a bearer's, or the password of a user of any name, which browsers and `curl -u` send.
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

/// Whether a page of another site asks: a browser sends what its user did not mean to.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return false };
    let own = text(header::HOST).is_some_and(|host| origin.split_once("://").is_some_and(|(_, at)| at == host));
    !own
}

/// Lets through who may pass.
pub(super) async fn guard(
    State(handle): State<Handle>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let need = need(request.method(), request.uri().path());
    let headers = request.headers();
    if need == Need::Change && is_of_another_site(headers) {
        return Problem::new(StatusCode::FORBIDDEN, "pages of other sites may not change anything here")
            .into_response();
    }
    if handle.tokens.is_empty() {
        if may_untold(from.ip(), need) {
            return next.run(request).await;
        }
        let words = "without tokens only this machine may change anything: name a file of them as `tokens` of [api]";
        return Problem::new(StatusCode::FORBIDDEN, words).into_response();
    }
    match token(headers).and_then(|token| handle.tokens.role(&token)) {
        Some(role) if role.may(need) => next.run(request).await,
        Some(_) => Problem::new(StatusCode::FORBIDDEN, "this token may not do that").into_response(),
        None => {
            let words = "a token is needed: Authorization: Bearer TOKEN, or TOKEN as the password of any user";
            let asks = "Bearer realm=\"anabranch\", Basic realm=\"anabranch\", charset=\"UTF-8\"";
            let problem = Problem::new(StatusCode::UNAUTHORIZED, words);
            ([(header::WWW_AUTHENTICATE, asks)], problem).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_and_other_sites_told() {
        let headers = |name: header::HeaderName, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "127.0.0.1:8080".parse().expect("a value"));
            headers.insert(name, value.parse().expect("a value"));
            headers
        };
        let found = |value| token(&headers(header::AUTHORIZATION, value));
        assert_eq!(found("Bearer abc"), Some("abc".to_owned()));
        assert_eq!(found("basic dXNlcjphYmM="), Some("abc".to_owned()));
        assert_eq!((found("Basic ???"), found("Digest abc"), found("abc")), (None, None, None));
        assert!(!is_of_another_site(&headers(header::ORIGIN, "http://127.0.0.1:8080")));
        assert!(is_of_another_site(&headers(header::ORIGIN, "http://example.org")));
        assert!(is_of_another_site(&headers(header::ORIGIN, "null")));
        assert!(!is_of_another_site(&headers(header::ACCEPT, "text/html")));
        assert_eq!(need(&Method::POST, "/v1/agents/10.0.0.1/facts"), Need::Report(Some([10, 0, 0, 1].into())));
        assert_eq!(need(&Method::DELETE, "/quantum/v1.0/clear/"), Need::Change);
    }
}
