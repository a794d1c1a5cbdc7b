//! Links it without any shared library: the matrix runs it on systems whose C library is another one.

#[path = "../sweetspot/build/statically.rs"]
mod statically;

fn main() {
    println!("cargo::rerun-if-changed=../sweetspot/build/statically.rs");
    statically::link(&["bins"]);
}
