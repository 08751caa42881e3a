//! Names the shared library by its ABI version, and keeps it loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS");
    if os.is_ok_and(|os| os == "linux") {
        // The number at the end is the ABI version, `CREEL_ABI_VERSION` in the header.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcreel.so.1");
        // The threads of a pool run the code of the library, and a thread that used a pool runs
        // destructors of it when it ends. Therefore `dlclose` must not unmap the library.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
