//! Tells the crate what the controller is made from, so that a recording names its build.

#[path = "../experiment/build/sources.rs"]
mod sources;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let sources = ["src", "../control/src", "../balance/src", "../openflow/src", "../net/src"];
    println!("cargo:rustc-env=ANABRANCH_CONTROLLER_BUILD={}", sources::hash(&sources));
}
