//! Integration tests of the crate, in one binary because each binary is linked separately.

mod files;
mod fuzz_corpus;
mod paths;
