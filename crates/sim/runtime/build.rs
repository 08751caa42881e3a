//! Compiles the runtime for the simulated machine.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=creel_sim");
}
