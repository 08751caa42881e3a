//! What an ELF file tells of the runtime inside it.
//!
//! Only the section table, some small sections and a bounded part of the read-only data are read:
//! a program of hundreds of megabytes costs some milliseconds, and one that is known by its name,
//! or by its libraries, none for its data.
//!
//! Sources: the ELF-64 object file format; Go's `debug/buildinfo`.

use super::ghc::{self, Ghc};
use aho_corasick::packed::Searcher;
use elf::{ElfStream, abi, endian::AnyEndian};
use memchr::memmem;
use std::{fs::File, os::unix::fs::FileExt, path::Path};

/// How much of a section is read at most.
const SECTION_MAX: u64 = 16 << 20;
/// How much of it is searched at once.
const PIECE: usize = 256 << 10;

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

/// Reads the facts; `None` if the file is no ELF file or its tables are damaged. Where the file's
/// name has told already what it is, its data are not searched.
pub fn read(path: &Path, is_named: bool) -> Option<Facts> {
    let file = File::open(path).ok()?;
    let mut tables = Tables::open_stream(&file).ok()?;
    let segments = tables.segments().iter();
    let mut facts = Facts {
        is_static: !segments.clone().any(|s| s.p_type == abi::PT_INTERP),
        needed: needed(&mut tables, &file).unwrap_or_default(),
        ..Facts::default()
    };
    facts.go = go(&mut tables);
    if facts.go.is_some() || facts.needed.iter().any(|name| is_runtime(name)) {
        return Some(facts);
    }
    if let Some(info) = section(&mut tables, ".debug-ghc-link-info") {
        facts.ghc = Some(Ghc::of_link_info(&info));
    } else if !is_named {
        let texts = texts(&mut tables, &file);
        let comment = section(&mut tables, ".comment").unwrap_or_default();
        if memmem::find(&comment, b"GHC ").is_some() || texts.contains(&ghc::VARIABLE) {
            // Stripped; Debian's packages lack the comment too.
            facts.ghc = Some(Ghc::of_stripped(&file, &mut tables, &texts));
        }
        let marks = MARKS.into_iter().filter(|mark| texts.contains(mark));
        facts.marks = marks.collect();
    }
    Some(facts)
}

/// Those of the texts that we know by, which its read-only data hold.
fn texts(tables: &mut Tables, file: &File) -> Vec<&'static str> {
    let known: Vec<&str> = MARKS.into_iter().chain(ghc::TEXTS).collect();
    match tables.section_header_by_name(".rodata") {
        Ok(Some(header)) => held(&known, file, header.sh_offset, header.sh_size),
        _ => Vec::new(),
    }
}

/// Those of some texts that a part of a file holds. It is read in pieces that stay in the
/// processor's cache, each searched for all of the texts at once.
fn held<'t>(known: &[&'t str], file: &File, begin: u64, length: u64) -> Vec<&'t str> {
    let Some(searcher) = Searcher::new(known) else {
        return Vec::new();
    };
    let longest = known.iter().map(|text| text.len()).max().unwrap_or(0);
    let mut found = vec![false; known.len()];
    let mut piece = vec![0; PIECE];
    let (mut at, mut left) = (begin, length.min(SECTION_MAX));
    while left > 0 {
        let size = left.min(PIECE as u64) as usize;
        if file.read_exact_at(&mut piece[..size], at).is_err() {
            break;
        }
        for text in searcher.find_iter(&piece[..size]) {
            found[text.pattern().as_usize()] = true;
        }
        // The next piece begins with as much as a text may have of its beginning in this one.
        let step = if left > size as u64 {
            size - longest
        } else {
            size
        } as u64;
        (at, left) = (at + step, left - step);
    }
    let texts = known.iter().zip(found);
    texts
        .filter(|(_, found)| *found)
        .map(|(text, _)| *text)
        .collect()
}

/// Whether a library is a language's runtime, which makes a look at the data needless.
fn is_runtime(library: &str) -> bool {
    ["libjli.", "libnode.", "libpython", "libruby"]
        .iter()
        .any(|name| library.starts_with(name))
}

/// A program's tables, read as they are asked for.
pub type Tables<'f> = ElfStream<AnyEndian, &'f File>;

/// Only the names are read: a program that exports its symbols has megabytes of them.
fn needed(tables: &mut Tables, file: &File) -> Option<Vec<String>> {
    const NAME_MAX: usize = 256;
    let dynamic = tables.dynamic().ok()??;
    let offsets: Vec<u64> = dynamic
        .iter()
        .filter(|entry| entry.d_tag == abi::DT_NEEDED)
        .map(|entry| entry.d_val())
        .collect();
    let strings = *tables.section_header_by_name(".dynstr").ok()??;
    let name = |offset: u64| {
        let mut name = [0; NAME_MAX];
        let within = offset < strings.sh_size;
        let length = file
            .read_at(&mut name, strings.sh_offset.checked_add(offset)?)
            .ok()
            .filter(|_| within)?;
        let text = name[..length].split(|&b| b == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    Some(offsets.into_iter().filter_map(name).collect())
}

fn has_section(tables: &mut Tables, name: &str) -> bool {
    matches!(tables.section_header_by_name(name), Ok(Some(_)))
}

pub fn section(tables: &mut Tables, name: &str) -> Option<Vec<u8>> {
    let mut header = *tables.section_header_by_name(name).ok()??;
    header.sh_size = header.sh_size.min(SECTION_MAX);
    let (data, _compression) = tables.section_data(&header).ok()?;
    Some(data.to_vec())
}

/// Go's version stands in `.go.buildinfo` since 1.18: a header of 32 bytes, a length, `go1.26.1`.
fn go(tables: &mut Tables) -> Option<Option<(u32, u32)>> {
    if let Some(info) = section(tables, ".go.buildinfo") {
        let text = info.get(33..).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[..text.len().min(16)]).into_owned();
        return Some(go_version(&text));
    }
    has_section(tables, ".note.go.buildid").then_some(None)
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text
        .strip_prefix("go")?
        .split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_text_is_found_wherever_it_lies() {
        let known = ["GHCRTS", "OCAMLRUNPARAM", "DOTNET_ROOT"];
        let end = 2 * PIECE + 100;
        for at in [0, PIECE - 13, PIECE - 6, PIECE - 1, PIECE, end - 13] {
            let mut data = vec![b'x'; end];
            data[at..at + 13].copy_from_slice(b"OCAMLRUNPARAM");
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&data).unwrap();
            let found = |length| held(&known, &file, 0, length);
            assert_eq!(found(end as u64), ["OCAMLRUNPARAM"], "at {at}");
            assert!(found(at as u64 + 12).is_empty(), "cut within, at {at}");
        }
    }

    #[test]
    fn gos_version_is_read() {
        assert_eq!(go_version("go1.26.1 X:y"), Some((1, 26)));
        assert_eq!(go_version("go1.9rc2"), Some((1, 9)));
        assert_eq!(go_version("devel"), None);
    }
}
