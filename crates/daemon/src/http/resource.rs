//! Calls that services and pools share: each is a named object with its own path.

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::{Body, made};
use super::problem::Problem;
use super::vips::Overview;
use crate::server::Handle;
use crate::services::{ChangeError, Desired, ErrorScope, Name, ServiceManager};

/// A named object that users define.
pub(super) trait Resource: Clone + Serialize + DeserializeOwned + Send + 'static {
    /// Name of the kind in the singular; paths have the plural.
    const WHAT: &'static str;
    /// The representation in responses.
    type View: Serialize;

    /// Returns the definition of a name.
    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a Self>;
    /// Adds or replaces the object. Returns whether it is new.
    ///
    /// # Errors
    /// The object has another origin, or all ids are used.
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, ChangeError>;
    /// Removes the object. Returns whether it existed.
    ///
    /// # Errors
    /// The object has another origin or is in use.
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, ChangeError>;
    /// Returns the scope of the check, so that errors name fields of this object.
    fn error_scope(name: &Name) -> ErrorScope<'_>;
    /// Returns the current state.
    fn view(overview: &Overview, name: &Name) -> Option<Self::View>;
}

/// Parses the name in a path.
///
/// # Errors
/// Returns status 404 for an invalid name: no object can have it.
pub(super) fn name_in(text: &str, what: &str) -> Result<Name, Problem> {
    Name::try_from(text.to_owned()).map_err(|_| no_such(what, text))
}

pub(super) fn no_such(what: &str, name: impl std::fmt::Display) -> Problem {
    Problem::not_found(format!("unknown {what} `{name}`"))
}

/// Adds or replaces an object and checks the result. Returns whether it is new.
pub(super) fn put_in<T: Resource>(
    desired: &mut Desired,
    keeper: &ServiceManager,
    name: &Name,
    definition: T,
) -> Result<bool, ChangeError> {
    let is_new = definition.insert(desired, name)?;
    desired.check(keeper.checker(), T::error_scope(name))?;
    Ok(is_new)
}

/// Returns the definition of a name.
///
/// # Errors
/// The name is unknown.
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

/// Creates an object; the body contains its name.
pub(super) async fn make<T: Resource>(handle: &Handle, body: Result<Body, Problem>) -> Result<Response, Problem> {
    let (name, spec) = body?.read_named::<T>()?;
    let new = name.clone();
    let change = move |desired: &mut Desired, keeper: &ServiceManager| {
        if T::find(desired, &new).is_some() {
            let message = format!("{} `{new}` exists already: change it with PUT or PATCH", T::WHAT);
            return Err(ChangeError::Conflict(message));
        }
        put_in(desired, keeper, &new, spec)
    };
    ServiceManager::change(handle, change).await?;
    shown_as_made::<T>(handle, &name, true).await
}

/// Returns an object.
pub(super) async fn get<T: Resource>(handle: &Handle, text: &str) -> Result<Json<T::View>, Problem> {
    view_of::<T>(handle, &name_in(text, T::WHAT)?).await
}

/// Creates or replaces an object.
pub(super) async fn put<T: Resource>(
    handle: &Handle,
    text: &str,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let name = name_in(text, T::WHAT)?;
    let spec = body?.read::<T>()?;
    let at = name.clone();
    let is_new = ServiceManager::change(handle, move |desired, keeper| put_in(desired, keeper, &at, spec)).await?;
    shown_as_made::<T>(handle, &name, is_new).await
}

/// Changes some fields of an object.
pub(super) async fn patch<T: Resource>(
    handle: &Handle,
    text: &str,
    body: Result<Body, Problem>,
) -> Result<Json<T::View>, Problem> {
    let name = name_in(text, T::WHAT)?;
    let body = body?;
    let at = name.clone();
    let change = move |desired: &mut Desired, keeper: &ServiceManager| {
        let current = definition::<T>(desired, &at)?;
        put_in(desired, keeper, &at, body.patch(&current)?)
    };
    ServiceManager::change(handle, change).await?;
    view_of::<T>(handle, &name).await
}

/// Removes an object.
pub(super) async fn delete<T: Resource>(handle: &Handle, text: &str) -> Result<StatusCode, Problem> {
    let name = name_in(text, T::WHAT)?;
    let change = move |desired: &mut Desired, _: &ServiceManager| match T::remove(desired, &name)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing::<T>(&name)),
    };
    Ok(ServiceManager::change(handle, change).await?)
}
