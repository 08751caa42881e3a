//! Reads parts of an ELF file.
//!
//! We read only the section table, some small sections and a bounded part of the read-only data.
//! Therefore a program of hundreds of megabytes costs a few milliseconds. For a program that we
//! identify by its name or its libraries, we do not search the data at all.
//!
//! Source: the ELF-64 object file format.

use aho_corasick::packed::Searcher;
use elf::{ElfStream, abi, endian::AnyEndian};
use std::{fs::File, os::unix::fs::FileExt};

/// The largest number of bytes of a section that we read.
const SECTION_MAX: u64 = 16 << 20;
/// The number of bytes that we search at a time.
const PIECE: usize = 256 << 10;

/// Returns the texts of `known` that are in the read-only data of a program.
pub fn find_texts<'t>(known: &[&'t str], tables: &mut Tables, file: &File) -> Vec<&'t str> {
    match tables.section_header_by_name(".rodata") {
        Ok(Some(header)) => search(known, file, header.sh_offset, header.sh_size),
        _ => Vec::new(),
    }
}

/// Returns the texts that are in a part of a file. We read it in pieces that fit into the cache of
/// the processor, and search each piece for all texts at once.
fn search<'t>(known: &[&'t str], file: &File, begin: u64, length: u64) -> Vec<&'t str> {
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
        // The pieces overlap, because a text may start in this piece and end in the next.
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

/// The tables of a program, which we read on demand.
pub type Tables<'f> = ElfStream<AnyEndian, &'f File>;

/// Returns the names of the shared libraries that the program needs. We read only these names and
/// not the whole table of names, because it has megabytes if the program exports its symbols.
pub fn needed(tables: &mut Tables, file: &File) -> Option<Vec<String>> {
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

pub fn has_section(tables: &mut Tables, name: &str) -> bool {
    matches!(tables.section_header_by_name(name), Ok(Some(_)))
}

pub fn section(tables: &mut Tables, name: &str) -> Option<Vec<u8>> {
    let mut header = *tables.section_header_by_name(name).ok()??;
    header.sh_size = header.sh_size.min(SECTION_MAX);
    let (data, _compression) = tables.section_data(&header).ok()?;
    Some(data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn texts_are_found_across_piece_borders() {
        let known = ["GHCRTS", "OCAMLRUNPARAM", "DOTNET_ROOT"];
        let end = 2 * PIECE + 100;
        for at in [0, PIECE - 13, PIECE - 6, PIECE - 1, PIECE, end - 13] {
            let mut data = vec![b'x'; end];
            data[at..at + 13].copy_from_slice(b"OCAMLRUNPARAM");
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&data).unwrap();
            let found = |length| search(&known, &file, 0, length);
            assert_eq!(found(end as u64), ["OCAMLRUNPARAM"], "at {at}");
            assert!(found(at as u64 + 12).is_empty(), "cut within, at {at}");
        }
    }
}
