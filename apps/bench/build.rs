//! Compiles the OpenMP peer, where it was asked for.

fn main() {
    #[cfg(feature = "peers")]
    {
        println!("cargo::rerun-if-changed=src/workloads/iterate/openmp.c");
        cc::Build::new()
            .file("src/workloads/iterate/openmp.c")
            .opt_level(3)
            .flag("-fopenmp")
            .compile("creel_bench_openmp");
        println!("cargo::rustc-link-lib=gomp");
    }
}
