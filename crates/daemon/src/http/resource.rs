//! Calls that services and pools share: each is a named object with its own path.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::UtoipaMethodRouter;

use super::body::{Body, made, new_schema, patch_schema};
use super::problem::Problem;
use super::vips::Overview;
use crate::server::Handle;
use crate::services::{ChangeError, Desired, ErrorScope, Name, ServiceManager};

pub(super) trait Resource: Clone + Serialize + DeserializeOwned + ToSchema + Send + 'static {
    /// Name of the kind in the singular; paths have the plural.
    const WHAT: &'static str;
    /// Summaries of the calls that list, create, get, put, patch and delete.
    const SUMMARIES: [&'static str; 6];
    type View: Serialize + ToSchema + Send;

    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a Self>;
    /// Adds or replaces the object. Returns whether it is new.
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, ChangeError>;
    /// Removes the object. Returns whether it existed.
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, ChangeError>;
    /// Returns the scope of the check, so that errors name fields of this object.
    fn error_scope(name: &Name) -> ErrorScope<'_>;
    fn view(overview: &Overview, name: &Name) -> Option<Self::View>;
    fn views(overview: &Overview) -> Vec<Self::View>;
}

/// Returns the calls of a kind of object with their descriptions: those of the list and those of
/// one object.
pub(super) fn routes<T: Resource>() -> [UtoipaMethodRouter<Handle>; 2] {
    let (one, many) = (T::WHAT, format!("{}s", T::WHAT));
    let json = |schema: RefOr<Schema>| ContentBuilder::new().schema(Some(schema)).build();
    let view = || RefOr::from(Ref::from_schema_name(T::View::name()));
    let answer = |schema| ResponseBuilder::new().content("application/json", json(schema));
    let body = |kind: &str, schema| {
        RequestBodyBuilder::new().content(kind, json(schema)).required(Some(Required::True)).build()
    };
    let operation = |ix: usize, id: String| {
        OperationBuilder::new().tag("services").operation_id(Some(id)).summary(Some(T::SUMMARIES[ix]))
    };
    let changed = || answer(view()).description("Replaced or changed");
    let list = answer(ArrayBuilder::new().items(view()).into());
    let create = body("application/json", new_schema::<T>());
    let created = answer(view()).description("Created; `Location` is its path");
    let patch_body = body("application/merge-patch+json", patch_schema::<T>());
    let put_body = body("application/json", Ref::from_schema_name(T::name()).into());
    let removed = ResponseBuilder::new().description("Removed");
    let of_list: [(HttpMethod, Operation); 2] = [
        (HttpMethod::Get, operation(0, many.clone()).response("200", list).build()),
        (
            HttpMethod::Post,
            operation(1, format!("make_{one}")).request_body(Some(create)).response("201", created).build(),
        ),
    ];
    let put = operation(3, format!("put_{one}")).request_body(Some(put_body)).response("200", changed());
    let patched = operation(4, format!("patch_{one}")).request_body(Some(patch_body)).response("200", changed());
    let of_one: [(HttpMethod, Operation); 4] = [
        (HttpMethod::Get, operation(2, one.to_owned()).response("200", answer(view())).build()),
        (HttpMethod::Put, put.response("201", answer(view()).description("Created")).build()),
        (HttpMethod::Patch, patched.build()),
        (HttpMethod::Delete, operation(5, format!("delete_{one}")).response("204", removed).build()),
    ];
    let mut schemas = vec![(T::View::name().into(), T::View::schema()), (T::name().into(), T::schema())];
    T::View::schemas(&mut schemas);
    T::schemas(&mut schemas);
    let paths = |path: String, operations: Vec<(HttpMethod, Operation)>| {
        let mut paths = Paths::new();
        operations.into_iter().for_each(|(method, one)| paths.add_path_operation(&path, vec![method], one));
        paths
    };
    let for_list = routing::get(list_all::<T>).post(make::<T>);
    let for_one = routing::get(get::<T>).put(put_one::<T>).patch(patch::<T>).delete(delete::<T>);
    [
        (schemas, paths(format!("/v1/{many}"), of_list.into()), for_list),
        (Vec::new(), paths(format!("/v1/{many}/{{{one}}}"), of_one.into()), for_one),
    ]
}

