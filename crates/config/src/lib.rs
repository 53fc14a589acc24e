//! TOML files that users write: experiments and configurations.
//!
//! A [`document::Document`] is a parsed file whose values keep their source location. A
//! [`section::Section`] reads typed values from one table of it. Errors are a
//! [`diagnostic::FileError`] with location, key and hint.

pub mod diagnostic;
pub mod document;
pub mod keys;
pub mod section;
