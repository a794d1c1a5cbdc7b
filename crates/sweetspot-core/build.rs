//! Tells the build script of the `sweetspot` binary where this crate's sources lie, also when they
//! come from a registry: the preload library is built from them and embedded.

fn main() {
    println!("cargo::metadata=manifest_dir={}", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    println!("cargo::rerun-if-changed=build.rs");
    // A target folder may have been copied together with a checkout, as caches do.
    println!("cargo::rerun-if-env-changed=CARGO_MANIFEST_DIR");
}
