//! `/v1/services`, `/v1/pools` and `/v1/pools/{pool}/members`: virtual services, pools and members.

use std::array;

use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};

use super::body::Body;
use super::problem::Problem;
use super::resource::{Resource, unknown};
use super::vips::{Member, Overview, Pool, Service};
use crate::services::{ChangeError, Desired, ErrorScope, MemberSpec, Name, NamedMember};
use crate::services::{Origin, PoolSpec, ServiceManager, ServiceSpec};

impl Resource for ServiceSpec {
    const KINDS: &'static [&'static str] = &["service"];
    const SUMMARIES: [&'static str; 6] = [
        "Returns all virtual services, of any origin.",
        "Creates a service. The response is sent when the service is stored and active in the controller.",
        "Returns a service.",
        "Creates or replaces the service of this name. Its connections stay if address, protocol and port stay.",
        "Changes some fields of a service (JSON merge patch, RFC 7396).",
        "Removes a service. Its connections end, and the controller stops replying to ARP requests for its address \
         unless another service has it.",
    ];
    type View = Service;
    type Key = [Name; 1];

    fn find(desired: &Desired, [name]: &[Name; 1]) -> Result<Option<ServiceSpec>, ChangeError> {
        Ok(desired.services.get(name).map(|service| service.spec.clone()))
    }
    fn revision(desired: &Desired, [name]: &[Name; 1]) -> Option<u64> {
        desired.services.get(name).map(|service| service.revision)
    }
    fn put(self, desired: &mut Desired, manager: &ServiceManager, [name]: &[Name; 1]) -> Result<bool, ChangeError> {
        let is_new = desired.put_service(Origin::Api, name, self)?;
        desired.check(manager.checker, ErrorScope::Service(name))?;
        Ok(is_new)
    }
    fn remove(desired: &mut Desired, _: &ServiceManager, [name]: &[Name; 1]) -> Result<bool, ChangeError> {
        desired.remove_service(Origin::Api, name)
    }
    fn view(overview: &Overview, [name]: &[Name; 1]) -> Option<Service> {
        overview.service(name)
    }
    fn views(overview: &Overview, _: &[Name]) -> Result<Vec<Service>, ChangeError> {
        Ok(overview.services())
    }
}

impl Resource for PoolSpec {
    const KINDS: &'static [&'static str] = &["pool"];
    const SUMMARIES: [&'static str; 6] = [
        "Returns all pools, of any origin.",
        "Creates a pool.",
        "Returns a pool.",
        "Creates or replaces the pool of this name. Members that are no longer listed keep their connections.",
        "Changes some fields of a pool (JSON merge patch, RFC 7396); `members` replaces the whole list.",
        "Removes a pool that no service uses.",
    ];
    type View = Pool;
    type Key = [Name; 1];

    fn find(desired: &Desired, [name]: &[Name; 1]) -> Result<Option<PoolSpec>, ChangeError> {
        Ok(desired.pools.get(name).map(|pool| pool.spec.clone()))
    }
    fn revision(desired: &Desired, [name]: &[Name; 1]) -> Option<u64> {
        desired.pools.get(name).map(|pool| pool.revision)
    }
    fn put(self, desired: &mut Desired, manager: &ServiceManager, [name]: &[Name; 1]) -> Result<bool, ChangeError> {
        let is_new = desired.put_pool(Origin::Api, name, self)?;
        desired.check(manager.checker, ErrorScope::Pool(name))?;
        Ok(is_new)
    }
    fn remove(desired: &mut Desired, _: &ServiceManager, [name]: &[Name; 1]) -> Result<bool, ChangeError> {
        desired.remove_pool(Origin::Api, name)
    }
    fn view(overview: &Overview, [name]: &[Name; 1]) -> Option<Pool> {
        overview.pool(name)
    }
    fn views(overview: &Overview, _: &[Name]) -> Result<Vec<Pool>, ChangeError> {
        Ok(overview.pools())
    }
}

fn pool_of<'a>(desired: &'a Desired, name: &Name) -> Result<&'a PoolSpec, ChangeError> {
    desired.pools.get(name).map(|pool| &pool.spec).ok_or_else(|| unknown("pool", name))
}

impl Resource for MemberSpec {
    const KINDS: &'static [&'static str] = &["pool", "member"];
    const SUMMARIES: [&'static str; 6] = [
        "Returns the members of a pool, followed by removed members that still have connections.",
        "Adds a member.",
        "Returns a member.",
        "Adds or replaces the member of this name. Another address or port makes it another member: the\n\
         old one keeps its connections.",
        "Changes some fields of a member (JSON merge patch, RFC 7396). `{\"is_enabled\": false}` drains it.",
        "Removes a member. It keeps its connections and gets no new ones.",
    ];
    type View = Member;
    type Key = [Name; 2];

    fn find(desired: &Desired, [pool, name]: &[Name; 2]) -> Result<Option<MemberSpec>, ChangeError> {
        Ok(pool_of(desired, pool)?.member(name).map(NamedMember::spec))
    }
    /// Returns the revision of the pool, which contains its members.
    fn revision(desired: &Desired, [pool, _]: &[Name; 2]) -> Option<u64> {
        desired.pools.get(pool).map(|pool| pool.revision)
    }
    fn put(
        self,
        desired: &mut Desired,
        manager: &ServiceManager,
        [pool, name]: &[Name; 2],
    ) -> Result<bool, ChangeError> {
        let mut spec = pool_of(desired, pool)?.clone();
        let member = NamedMember::new(name.clone(), self);
        let at = spec.members.iter().position(|other| other.name == *name);
        let ix = at.unwrap_or(spec.members.len());
        match at {
            Some(ix) => spec.members[ix] = member,
            None => spec.members.push(member),
        }
        spec.put(desired, manager, array::from_ref(pool)).map_err(|refused| match refused {
            ChangeError::Fault(fault) => ChangeError::Fault(fault.relative_to(&format!("members[{ix}]"))),
            other => other,
        })?;
        Ok(at.is_none())
    }
    fn remove(desired: &mut Desired, manager: &ServiceManager, [pool, name]: &[Name; 2]) -> Result<bool, ChangeError> {
        let mut spec = pool_of(desired, pool)?.clone();
        let Some(ix) = spec.members.iter().position(|member| member.name == *name) else { return Ok(false) };
        spec.members.remove(ix);
        spec.put(desired, manager, array::from_ref(pool)).map(|_| true)
    }
    fn view(overview: &Overview, [pool, name]: &[Name; 2]) -> Option<Member> {
        overview.pool(pool)?.members.into_iter().find(|member| member.name.as_ref() == Some(name))
    }
    fn views(overview: &Overview, within: &[Name]) -> Result<Vec<Member>, ChangeError> {
        let [name] = within else { unreachable!("the path of members has the name of their pool") };
        overview.pool(name).map(|pool| pool.members).ok_or_else(|| unknown("pool", name))
    }
    fn new_schema() -> RefOr<Schema> {
        Ref::from_schema_name("NamedMember").into()
    }
    fn read_new(body: Body) -> Result<(Name, MemberSpec), Problem> {
        let member: NamedMember = body.read()?;
        Ok((member.name.clone(), member.spec()))
    }
}
