//! Topologies as files for others: our JSON, GraphML, a Mininet script.

mod graphml;
mod json;
mod mininet;

pub use graphml::graphml;
pub use json::json;
pub use mininet::mininet;
