//! TOML files that users write: experiments and configurations.
//!
//! A [`document::Document`] is a parsed file whose values keep their source location. A
//! [`section::Section`] reads typed values from one table of it. Errors are a
//! [`diagnostic::FileError`] with location, key and hint. The keys of a kind of file are declared once, in a
//! [`keys::Layout`]: parsers, documentation and [`schema`] use it.

pub mod diagnostic;
pub mod document;
pub mod keys;
pub mod kind;
pub mod schema;
pub mod section;
pub mod timetable;
