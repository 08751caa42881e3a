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
    /// Go's build information or build id is there: its version, as (1, 26), where told.
    pub go: Option<Option<(u32, u32)>>,
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
    /// How many capabilities its own defaults ask for.
    pub own: Capabilities,
    /// Whether its own defaults size memory: an allocation area, a largest or a suggested heap.
    pub sizes_memory: bool,
}

/// What a Haskell program's `-with-rtsopts` say of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capabilities {
    /// Nothing: it runs with one.
    One,
    /// `-N`: as many as the machine has.
    Machine,
    /// `-N4`, `-maxN4`: a number of its own.
    Fixed(usize),
}

impl Capabilities {
    /// Reads the last `-N` of some options.
    fn of(options: &str) -> Self {
        let mut words = options.split_ascii_whitespace().rev();
        let n = words.find_map(|word| {
            let digits = word.strip_prefix("-N").or(word.strip_prefix("-maxN"))?;
            match digits.parse() {
                Ok(n) => Some(Self::Fixed(n)),
                Err(_) if digits.is_empty() => Some(Self::Machine),
                Err(_) => None,
            }
        });
        n.unwrap_or(Self::One)
    }
}

/// The `-rtsopts` that a Haskell program was linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtsOpts {
    All,
    /// GHC's default: only what cannot do harm.
    Some,
    None,
    IgnoreAll,
    /// The file does not tell: it is stripped.
    Untold,
}

/// Texts that only a program with that runtime holds: each is the name of the variable that the
/// runtime itself reads.
pub const MARKS: [&str; 6] = [
    "CRYSTAL_WORKERS",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "OCAMLRUNPARAM",
    "DOTNET_PROCESSOR_COUNT",
    "DOTNET_ROOT",
];

/// Only the non-threaded runtime holds this text.
const NOT_THREADED: &[u8] = b"requires the program to be built with -threaded";

/// Every GHC runtime holds the name of the variable that it reads.
const GHC: &[u8] = b"GHCRTS";

/// Reads the facts; `None` if the file is no ELF file or its tables are damaged.
pub fn read(path: &Path) -> Option<Facts> {
    let mut file = ElfStream::<AnyEndian, _>::open_stream(File::open(path).ok()?).ok()?;
    let mut facts = Facts {
        is_static: !file.segments().iter().any(|s| s.p_type == abi::PT_INTERP),
        needed: needed(&mut file).unwrap_or_default(),
        ..Facts::default()
    };
    facts.go = go(&mut file);
    if facts.go.is_some() || facts.needed.iter().any(|name| is_runtime(name)) {
        return Some(facts);
    }
    if let Some(info) = section(&mut file, ".debug-ghc-link-info") {
        facts.ghc = Some(ghc_from_link_info(&info));
        return Some(facts);
    }
    let data = section(&mut file, ".rodata").unwrap_or_default();
    let holds = |text: &[u8]| memmem::find(&data, text).is_some();
    let comment = section(&mut file, ".comment").unwrap_or_default();
    if memmem::find(&comment, b"GHC ").is_some() || holds(GHC) {
        // Stripped: what options it takes is not known, and one too many may end it, or be taken
        // for an argument of its own. Debian's packages lack the comment too.
        facts.ghc = Some(Ghc {
            threaded: !holds(NOT_THREADED),
            rtsopts: RtsOpts::Untold,
            pins: false,
            own: options_in(&data),
            sizes_memory: false,
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

/// Go's version stands in `.go.buildinfo` since 1.18: a header of 32 bytes, a length, `go1.26.1`.
fn go(file: &mut Stream) -> Option<Option<(u32, u32)>> {
    if let Some(info) = section(file, ".go.buildinfo") {
        let text = info.get(33..).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[..text.len().min(16)]).into_owned();
        return Some(go_version(&text));
    }
    has_section(file, ".note.go.buildid").then_some(None)
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text
        .strip_prefix("go")?
        .split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// In a stripped program `-with-rtsopts` is a text of options only, between NULs; the runtime's
/// own help, which names options too, is prose.
fn options_in(data: &[u8]) -> Capabilities {
    let texts = data
        .split(|&b| b == 0)
        .filter(|text| text.starts_with(b"-"));
    let options = texts
        .filter_map(|text| std::str::from_utf8(text).ok())
        .filter(|text| {
            let words = text.split_ascii_whitespace();
            words
                .clone()
                .any(|word| word.starts_with("-N") || word.starts_with("-maxN"))
                && words
                    .clone()
                    .all(|word| word.starts_with('-') && word.len() > 1)
        });
    options
        .map(Capabilities::of)
        .next()
        .unwrap_or(Capabilities::One)
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
        own: with_rtsopts(info).map_or(Capabilities::One, |own| Capabilities::of(&own)),
        sizes_memory: with_rtsopts(info).is_some_and(|own| sizes_memory(&own)),
    }
}

/// `Just "-N -A4m"` among the link info.
fn with_rtsopts(info: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(info);
    let rest = text.split("Just \"").nth(1)?;
    Some(rest.split('"').next()?.to_owned())
}

fn sizes_memory(options: &str) -> bool {
    let mut words = options.split_ascii_whitespace();
    words.any(|word| ["-A", "-M", "-H"].iter().any(|mark| word.starts_with(mark)))
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
            own: Capabilities::One,
            sizes_memory: true,
        };
        assert_eq!(ghc_from_link_info(info), all);
        let old = br#"(["-lHSmy_thr","-lHSrts"],[]) RtsOptsSafeOnly Nothing"#;
        let some = Ghc {
            threaded: false,
            rtsopts: RtsOpts::Some,
            pins: false,
            own: Capabilities::One,
            sizes_memory: false,
        };
        assert_eq!(ghc_from_link_info(old), some);
    }

    #[test]
    fn a_programs_own_capabilities_are_read() {
        let own = |info: &[u8]| Capabilities::of(&with_rtsopts(info).unwrap());
        assert_eq!(own(br#"([],Just "-A4m -N",All)"#), Capabilities::Machine);
        assert_eq!(own(br#"(Just "-maxN4",x)"#), Capabilities::Fixed(4));
        assert_eq!(options_in(b"x\0-N -qg\0y"), Capabilities::Machine);
        let help = b"\0-N[<n>] use <n> processors\0  -N4 x\0";
        assert_eq!(options_in(help), Capabilities::One);
    }

    #[test]
    fn gos_version_is_read() {
        assert_eq!(go_version("go1.26.1 X:y"), Some((1, 26)));
        assert_eq!(go_version("go1.9rc2"), Some((1, 9)));
        assert_eq!(go_version("devel"), None);
    }
}
