//! What an ELF file tells of the runtime inside it.
//!
//! Only the section table, four small sections and a bounded part of the read-only data are
//! read, so that even a program of hundreds of megabytes costs about a millisecond.
//!
//! Sources: the ELF-64 object file format; Go's `debug/buildinfo`; GHC's
//! `.debug-ghc-link-info` note, written by its linker step.

use elf::{ElfStream, abi, endian::AnyEndian};
use memchr::memmem;
use std::{fs::File, path::Path};

/// How much of a section is read at most.
const SECTION_MAX: u64 = 16 << 20;

/// What was found in the file.
#[derive(Debug, Default)]
pub struct Facts {
    /// The shared libraries it names.
    pub needed: Vec<String>,
    /// Whether it names no dynamic loader, so that no preloaded library reaches it.
    pub is_static: bool,
    /// Go's build information or build id is there.
    pub go: bool,
    pub ghc: Option<Ghc>,
    /// The marks in its read-only data, of those in [`MARKS`].
    pub marks: Vec<&'static str>,
}

/// How a Haskell program was linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghc {
    /// Linked with `-threaded`: it can have more than one capability.
    pub threaded: bool,
    /// Which run-time options it takes.
    pub rtsopts: RtsOpts,
    /// Whether its own defaults (`-with-rtsopts`) pin the capabilities: `-qa`.
    pub pins: bool,
}

/// The `-rtsopts` that a Haskell program was linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtsOpts {
    All,
    /// GHC's default: only what cannot do harm.
    Some,
    None,
    IgnoreAll,
}

/// Texts that only a program with that runtime holds: each is the name of the variable that the
/// runtime itself reads.
pub const MARKS: [&str; 5] = [
    "CRYSTAL_WORKERS",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "OCAMLRUNPARAM",
    "DOTNET_PROCESSOR_COUNT",
];

/// Only the non-threaded runtime holds this text.
const NOT_THREADED: &[u8] = b"requires the program to be built with -threaded";

/// Reads the facts; `None` if the file is no ELF file or its tables are damaged.
pub fn read(path: &Path) -> Option<Facts> {
    let mut file = ElfStream::<AnyEndian, _>::open_stream(File::open(path).ok()?).ok()?;
    let mut facts = Facts {
        is_static: !file.segments().iter().any(|s| s.p_type == abi::PT_INTERP),
        needed: needed(&mut file).unwrap_or_default(),
        ..Facts::default()
    };
    facts.go =
        has_section(&mut file, ".go.buildinfo") || has_section(&mut file, ".note.go.buildid");
    if facts.go || facts.needed.iter().any(|name| is_runtime(name)) {
        return Some(facts);
    }
    if let Some(info) = section(&mut file, ".debug-ghc-link-info") {
        facts.ghc = Some(ghc_from_link_info(&info));
        return Some(facts);
    }
    let data = section(&mut file, ".rodata").unwrap_or_default();
    let holds = |text: &[u8]| memmem::find(&data, text).is_some();
    let comment = section(&mut file, ".comment").unwrap_or_default();
    if memmem::find(&comment, b"GHC ").is_some() {
        // Stripped: what options it takes is not known, but GHC's default is what does no harm.
        facts.ghc = Some(Ghc {
            threaded: !holds(NOT_THREADED),
            rtsopts: RtsOpts::Some,
            pins: false,
        });
    }
    let marks = MARKS.into_iter().filter(|mark| holds(mark.as_bytes()));
    facts.marks = marks.collect();
    Some(facts)
}

/// Whether a library is a language's runtime, which makes a look at the data needless.
fn is_runtime(library: &str) -> bool {
    ["libjli.", "libnode.", "libpython", "libruby"]
        .iter()
        .any(|name| library.starts_with(name))
}

type Stream = ElfStream<AnyEndian, File>;

fn needed(file: &mut Stream) -> Option<Vec<String>> {
    let dynamic = file.dynamic().ok()??;
    let offsets: Vec<usize> = dynamic
        .iter()
        .filter(|entry| entry.d_tag == abi::DT_NEEDED)
        .filter_map(|entry| usize::try_from(entry.d_val()).ok())
        .collect();
    let (_, strings) = file.dynamic_symbol_table().ok()??;
    let names = offsets.into_iter().filter_map(|at| strings.get(at).ok());
    Some(names.map(String::from).collect())
}

fn has_section(file: &mut Stream, name: &str) -> bool {
    matches!(file.section_header_by_name(name), Ok(Some(_)))
}

fn section(file: &mut Stream, name: &str) -> Option<Vec<u8>> {
    let mut header = *file.section_header_by_name(name).ok()??;
    header.sh_size = header.sh_size.min(SECTION_MAX);
    let (data, _compression) = file.section_data(&header).ok()?;
    Some(data.to_vec())
}

/// The link info is text: the libraries, among them the runtime (`-lHSrts_thr`, or
/// `-lHSrts-1.0.2_thr_l`), and the options that the program was linked with.
fn ghc_from_link_info(info: &[u8]) -> Ghc {
    let holds = |text: &str| memmem::find(info, text.as_bytes()).is_some();
    let runtimes = memmem::find_iter(info, b"-lHSrts").map(|at| &info[at..]);
    let names = runtimes.map(|rest| rest.split(|&b| b == b'"').next().unwrap_or(rest));
    let rtsopts = [
        ("RtsOptsIgnoreAll", RtsOpts::IgnoreAll),
        ("RtsOptsNone", RtsOpts::None),
        ("RtsOptsAll", RtsOpts::All),
    ];
    let linked = rtsopts.into_iter().find(|(text, _)| holds(text));
    Ghc {
        threaded: names
            .into_iter()
            .any(|name| memmem::find(name, b"_thr").is_some()),
        rtsopts: linked.map_or(RtsOpts::Some, |(_, rtsopts)| rtsopts),
        pins: holds("-qa"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_info_is_read_in_both_spellings() {
        let info = br#"(["-lHSbase","-lHSrts-1.0.2_thr_l"],["-lm"]) RtsOptsAll Just "-qa -A4m""#;
        let all = Ghc {
            threaded: true,
            rtsopts: RtsOpts::All,
            pins: true,
        };
        assert_eq!(ghc_from_link_info(info), all);
        let old = br#"(["-lHSmy_thr","-lHSrts"],[]) RtsOptsSafeOnly Nothing"#;
        let some = Ghc {
            threaded: false,
            rtsopts: RtsOpts::Some,
            pins: false,
        };
        assert_eq!(ghc_from_link_info(old), some);
    }
}
