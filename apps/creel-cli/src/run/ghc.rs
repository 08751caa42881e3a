//! How a Haskell program was linked, which decides what it can be told.
//!
//! A file as the linker left it says so in a section of text, `.debug-ghc-link-info`. In a stripped
//! one the C function `main` that GHC writes into every program tells: it copies the runtime's
//! default configuration to its stack and then stores there which options are taken, and the
//! program's own. GHC compiles it without optimisation, so its instructions are always the same;
//! where they differ in a byte, or on another processor than x86-64, nothing is told. One option
//! too many may end a program, or be taken for an argument of its own.
//!
//! Sources: GHC's linker step and `rts/include/RtsAPI.h` (`RtsConfig`, `RtsOptsEnabledEnum`).

use super::elf::{self, Tables};
use ::elf::abi;
use memchr::memmem;
use std::{fs::File, os::unix::fs::FileExt};

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
    /// The file does not tell.
    Unknown,
}

/// Every GHC runtime holds the name of the variable that it reads.
pub const VARIABLE: &str = "GHCRTS";
/// Only the non-threaded runtime holds this text.
const NOT_THREADED: &str = "requires the program to be built with -threaded";
/// And only the threaded one this.
const THREADED: &str = "bad value for -maxN";
/// All that is to be searched for.
pub const TEXTS: [&str; 3] = [VARIABLE, NOT_THREADED, THREADED];

impl Ghc {
    /// The link info is text: the libraries, among them the runtime (`-lHSrts_thr`, or
    /// `-lHSrts-1.0.2_thr_l`), and the options that the program was linked with.
    pub fn of_link_info(info: &[u8]) -> Self {
        let holds = |text: &str| memmem::find(info, text.as_bytes()).is_some();
        let runtimes = memmem::find_iter(info, b"-lHSrts").map(|at| &info[at..]);
        let names = runtimes.map(|rest| rest.split(|&b| b == b'"').next().unwrap_or(rest));
        let rtsopts = [
            ("RtsOptsIgnoreAll", RtsOpts::IgnoreAll),
            ("RtsOptsNone", RtsOpts::None),
            ("RtsOptsAll", RtsOpts::All),
        ];
        let linked = rtsopts.into_iter().find(|(text, _)| holds(text));
        Self {
            threaded: names
                .into_iter()
                .any(|name| memmem::find(name, b"_thr").is_some()),
            rtsopts: linked.map_or(RtsOpts::Some, |(_, rtsopts)| rtsopts),
            pins: holds("-qa"),
            own: with_rtsopts(info).map_or(Capabilities::One, |own| Capabilities::of(&own)),
            sizes_memory: with_rtsopts(info).is_some_and(|own| sizes_memory(&own)),
        }
    }

    /// Reads a stripped program that holds these of [`TEXTS`].
    pub fn of_stripped(file: &File, tables: &mut Tables, texts: &[&str]) -> Self {
        let threaded = !texts.contains(&NOT_THREADED);
        let image = Image::new(file, tables);
        match image.and_then(|image| image.configuration()) {
            // An option that only one of the two runtimes takes ends the other.
            Some((rtsopts, own)) if !threaded || texts.contains(&THREADED) => Self {
                threaded,
                rtsopts,
                pins: own.split_ascii_whitespace().any(|word| word == "-qa"),
                own: Capabilities::of(&own),
                sizes_memory: sizes_memory(&own),
            },
            _ => Self {
                threaded,
                rtsopts: RtsOpts::Unknown,
                pins: false,
                own: options_in(&elf::section(tables, ".rodata").unwrap_or_default()),
                sizes_memory: false,
            },
        }
    }
}

/// A program as it will lie in memory.
struct Image<'f> {
    file: &'f File,
    entry: u64,
    /// Where each loaded part begins in memory and in the file, and its length there.
    parts: Vec<(u64, u64, u64)>,
}

impl<'f> Image<'f> {
    fn new(file: &'f File, tables: &Tables) -> Option<Self> {
        if tables.ehdr.e_machine != abi::EM_X86_64 {
            return None;
        }
        let loaded = tables
            .segments()
            .iter()
            .filter(|s| s.p_type == abi::PT_LOAD);
        Some(Self {
            file,
            entry: tables.ehdr.e_entry,
            parts: loaded
                .map(|s| (s.p_vaddr, s.p_offset, s.p_filesz))
                .collect(),
        })
    }

    /// What lies at an address; shorter at the end of a part.
    fn at(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        let mut parts = self.parts.iter();
        let (begin, offset, size) = parts.find(|(begin, _, size)| {
            address.checked_sub(*begin).is_some_and(|into| into < *size)
        })?;
        let into = address - begin;
        let length = length.min(size - into);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut bytes, offset + into).ok()?;
        Some(bytes)
    }

    /// The options that are taken and the program's own, as `main` stores them.
    fn configuration(&self) -> Option<(RtsOpts, String)> {
        let start = self.at(self.entry, 64)?;
        let main = self.at(main_of(&start, self.entry)?, 512)?;
        let (level, own) = stored(&main)?;
        let rtsopts = match level {
            0 => RtsOpts::None,
            3 => RtsOpts::Some,
            4 => RtsOpts::All,
            // These numbers have changed their meaning with GHC 8.4.
            _ => return None,
        };
        if own == 0 {
            return Some((rtsopts, String::new()));
        }
        let text = self.at(own, 4096)?;
        let text = text.split(|&b| b == 0).next()?;
        Some((rtsopts, String::from_utf8(text.to_vec()).ok()?))
    }
}

