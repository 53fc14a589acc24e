//! Fake switches that load a controller and measure its answers.

#![forbid(unsafe_code)]
