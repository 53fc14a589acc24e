//! Hashes the sources of the crate and of everything it runs: results of another build are not
//! reused.

mod sources;

fn main() {
    println!("cargo:rerun-if-changed=build");
    let crates = ["net", "traffic", "balance", "openflow", "switch", "control", "sim", "experiment"];
    let sources = crates.map(|name| format!("../{name}/src"));
    let mut paths: Vec<&str> = sources.iter().map(String::as_str).collect();
    // Versions of libraries count, too.
    paths.push("../../Cargo.lock");
    println!("cargo:rustc-env=ANABRANCH_BUILD={}", sources::hash(&paths));
}