/// The address of `main`, which libc's first instructions put into the register `rdi`, by an
/// address or a distance.
fn main_of(start: &[u8], address: u64) -> Option<u64> {
    let number = |at: usize| {
        Some(i32::from_le_bytes(
            start.get(at + 3..at + 7)?.try_into().ok()?,
        ))
    };
    if let Some(at) = memmem::find(start, &[0x48, 0x8d, 0x3d]) {
        return address
            .checked_add(at as u64 + 7)?
            .checked_add_signed(number(at)?.into());
    }
    let at = memmem::find(start, &[0x48, 0xc7, 0xc7])?;
    u64::try_from(number(at)?).ok()
}

/// What GHC's `main` stores into the configuration on its stack: the number of the options taken
/// (at its beginning), and the address of the program's own (16 bytes further).
fn stored(main: &[u8]) -> Option<(u32, u64)> {
    // push rbp; mov rbp, rsp; push rbx; sub rsp, …
    let mut rest = main.strip_prefix(&[0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x81, 0xec])?;
    rest = rest.get(4..)?;
    let mut begin = None;
    let mut level = None;
    loop {
        let (code, length) = match rest {
            // The arguments, from their registers to the stack.
            [0x89, 0xbd, ..] => (2, 6),
            [0x48, 0x89, 0xb5, ..] => (3, 7),
            // A word of the defaults into a register, and from there to the stack.
            [0x48, 0x8b, 0x05 | 0x15, ..] => (3, 7),
            [0x48, 0x89, 0x45 | 0x55, place, ..] => {
                begin.get_or_insert(*place);
                (3, 4)
            }
            // A number to the stack, of 4 bytes and of 8.
            [0xc7, 0x45, ..] => (2, 7),
            [0x48, 0xc7, 0x45, ..] => (3, 8),
            _ => return None,
        };
        let operand = rest.get(code..length)?;
        if let [place, value @ ..] = operand
            && let Ok(value) = value.try_into().map(u32::from_le_bytes)
            && length - code == 5
        {
            match (rest[0], place.wrapping_sub(begin?), level) {
                (0xc7, 0, None) => level = Some(value),
                (0x48, 16, Some(level)) => return Some((level, value.into())),
                _ => {}
            }
        }
        rest = &rest[length..];
    }
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
    fn ghc_link_info_is_parsed() {
        let info = br#"(["-lHSbase","-lHSrts-1.0.2_thr_l"],["-lm"]) RtsOptsAll Just "-qa -A4m""#;
        let all = Ghc {
            threaded: true,
            rtsopts: RtsOpts::All,
            pins: true,
            own: Capabilities::One,
            sizes_memory: true,
        };
        assert_eq!(Ghc::of_link_info(info), all);
        let old = br#"(["-lHSmy_thr","-lHSrts"],[]) RtsOptsSafeOnly Nothing"#;
        let some = Ghc {
            threaded: false,
            rtsopts: RtsOpts::Some,
            pins: false,
            own: Capabilities::One,
            sizes_memory: false,
        };
        assert_eq!(Ghc::of_link_info(old), some);
    }

    #[test]
    fn linked_capabilities_are_parsed() {
        let own = |info: &[u8]| Capabilities::of(&with_rtsopts(info).unwrap());
        assert_eq!(own(br#"([],Just "-A4m -N",All)"#), Capabilities::Machine);
        assert_eq!(own(br#"(Just "-maxN4",x)"#), Capabilities::Fixed(4));
        assert_eq!(options_in(b"x\0-N -qg\0y"), Capabilities::Machine);
        let help = b"\0-N[<n>] use <n> processors\0  -N4 x\0";
        assert_eq!(options_in(help), Capabilities::One);
    }

    #[test]
    fn options_of_stripped_programs_are_read_from_main() {
        let mut main = vec![
            0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x81, 0xec, 0x88, 0, 0, 0,
        ];
        main.extend([0x89, 0xbd, 0x7c, 0xff, 0xff, 0xff]);
        main.extend([0x48, 0x8b, 0x05, 1, 2, 3, 4, 0x48, 0x89, 0x45, 0x80]);
        main.extend([0xc7, 0x45, 0x80, 3, 0, 0, 0]);
        main.extend([0x48, 0xc7, 0x45, 0x88, 1, 0, 0, 0]);
        main.extend([0x48, 0xc7, 0x45, 0x90, 0xb0, 0xf4, 0x4b, 0]);
        assert_eq!(stored(&main), Some((3, 0x4b_f4b0)));
        for at in 0..main.len() {
            assert_eq!(stored(&main[..at]), None, "cut at {at}");
        }
        // Another instruction among them, or another function.
        main[12] = 0x90;
        assert_eq!(stored(&main), None);
        assert_eq!(stored(b"\x55\x48"), None);
        let start = [0x90, 0x48, 0x8d, 0x3d, 0x61, 4, 0, 0];
        assert_eq!(main_of(&start, 0x40_0000), Some(0x40_0000 + 8 + 0x461));
        assert_eq!(
            main_of(&[0x48, 0xc7, 0xc7, 0x2c, 0xd1, 0x40, 0], 0),
            Some(0x40_d12c)
        );
        assert_eq!(main_of(&[0x48, 0x8d, 0x3d], 0), None);
    }
}