pub(super) fn name_in(text: &str, what: &str) -> Result<Name, Problem> {
    Name::try_from(text.to_owned()).map_err(|_| no_such(what, text))
}

pub(super) fn no_such(what: &str, name: impl std::fmt::Display) -> Problem {
    Problem::not_found(format!("unknown {what} `{name}`"))
}

/// Adds or replaces an object and checks the result. Returns whether it is new.
pub(super) fn put_in<T: Resource>(
    desired: &mut Desired,
    manager: &ServiceManager,
    name: &Name,
    definition: T,
) -> Result<bool, ChangeError> {
    let is_new = definition.insert(desired, name)?;
    desired.check(manager.checker(), T::error_scope(name))?;
    Ok(is_new)
}

pub(super) fn definition<T: Resource>(desired: &Desired, name: &Name) -> Result<T, ChangeError> {
    T::find(desired, name).cloned().ok_or_else(|| missing::<T>(name))
}

fn missing<T: Resource>(name: &Name) -> ChangeError {
    ChangeError::NotFound(format!("unknown {} `{name}`", T::WHAT))
}

async fn view_of<T: Resource>(handle: &Handle, name: &Name) -> Result<Json<T::View>, Problem> {
    T::view(&Overview::of(handle).await?, name).map(Json).ok_or_else(|| no_such(T::WHAT, name))
}

async fn shown_as_made<T: Resource>(handle: &Handle, name: &Name, is_new: bool) -> Result<Response, Problem> {
    Ok(made(is_new, &format!("/v1/{}s/{name}", T::WHAT), view_of::<T>(handle, name).await?))
}

async fn list_all<T: Resource>(State(handle): State<Handle>) -> Result<Json<Vec<T::View>>, Problem> {
    Ok(Json(T::views(&Overview::of(&handle).await?)))
}

/// Creates an object; the body contains its name.
async fn make<T: Resource>(State(handle): State<Handle>, body: Result<Body, Problem>) -> Result<Response, Problem> {
    let (name, spec) = body?.read_named::<T>()?;
    let new = name.clone();
    let change = move |desired: &mut Desired, manager: &ServiceManager| {
        if T::find(desired, &new).is_some() {
            let message = format!("{} `{new}` exists already: change it with PUT or PATCH", T::WHAT);
            return Err(ChangeError::Conflict(message));
        }
        put_in(desired, manager, &new, spec)
    };
    ServiceManager::change(&handle, change).await?;
    shown_as_made::<T>(&handle, &name, true).await
}

async fn get<T: Resource>(State(handle): State<Handle>, Path(text): Path<String>) -> Result<Json<T::View>, Problem> {
    view_of::<T>(&handle, &name_in(&text, T::WHAT)?).await
}

async fn put_one<T: Resource>(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let name = name_in(&text, T::WHAT)?;
    let spec = body?.read::<T>()?;
    let at = name.clone();
    let is_new = ServiceManager::change(&handle, move |desired, manager| put_in(desired, manager, &at, spec)).await?;
    shown_as_made::<T>(&handle, &name, is_new).await
}

async fn patch<T: Resource>(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<T::View>, Problem> {
    let name = name_in(&text, T::WHAT)?;
    let body = body?;
    let at = name.clone();
    let change = move |desired: &mut Desired, manager: &ServiceManager| {
        let current = definition::<T>(desired, &at)?;
        put_in(desired, manager, &at, body.patch(&current)?)
    };
    ServiceManager::change(&handle, change).await?;
    view_of::<T>(&handle, &name).await
}

async fn delete<T: Resource>(State(handle): State<Handle>, Path(text): Path<String>) -> Result<StatusCode, Problem> {
    let name = name_in(&text, T::WHAT)?;
    let change = move |desired: &mut Desired, _: &ServiceManager| match T::remove(desired, &name)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing::<T>(&name)),
    };
    Ok(ServiceManager::change(&handle, change).await?)
}
