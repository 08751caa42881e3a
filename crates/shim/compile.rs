// Compiles the preload library. The build script of `creel-cli` and the tests of this crate include
// this file, because cargo cannot pass the flags to a single package.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::Command,
};

/// Compiles `source` to the shared library `library`. Returns whether that worked. `target` is a
/// target of rustc. Without one, the library is for this machine.
pub fn compile(
    rustc: &OsStr,
    source: &Path,
    target: Option<&OsStr>,
    linker: Option<&OsStr>,
    library: &Path,
) -> bool {
    let mut compiler = Command::new(rustc);
    compiler
        .args([
            "--edition=2024",
            "--crate-type=cdylib",
            "--crate-name=creel_shim",
            "--cfg=creel_shim_library",
        ])
        .args([
            "-Copt-level=s",
            "-Clto=fat",
            "-Cpanic=abort",
            "-Cstrip=symbols",
            "-Ccodegen-units=1",
            // Targets of musl do not build shared libraries with a static libc.
            "-Ctarget-feature=-crt-static",
            // The library must not name a libc that it needs.
            "-Clink-arg=-nostdlib",
            // musl and older versions of glibc read different tables.
            "-Clink-arg=-Wl,--hash-style=both",
        ])
        .arg("--cap-lints=allow")
        .arg(source)
        .arg("-o")
        .arg(library);
    if let Some(target) = target {
        compiler.arg("--target").arg(target);
    }
    if let Some(linker) = linker {
        let mut option = OsString::from("linker=");
        option.push(linker);
        compiler.arg("-C").arg(option);
    }
    compiler.status().is_ok_and(|status| status.success()) && library.exists()
}
