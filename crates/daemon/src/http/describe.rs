//! Responses and security schemes that every path of the API has in the OpenAPI document.

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use super::problem::Problem;

const SCHEME: &str = "token";

/// Error responses of every path.
const ALWAYS: [(&str, &str); 5] = [
    ("400", "Malformed Host header or body"),
    ("401", "Tokens are configured, and the request has no valid one"),
    ("408", "The request was not received in time"),
    ("421", "No tokens are configured, and the host name of the request is not a name of this machine"),
    ("503", "The controller is stopping"),
];
const CHANGES: [(&str, &str); 2] = [
    ("403", "The role of the token, or the address of the client, does not allow changes"),
    ("507", "The change cannot be stored"),
];

pub(super) fn complete(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        for operation in item.get.iter_mut() {
            add(operation, &ALWAYS);
        }
        let changes = item.put.iter_mut().chain(&mut item.post).chain(&mut item.patch).chain(&mut item.delete);
        for operation in changes {
            add(operation, &ALWAYS);
            add(operation, &CHANGES);
        }
    }
    if let Some(components) = &mut document.components {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "A token of the file `tokens` in `[api]`. Without such a file, requests from the controller's own machine need \
             no token",
        ));
        components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme.build()));
    }
    let none: [&str; 0] = [];
    document.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new(SCHEME, none)]);
}

fn add(operation: &mut Operation, answers: &[(&str, &str)]) {
    for (status, message) in answers {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| Problem::described(message).into());
    }
}
