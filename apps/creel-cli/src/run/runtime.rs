//! The runtimes that creel knows, and their names.

use super::ghc::{Capabilities, Ghc, RtsOpts};

/// A runtime that chooses its number of threads by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Go, with its version if known.
    Go(Option<(u32, u32)>),
    Ghc(Ghc),
    Java,
    /// Other tools of the JDK, which have the library of Java but not its options.
    Jdk,
    Node,
    Python,
    Erlang,
    Ruby,
    OpenMp,
    Mono,
    DotNet,
    Crystal,
    Rayon,
    Tokio,
    Julia,
    Ocaml,
    R,
    Cargo,
    Make,
    Ninja,
    Pigz,
    Xz,
    Zstd,
    /// A shell script, which may start programs that we do not know.
    Shell,
    Unknown,
}

/// The names for `--as`, and for files with the name of their runtime.
const NAMES: [(&str, Runtime); 37] = [
    ("java", Runtime::Java),
    ("go", Runtime::Go(None)),
    ("ghc", Runtime::Ghc(ASSUMED)),
    ("haskell", Runtime::Ghc(ASSUMED)),
    ("node", Runtime::Node),
    ("python", Runtime::Python),
    ("pypy", Runtime::Python),
    ("ruby", Runtime::Ruby),
    ("erlang", Runtime::Erlang),
    ("elixir", Runtime::Erlang),
    ("iex", Runtime::Erlang),
    ("mix", Runtime::Erlang),
    ("beam", Runtime::Erlang),
    ("erlexec", Runtime::Erlang),
    ("erl", Runtime::Erlang),
    ("mono", Runtime::Mono),
    ("dotnet", Runtime::DotNet),
    ("julia", Runtime::Julia),
    ("crystal", Runtime::Crystal),
    ("rayon", Runtime::Rayon),
    ("tokio", Runtime::Tokio),
    ("ocaml", Runtime::Ocaml),
    ("openmp", Runtime::OpenMp),
    // The next two programs obey OMP_NUM_THREADS, although they do not use the library of OpenMP.
    ("nproc", Runtime::OpenMp),
    ("sort", Runtime::OpenMp),
    ("R", Runtime::R),
    ("Rscript", Runtime::R),
    ("cargo", Runtime::Cargo),
    ("make", Runtime::Make),
    ("gmake", Runtime::Make),
    ("ninja", Runtime::Ninja),
    ("pigz", Runtime::Pigz),
    ("unpigz", Runtime::Pigz),
    ("xz", Runtime::Xz),
    ("zstd", Runtime::Zstd),
    ("zstdmt", Runtime::Zstd),
    ("shell", Runtime::Shell),
];

/// The way of linking that we assume for `--as ghc`, because we cannot read it from the file.
const ASSUMED: Ghc = Ghc {
    threaded: true,
    rtsopts: RtsOpts::Some,
    pins: false,
    own: Capabilities::Machine,
    sizes_memory: false,
};

/// Parses a name for `--as`.
pub fn runtime_named(name: &str) -> Result<Runtime, String> {
    let known = NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    known.map(|(_, runtime)| *runtime).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!(
            "creel does not know this runtime: use one of {}",
            names.join(", ")
        )
    })
}

/// Returns the runtime for a file name. Names that are ordinary words or compilers, for example
/// `go` and `crystal`, do not identify a runtime.
pub fn by_name(file: &str) -> Option<Runtime> {
    let misleading = [
        "go", "ghc", "haskell", "crystal", "rayon", "tokio", "ocaml", "openmp", "shell",
    ];
    let mut names = NAMES.iter().filter(|(name, _)| !misleading.contains(name));
    let named = names.find(|(prefix, _)| is_versioned(file, prefix));
    named.map(|(_, runtime)| *runtime)
}

/// Returns whether a file name is `prefix` with a version or a similar suffix, for example
/// `python3.11`, `mono-sgen` or `beam.smp`.
pub fn is_versioned(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else {
        return false;
    };
    let version = |c: char| c.is_ascii_digit() || ".-_".contains(c);
    rest.chars().all(version) || matches!(rest, ".smp" | "-sgen" | "js")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_names_match_with_versions() {
        assert!(is_versioned("python3.11", "python"));
        assert!(is_versioned("beam.smp", "beam"));
        assert!(is_versioned("nodejs", "node"));
        assert!(!is_versioned("node-exporter", "node"));
        assert!(!is_versioned("javac", "java"));
    }
}
