//! Finds out how a Haskell program was linked, because this decides which options it accepts.
//!
//! An unstripped file has this information in a section of text, `.debug-ghc-link-info`. In a
//! stripped file, we read the C function `main`, which GHC writes into every program. It copies the
//! default configuration of the runtime to its stack. Then it stores there which options are
//! accepted, and the options of the program. GHC compiles it without optimisation, so its
//! instructions are always the same. If a byte differs, or on another processor than x86-64, we
//! report the accepted options as unknown. We are that strict because a program may fail with an
//! option too many, or mistake it for an argument of its own.
//!
//! Sources: GHC's linker step and `rts/include/RtsAPI.h` (`RtsConfig`, `RtsOptsEnabledEnum`).

use super::elf::{self, Tables};
use ::elf::abi;
use memchr::memmem;
use std::{fs::File, os::unix::fs::FileExt};

/// The way a Haskell program was linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghc {
    /// Whether the program was linked with `-threaded`, so that it can have more than one
    /// capability.
    pub threaded: bool,
    /// The runtime options that the program accepts.
    pub rtsopts: RtsOpts,
    /// Whether the program's default options (`-with-rtsopts`) pin the capabilities with `-qa`.
    pub pins: bool,
    /// The number of capabilities in the program's default options.
    pub own: Capabilities,
    /// Whether the program's default options set memory sizes: an allocation area, or a maximum or
    /// suggested heap.
    pub sizes_memory: bool,
}

/// The number of capabilities in the `-with-rtsopts` of a Haskell program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capabilities {
    /// No option sets the number, so the program runs with one capability.
    One,
    /// `-N` means one per CPU in the affinity mask of the program.
    Machine,
    /// A fixed number, for example `-N4` or `-maxN4`.
    Fixed(usize),
}

impl Capabilities {
    /// Parses the last `-N` among the options.
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

/// The `-rtsopts` with which a Haskell program was linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtsOpts {
    All,
    /// The default of GHC: only harmless options.
    Some,
    None,
    IgnoreAll,
    /// The file does not contain the information.
    Unknown,
}

/// Every GHC runtime contains the name of the variable that it reads.
pub const VARIABLE: &str = "GHCRTS";
/// Only the non-threaded runtime contains this text.
const NOT_THREADED: &str = "requires the program to be built with -threaded";
/// Only the threaded runtime contains this text.
const THREADED: &str = "bad value for -maxN";
/// All texts that we search for.
pub const TEXTS: [&str; 3] = [VARIABLE, NOT_THREADED, THREADED];

impl Ghc {
    /// Reads the link info. It is text that lists the libraries and the options of the link step.
    /// One of the libraries is the runtime, for example `-lHSrts_thr` or `-lHSrts-1.0.2_thr_l`.
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

    /// Reads a stripped program that contains these texts of [`TEXTS`].
    pub fn of_stripped(file: &File, tables: &mut Tables, texts: &[&str]) -> Self {
        let threaded = !texts.contains(&NOT_THREADED);
        let image = Image::new(file, tables);
        match image.and_then(|image| image.configuration()) {
            // An option of one of the two runtimes makes a program with the other one fail.
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

/// A program as it will be loaded into memory.
struct Image<'f> {
    file: &'f File,
    entry: u64,
    /// The loaded segments: the address in memory, the offset in the file, and the length in the
    /// file.
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

    /// Returns the bytes at an address. There may be fewer at the end of a segment.
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

    /// Returns the accepted options and the default options of the program, as `main` stores them.
    fn configuration(&self) -> Option<(RtsOpts, String)> {
        let start = self.at(self.entry, 64)?;
        let main = self.at(main_of(&start, self.entry)?, 512)?;
        let (level, own) = stored(&main)?;
        let rtsopts = match level {
            0 => RtsOpts::None,
            3 => RtsOpts::Some,
            4 => RtsOpts::All,
            // The meaning of these numbers changed with GHC 8.4.
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

/// Returns the address of `main`. The first instructions of libc put it into the register `rdi`, as
/// an address or as a distance.
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

/// Returns the two values that `main` of GHC stores into the configuration on its stack: the number
/// for the accepted options (at the start), and the address of the default options (16 bytes
/// further).
fn stored(main: &[u8]) -> Option<(u32, u64)> {
    // `main` begins with these instructions: push rbp; mov rbp, rsp; push rbx; sub rsp, …
    let mut rest = main.strip_prefix(&[0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x81, 0xec])?;
    rest = rest.get(4..)?;
    let mut begin = None;
    let mut level = None;
    loop {
        let (code, length) = match rest {
            // This instruction copies the arguments from registers to the stack.
            [0x89, 0xbd, ..] => (2, 6),
            [0x48, 0x89, 0xb5, ..] => (3, 7),
            // These instructions copy a word of the defaults to a register, and from there to the
            // stack.
            [0x48, 0x8b, 0x05 | 0x15, ..] => (3, 7),
            [0x48, 0x89, 0x45 | 0x55, place, ..] => {
                begin.get_or_insert(*place);
                (3, 4)
            }
            // These instructions store a number of 4 or 8 bytes to the stack.
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

/// Finds the `-with-rtsopts` of a stripped program. It is a text between NULs that consists of
/// options only. The help text of the runtime contains options as well, but it is prose.
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

/// Returns the options from the link info, for example from `Just "-N -A4m"`.
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
    fn the_number_of_capabilities_is_parsed_from_linked_options() {
        let own = |info: &[u8]| Capabilities::of(&with_rtsopts(info).unwrap());
        assert_eq!(own(br#"([],Just "-A4m -N",All)"#), Capabilities::Machine);
        assert_eq!(own(br#"(Just "-maxN4",x)"#), Capabilities::Fixed(4));
        assert_eq!(options_in(b"x\0-N -qg\0y"), Capabilities::Machine);
        let help = b"\0-N[<n>] use <n> processors\0  -N4 x\0";
        assert_eq!(options_in(help), Capabilities::One);
    }

    #[test]
    fn options_of_stripped_programs_are_read_from_the_machine_code_of_main() {
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
        // A different instruction or a different function is rejected.
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
