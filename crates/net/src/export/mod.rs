//! Exporters of topologies: the project's JSON, GraphML, a Mininet script.

mod graphml;
mod json;
mod mininet;

pub use graphml::graphml;
pub use json::json;
pub use mininet::mininet;
