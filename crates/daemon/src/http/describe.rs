//! What every call has in the OpenAPI document: path parameters, error responses, security schemes.

use utoipa::PartialSchema;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{HeaderBuilder, OpenApi, Ref, RefOr, Required};

use super::problem::Problem;
use crate::services::Name;

const SCHEME: &str = "token";

/// Path parameters: name, description, description of status 404.
const PARAMETERS: [(&str, &str, &str); 5] = [
    ("host", "IPv4 address of the host", "Not the IPv4 address of a host"),
    ("switch", "Datapath id, up to 16 hexadecimal digits, with or without colons", "Unknown switch"),
    ("service", "Name of the service", "Unknown or invalid name"),
    ("pool", "Name of the pool", "Unknown or invalid name"),
    ("member", "Name of the member", "Unknown or invalid name"),
];

const ALWAYS: [(&str, &str); 6] = [
    ("400", "Malformed Host header or body"),
    ("401", "Tokens are configured, and the request has no valid one"),
    ("408", "The request was not received in time"),
    ("429", "Too many wrong tokens from this address; `Retry-After` is the time to wait, in seconds"),
    ("421", "No tokens are configured, and the host name of the request is not a name of this machine"),
    ("503", "The controller is stopping, or its state file cannot be written; `detail` says whether a change was made"),
];
const WITH_BODY: [(&str, &str); 4] = [
    ("400", "Not valid JSON"),
    ("413", "More than 64 KiB"),
    ("415", "Content type other than application/json"),
    ("422", "An invalid field; `field` names it"),
];
const CONDITIONAL: [(&str, &str); 1] =
    [("412", "If-Match does not list the current revision: another request has changed the object")];
const CHANGES: [(&str, &str); 2] = [
    ("403", "The role of the token, or the address of the client, does not allow changes"),
    ("507", "The change cannot be stored; nothing was changed"),
];

pub(super) fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let is_definition = ["/v1/services", "/v1/pools"].iter().any(|start| path.starts_with(start));
        let used = || PARAMETERS.iter().filter(|(name, ..)| path.contains(&format!("{{{name}}}")));
        let describe = |operation: &mut Operation| {
            if used().next().is_some() {
                operation.parameters = Some(used().map(|known| RefOr::T(parameter(known))).collect());
            }
            if let Some((.., unknown)) = used().next_back() {
                add(operation, &[("404", unknown)]);
            }
            if operation.request_body.is_some() {
                add(operation, &WITH_BODY);
            }
            add(operation, &ALWAYS);
        };
        let has_revision = is_definition || path == "/v1/balancer";
        item.get.iter_mut().for_each(describe);
        item.get.iter_mut().filter(|_| has_revision).for_each(add_etag);
        for operation in item.put.iter_mut().chain(&mut item.post).chain(&mut item.patch).chain(&mut item.delete) {
            if is_definition {
                add(operation, &[("409", "The name or pool is in use, or the object has another origin")]);
            }
            describe(operation);
            add(operation, &CHANGES);
            if has_revision {
                add(operation, &CONDITIONAL);
                add_etag(operation);
                operation.parameters.get_or_insert_default().push(RefOr::T(if_match()));
            }
        }
    }
    if let Some(components) = &mut document.components {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "A token of the file `tokens` in `[api]`. Without such a file, requests from the controller's own machine need \
             no token",
        ));
        components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme.build()));
        components.schemas.insert("Name".to_owned(), Name::schema());
        components.schemas.insert("Problem".to_owned(), Problem::schema());
    }
    let none: [&str; 0] = [];
    document.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new(SCHEME, none)]);
}

fn parameter((name, description, _): &(&str, &str, &str)) -> Parameter {
    let format = (*name == "host").then_some(SchemaFormat::KnownFormat(KnownFormat::Ipv4));
    let text = ObjectBuilder::new().schema_type(Type::String).format(format);
    let parameter = ParameterBuilder::new().name(*name).parameter_in(ParameterIn::Path).required(Required::True);
    let parameter = parameter.description(Some(*description));
    match *name {
        "host" | "switch" => parameter.schema(Some(text)).build(),
        _ => parameter.schema(Some(Ref::from_schema_name("Name"))).build(),
    }
}

fn if_match() -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let message = "Revisions that the request accepts, as in `ETag`; without it any revision is accepted";
    let parameter = ParameterBuilder::new().name("If-Match").parameter_in(ParameterIn::Header);
    parameter.required(Required::False).description(Some(message)).schema(Some(text)).build()
}

/// Describes the header `ETag` of successful responses with a body.
fn add_etag(operation: &mut Operation) {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let message = "Revision of the definition, for `If-Match`; a member has the revision of its pool";
    let header = HeaderBuilder::new().schema(Some(text)).description(Some(message)).build();
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && matches!(status.as_str(), "200" | "201")
        {
            response.headers.insert("ETag".to_owned(), header.clone().into());
        }
    }
}

/// Adds responses unless the call describes them itself.
fn add(operation: &mut Operation, responses: &[(&str, &str)]) {
    for (status, message) in responses {
        let known = &mut operation.responses.responses;
        known.entry((*status).to_owned()).or_insert_with(|| Problem::described(message).into());
    }
}
