//! `/v1/services` and `/v1/pools`: virtual services and pools of members.

use super::resource::Resource;
use super::vips::{Overview, Pool, Service};
use crate::services::{ChangeError, Desired, ErrorScope, Name, Origin, PoolSpec, ServiceSpec};

impl Resource for ServiceSpec {
    const WHAT: &'static str = "service";
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

    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a ServiceSpec> {
        desired.services.get(name).map(|service| &service.spec)
    }
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.put_service(Origin::Api, name, self)
    }
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.remove_service(Origin::Api, name)
    }
    fn error_scope(name: &Name) -> ErrorScope<'_> {
        ErrorScope::Service(name)
    }
    fn view(overview: &Overview, name: &Name) -> Option<Service> {
        overview.service(name)
    }
    fn views(overview: &Overview) -> Vec<Service> {
        overview.services()
    }
}

impl Resource for PoolSpec {
    const WHAT: &'static str = "pool";
    const SUMMARIES: [&'static str; 6] = [
        "Returns all pools, of any origin.",
        "Creates a pool.",
        "Returns a pool.",
        "Creates or replaces the pool of this name. Members that are no longer listed keep their connections.",
        "Changes some fields of a pool (JSON merge patch, RFC 7396); `members` replaces the whole list.",
        "Removes a pool that no service uses.",
    ];
    type View = Pool;

    fn find<'a>(desired: &'a Desired, name: &Name) -> Option<&'a PoolSpec> {
        desired.pools.get(name).map(|pool| &pool.spec)
    }
    fn insert(self, desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.put_pool(Origin::Api, name, self)
    }
    fn remove(desired: &mut Desired, name: &Name) -> Result<bool, ChangeError> {
        desired.remove_pool(Origin::Api, name)
    }
    fn error_scope(name: &Name) -> ErrorScope<'_> {
        ErrorScope::Pool(name)
    }
    fn view(overview: &Overview, name: &Name) -> Option<Pool> {
        overview.pool(name)
    }
    fn views(overview: &Overview) -> Vec<Pool> {
        overview.pools()
    }
}
