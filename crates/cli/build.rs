//! Compiles the program again when a file that it contains changes; see `src/shipped.rs`.

fn main() {
    for folder in ["experiments", "data"] {
        println!("cargo::rerun-if-changed=../../{folder}");
    }
}
