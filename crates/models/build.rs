//! Compiles the runtime for the model checker that the features choose.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for checker in ["loom", "shuttle"] {
        if std::env::var_os(format!("CARGO_FEATURE_{}", checker.to_uppercase())).is_some() {
            println!("cargo::rustc-cfg=creel_{checker}");
        }
    }
}
