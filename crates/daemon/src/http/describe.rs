//! What holds for every path of the API, added to its document.

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use super::problem::Problem;

const SCHEME: &str = "token";

/// Answers anything may get, with why.
const ALWAYS: [(&str, &str); 2] =
    [("401", "There are tokens, and none that is known was sent"), ("503", "The controller is stopping")];
const CHANGES: [(&str, &str); 2] =
    [("403", "This token, or this machine, may not change anything"), ("507", "It cannot be written down")];

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
            "A token of the file named as `tokens` of `[api]`; nothing where there is no such file, and the request comes \
             from the controller's own machine",
        ));
        components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme.build()));
    }
    let none: [&str; 0] = [];
    document.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new(SCHEME, none)]);
}

fn add(operation: &mut Operation, answers: &[(&str, &str)]) {
    for (status, words) in answers {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| Problem::described(words).into());
    }
}
