//! Calls that services, pools and members share: each is a named object with its own path.

use std::fmt::Display;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::UtoipaMethodRouter;

use super::body::{Body, new_schema, patch_schema};
use super::change::{ChangeRequest, etag};
use super::problem::Problem;
use super::vips::Overview;
use crate::server::Handle;
use crate::services::{ChangeError, Desired, Name, ServiceManager};

pub(super) trait Resource: Clone + Serialize + DeserializeOwned + ToSchema + Send + 'static {
    /// Names of the kind and of those that contain it, outermost first, in the singular; paths have
    /// the plural.
    const KINDS: &'static [&'static str];
    /// Summaries of the calls that list, create, get, put, patch and delete.
    const SUMMARIES: [&'static str; 6];
    type View: Serialize + ToSchema + Send;
    /// The names in the path of an object, an array as long as `KINDS`.
    type Key: TryFrom<Vec<Name>> + AsRef<[Name]> + Clone + Send + Sync + 'static;

    fn find(desired: &Desired, key: &Self::Key) -> Result<Option<Self>, ChangeError>;
    /// Returns the revision of the object; `None` if it does not exist.
    fn revision(desired: &Desired, key: &Self::Key) -> Option<u64>;
    /// Adds or replaces the object and checks the result. Returns whether it is new. Errors name
    /// fields of this object.
    fn put(self, desired: &mut Desired, manager: &ServiceManager, key: &Self::Key) -> Result<bool, ChangeError>;
    /// Removes the object. Returns whether it existed.
    fn remove(desired: &mut Desired, manager: &ServiceManager, key: &Self::Key) -> Result<bool, ChangeError>;
    fn view(overview: &Overview, key: &Self::Key) -> Option<Self::View>;
    /// Returns all objects within those of these names.
    fn views(overview: &Overview, within: &[Name]) -> Result<Vec<Self::View>, ChangeError>;

    /// Returns the schema of a request that creates an object: the object with its name.
    fn new_schema() -> RefOr<Schema> {
        new_schema::<Self>()
    }
    fn read_new(body: Body) -> Result<(Name, Self), Problem> {
        body.read_named()
    }
}

/// The names in the path of a request.
struct Names(Vec<Name>);

impl<S: Send + Sync> FromRequestParts<S> for Names {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Names, Response> {
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Path(parameters) = path.map_err(IntoResponse::into_response)?;
        let name = |(kind, text): &(String, String)| Name::try_from(text.clone()).map_err(|_| unknown(kind, text));
        let names = parameters.iter().map(name).collect::<Result<_, _>>();
        names.map(Names).map_err(|error| Problem::from(error).into_response())
    }
}

impl Names {
    fn key<T: Resource>(self) -> T::Key {
        T::Key::try_from(self.0).unwrap_or_else(|_| unreachable!("the path of a route has the names of its objects"))
    }
}

/// Returns the path of an object from the names in it.
fn path_of<T: Resource>(names: &[impl Display]) -> String {
    let parts = T::KINDS.iter().zip(names).map(|(kind, name)| format!("/{kind}s/{name}"));
    format!("/v1{}", parts.collect::<String>())
}

/// Returns the calls of a kind of object with their descriptions: those of the list and those of
/// one object.
pub(super) fn routes<T: Resource>() -> [UtoipaMethodRouter<Handle>; 2] {
    let json = |schema: RefOr<Schema>| ContentBuilder::new().schema(Some(schema)).build();
    let view = || RefOr::from(Ref::from_schema_name(T::View::name()));
    let answer = |schema| ResponseBuilder::new().content("application/json", json(schema));
    let body = |kind: &str, schema| {
        Some(RequestBodyBuilder::new().content(kind, json(schema)).required(Some(Required::True)).build())
    };
    let one = kind_of::<T>();
    let changed = || ("200", answer(view()).description("Replaced or changed"));
    let list = answer(ArrayBuilder::new().items(view()).into());
    let created = answer(view()).description("Created; `Location` is its path");
    let patch_body = body("application/merge-patch+json", patch_schema::<T>());
    let put_body = body("application/json", Ref::from_schema_name(T::name()).into());
    let put = vec![changed(), ("201", answer(view()).description("Created"))];
    let removed = ResponseBuilder::new().description("Removed");
    let calls = [
        (HttpMethod::Get, format!("{one}s"), None, vec![("200", list)]),
        (HttpMethod::Post, format!("make_{one}"), body("application/json", T::new_schema()), vec![("201", created)]),
        (HttpMethod::Get, one.to_owned(), None, vec![("200", answer(view()))]),
        (HttpMethod::Put, format!("put_{one}"), put_body, put),
        (HttpMethod::Patch, format!("patch_{one}"), patch_body, vec![changed()]),
        (HttpMethod::Delete, format!("delete_{one}"), None, vec![("204", removed)]),
    ];
    let path = path_of::<T>(&T::KINDS.iter().map(|kind| format!("{{{kind}}}")).collect::<Vec<_>>());
    let list_path = path.rsplit_once('/').map_or("", |(list, _)| list);
    let mut paths = [Paths::new(), Paths::new()];
    for (ix, ((method, id, body, responses), summary)) in calls.into_iter().zip(T::SUMMARIES).enumerate() {
        let call = OperationBuilder::new().tag("services").operation_id(Some(id)).summary(Some(summary));
        let call = responses.into_iter().fold(call, |call, (status, response)| call.response(status, response));
        let (all, at) = if ix < 2 { (&mut paths[0], list_path) } else { (&mut paths[1], path.as_str()) };
        all.add_path_operation(at, vec![method], call.request_body(body).build());
    }
    let mut schemas = vec![(T::View::name().into(), T::View::schema()), (T::name().into(), T::schema())];
    T::View::schemas(&mut schemas);
    T::schemas(&mut schemas);
    let for_list = routing::get(list_all::<T>).post(make::<T>);
    let for_one = routing::get(get::<T>).put(put_one::<T>).patch(patch::<T>).delete(delete::<T>);
    let [list, one] = paths;
    [(schemas, list, for_list), (Vec::new(), one, for_one)]
}

