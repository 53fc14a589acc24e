//! Components shared by several central balancers.

pub mod dag;
pub mod default_routes;
pub mod demand;
pub mod edges;
pub mod first_fit;
pub(crate) mod flows_by_host;
pub mod hosts;
pub mod pairs;
