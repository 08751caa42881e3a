//! Builds the preload library of `creel run --shim`, so that it can be a part of the program.
//!
//! Cargo cannot put the library of another package into a program. The library has no
//! dependencies, so we call the compiler ourselves. If that fails, for example because the target
//! has no shared libraries, the file is empty and the program looks for a separate library.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

#[path = "../../crates/shim/compile.rs"]
mod compile;

const SOURCE: &str = "../../crates/shim/src/lib.rs";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=../../crates/shim/compile.rs");
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = folder.join("libcreel_shim.so");
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let is_built = is_linux
        && compile::compile(
            &variable("RUSTC"),
            Path::new(SOURCE),
            Some(&variable("TARGET")),
            env::var_os("RUSTC_LINKER").as_deref(),
            &library,
        );
    if is_linux && !is_built {
        println!(
            "cargo::warning=the library of `creel run --shim` cannot be built for this target"
        );
    }
    if !is_built {
        fs::write(&library, "").expect("cannot write to OUT_DIR");
    }
}
