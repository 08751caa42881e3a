//! The runtimes that are known, and their names.

use super::ghc::{Capabilities, Ghc, RtsOpts};

/// A runtime that chooses its number of threads by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Its version, where told.
    Go(Option<(u32, u32)>),
    Ghc(Ghc),
    Java,
    /// The JDK's other tools, which have Java's library and not its options.
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
    /// A shell's script: what it starts is not known.
    Shell,
    Unknown,
}

/// Names for `--as`, and for files that are named like their runtime.
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
    // These two count by OMP_NUM_THREADS, without the library.
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

/// What `--as ghc` stands for.
const ASSUMED: Ghc = Ghc {
    threaded: true,
    rtsopts: RtsOpts::Some,
    pins: false,
    own: Capabilities::Machine,
    sizes_memory: false,
};

/// Reads a name for `--as`.
pub fn runtime_named(name: &str) -> Result<Runtime, String> {
    let known = NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    known.map(|(_, runtime)| *runtime).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("no runtime that is known; one of {}", names.join(", "))
    })
}

/// The runtime that a file name stands for. A file may be called what it likes: names that are
/// words of their own (`go`, `crystal`) are the compilers, and tell nothing.
pub fn by_name(file: &str) -> Option<Runtime> {
    let misleading = [
        "go", "ghc", "haskell", "crystal", "rayon", "tokio", "ocaml", "openmp", "shell",
    ];
    let mut names = NAMES.iter().filter(|(name, _)| !misleading.contains(name));
    let named = names.find(|(prefix, _)| is_versioned(file, prefix));
    named.map(|(_, runtime)| *runtime)
}

/// Whether a file name is `prefix` and a version: `python3.11`, `mono-sgen`, `beam.smp`.
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