/// Returns the name of the kind in the singular.
fn kind_of<T: Resource>() -> &'static str {
    T::KINDS.last().copied().unwrap_or_default()
}

pub(super) fn unknown(kind: &str, name: impl Display) -> ChangeError {
    ChangeError::NotFound(format!("unknown {kind} `{name}`"))
}

fn missing<T: Resource>(key: &T::Key) -> ChangeError {
    unknown(kind_of::<T>(), key.as_ref().last().expect("a key has names"))
}

async fn view_of<T: Resource>(handle: &Handle, key: &T::Key) -> Result<Response, Problem> {
    let overview = Overview::of(handle).await?;
    let view = T::view(&overview, key).ok_or_else(|| missing::<T>(key))?;
    Ok((etag(T::revision(overview.desired(), key).unwrap_or_default()), Json(view)).into_response())
}

/// Returns the response to a PUT or POST: 201 with the location of a new object, else 200.
async fn shown_as_made<T: Resource>(handle: &Handle, key: &T::Key, is_new: bool) -> Result<Response, Problem> {
    let view = view_of::<T>(handle, key).await?;
    let location = [(header::LOCATION, path_of::<T>(key.as_ref()))];
    Ok(if is_new { (StatusCode::CREATED, location, view).into_response() } else { view })
}

async fn list_all<T: Resource>(
    State(handle): State<Handle>,
    Names(within): Names,
) -> Result<impl IntoResponse, Problem> {
    let overview = Overview::of(&handle).await?;
    Ok((etag(overview.desired().revision), Json(T::views(&overview, &within)?)))
}

/// Creates an object; the body contains its name.
async fn make<T: Resource>(request: ChangeRequest, Names(mut names): Names, body: Body) -> Result<Response, Problem> {
    let (name, spec) = T::read_new(body)?;
    names.push(name.clone());
    let key = Names(names).key::<T>();
    let at = key.clone();
    let change = move |desired: &mut Desired, manager: &ServiceManager| {
        if T::find(desired, &at)?.is_some() {
            let message = format!("{} `{name}` exists already: change it with PUT or PATCH", kind_of::<T>());
            return Err(ChangeError::Conflict(message));
        }
        spec.put(desired, manager, &at)
    };
    let handle = request.handle.clone();
    request.change(|desired| Some(desired.revision), change).await?;
    shown_as_made::<T>(&handle, &key, true).await
}

async fn get<T: Resource>(State(handle): State<Handle>, names: Names) -> Result<Response, Problem> {
    view_of::<T>(&handle, &names.key::<T>()).await
}

async fn put_one<T: Resource>(request: ChangeRequest, names: Names, body: Body) -> Result<Response, Problem> {
    let (handle, key) = (request.handle.clone(), names.key::<T>());
    let spec = body.read::<T>()?;
    let at = key.clone();
    let is_new = change_one::<T, _>(request, &key, move |desired, manager| spec.put(desired, manager, &at)).await?;
    shown_as_made::<T>(&handle, &key, is_new).await
}

async fn patch<T: Resource>(request: ChangeRequest, names: Names, body: Body) -> Result<Response, Problem> {
    let (handle, key) = (request.handle.clone(), names.key::<T>());
    let at = key.clone();
    let change = move |desired: &mut Desired, manager: &ServiceManager| {
        let current = T::find(desired, &at)?.ok_or_else(|| missing::<T>(&at))?;
        body.patch(&current)?.put(desired, manager, &at)
    };
    change_one::<T, _>(request, &key, change).await?;
    view_of::<T>(&handle, &key).await
}

async fn delete<T: Resource>(request: ChangeRequest, names: Names) -> Result<StatusCode, Problem> {
    let key = names.key::<T>();
    let at = key.clone();
    let change = move |desired: &mut Desired, manager: &ServiceManager| match T::remove(desired, manager, &at)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing::<T>(&at)),
    };
    Ok(change_one::<T, _>(request, &key, change).await?)
}

/// Changes an object if the request accepts its revision.
async fn change_one<T: Resource, R: Send + 'static>(
    request: ChangeRequest,
    key: &T::Key,
    edit: impl FnOnce(&mut Desired, &ServiceManager) -> Result<R, ChangeError> + Send + 'static,
) -> Result<R, ChangeError> {
    let key = key.clone();
    request.change(move |desired| T::revision(desired, &key), edit).await
}
