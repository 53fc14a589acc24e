//! Tells the crate what it is made from, its driver included, as `crates/experiment/build` does.

#[path = "../experiment/build/sources.rs"]
mod sources;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=ANABRANCH_TESTBED_BUILD={}", sources::hash(&["src", "../../testbed"]));
}
