//! What services and pools have in common: each is wanted by name, at a path of its own.

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::{Body, made};
use super::problem::Problem;
use super::vips::Overview;
use crate::server::Handle;
use crate::services::{Desired, Focus, Keeper, Name, Refused};

/// What may be wanted by name.
pub(super) trait Named: Clone + Serialize + DeserializeOwned + Send + 'static {
    /// Its kind, in the singular; paths have the plural.
    const WHAT: &'static str;
    /// What the API shows of it.
    type Shown: Serialize;

    /// What is wanted under a name.
    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a Self>;
    /// Wants it; whether there was none of its name.
    ///
    /// # Errors
    /// It is someone else's, or there are too many.
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, Refused>;
    /// Does not want it any more; whether it was wanted.
    ///
    /// # Errors
    /// It is someone else's, or in use.
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, Refused>;
    /// What a change of it is checked for first, so that faults are told in its words.
    fn focus(name: &Name) -> Focus<'_>;
    /// How it is now.
    fn shown(overview: &Overview, name: &Name) -> Option<Self::Shown>;
}

/// The name in a path.
///
/// # Errors
/// It is no name: there cannot be anything of it.
pub(super) fn name_in(text: &str, what: &str) -> Result<Name, Problem> {
    Name::try_from(text.to_owned()).map_err(|_| no_such(what, text))
}

pub(super) fn no_such(what: &str, name: impl std::fmt::Display) -> Problem {
    Problem::not_found(format!("there is no {what} `{name}`"))
}

/// Puts it in place and checks what follows; whether it is new.
pub(super) fn put_in<T: Named>(
    desired: &mut Desired,
    keeper: &Keeper,
    name: &Name,
    wanted: T,
) -> Result<bool, Refused> {
    let is_new = wanted.insert(desired, name)?;
    desired.check(keeper.checker(), T::focus(name))?;
    Ok(is_new)
}

/// What is wanted under a name.
///
/// # Errors
/// Nothing is.
pub(super) fn wanted<T: Named>(desired: &Desired, name: &Name) -> Result<T, Refused> {
    T::find(desired, name).cloned().ok_or_else(|| missing::<T>(name))
}

fn missing<T: Named>(name: &Name) -> Refused {
    Refused::NotFound(format!("there is no {} `{name}`", T::WHAT))
}

async fn shown<T: Named>(handle: &Handle, name: &Name) -> Result<Json<T::Shown>, Problem> {
    T::shown(&Overview::of(handle).await?, name).map(Json).ok_or_else(|| no_such(T::WHAT, name))
}

async fn shown_as_made<T: Named>(handle: &Handle, name: &Name, is_new: bool) -> Result<Response, Problem> {
    Ok(made(is_new, &format!("/v1/{}s/{name}", T::WHAT), shown::<T>(handle, name).await?))
}

/// Makes one; the body has its name.
pub(super) async fn make<T: Named>(handle: &Handle, body: Result<Body, Problem>) -> Result<Response, Problem> {
    let (name, spec) = body?.read_named::<T>()?;
    let new = name.clone();
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        if T::find(desired, &new).is_some() {
            let words = format!("there is a {} `{new}` already: PUT or PATCH changes it", T::WHAT);
            return Err(Refused::Conflict(words));
        }
        put_in(desired, keeper, &new, spec)
    };
    Keeper::change(handle, change).await?;
    shown_as_made::<T>(handle, &name, true).await
}

/// Shows one.
pub(super) async fn get<T: Named>(handle: &Handle, text: &str) -> Result<Json<T::Shown>, Problem> {
    shown::<T>(handle, &name_in(text, T::WHAT)?).await
}

/// Makes one, or puts it in the place of the one there is.
pub(super) async fn put<T: Named>(
    handle: &Handle,
    text: &str,
    body: Result<Body, Problem>,
) -> Result<Response, Problem> {
    let name = name_in(text, T::WHAT)?;
    let spec = body?.read::<T>()?;
    let at = name.clone();
    let is_new = Keeper::change(handle, move |desired, keeper| put_in(desired, keeper, &at, spec)).await?;
    shown_as_made::<T>(handle, &name, is_new).await
}

/// Changes some fields of one.
pub(super) async fn patch<T: Named>(
    handle: &Handle,
    text: &str,
    body: Result<Body, Problem>,
) -> Result<Json<T::Shown>, Problem> {
    let name = name_in(text, T::WHAT)?;
    let body = body?;
    let at = name.clone();
    let change = move |desired: &mut Desired, keeper: &Keeper| {
        let current = wanted::<T>(desired, &at)?;
        put_in(desired, keeper, &at, body.patch(&current)?)
    };
    Keeper::change(handle, change).await?;
    shown::<T>(handle, &name).await
}

/// Ends one.
pub(super) async fn delete<T: Named>(handle: &Handle, text: &str) -> Result<StatusCode, Problem> {
    let name = name_in(text, T::WHAT)?;
    let change = move |desired: &mut Desired, _: &Keeper| match T::remove(desired, &name)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing::<T>(&name)),
    };
    Ok(Keeper::change(handle, change).await?)
}
