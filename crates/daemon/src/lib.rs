//! The controller on sockets: OpenFlow listener, HTTP API, metrics. The only async crate.

#![forbid(unsafe_code)]
