//! The facts that identify the runtime inside a program's ELF file.
//!
//! Source: Go's `debug/buildinfo`.

use super::{
    elf::{self, Tables, has_section, needed, section},
    ghc::{self, Ghc},
};
use ::elf::abi;
use memchr::memmem;
use std::{
    ffi::OsString,
    fs::{File, Metadata},
    os::unix::{
        ffi::OsStringExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

/// The facts that we have found in the file.
#[derive(Debug, Default)]
pub struct Facts {
    /// The shared libraries that it needs.
    pub needed: Vec<String>,
    /// Whether a preloaded library has an effect on the program, or the reason why not.
    pub preload: Preload,
    /// The version of Go, for example (1, 26), if there is build information or a build id of Go.
    /// The inner value is `None` if the version is unknown.
    pub go: Option<Option<(u32, u32)>>,
    pub ghc: Option<Ghc>,
    /// The texts of [`MARKS`] in its read-only data.
    pub marks: Vec<&'static str>,
}

/// Whether a preloaded library has an effect on a program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Preload {
    /// The program's dynamic loader loads the library.
    #[default]
    Loaded,
    /// The program has no dynamic loader, so nothing loads the library.
    Static,
    /// The loader ignores the variable, because the program runs with the rights of another user.
    Privileged,
    /// The program is for another processor or word size. Its loader would print an error.
    Foreign,
    /// The program has another root folder, in which its loader would not find the library.
    OtherRoot,
    /// The loader is not one of glibc or musl, so we do not know how it handles the library.
    UnknownLoader,
}

impl Preload {
    /// Returns why the preloaded library has no effect on the program, or `None` if it has one.
    pub fn obstacle(self) -> Option<&'static str> {
        match self {
            Preload::Loaded => None,
            Preload::Static => Some("this program is static"),
            Preload::Privileged => {
                Some("this program runs with the rights of another user, so its loader ignores it")
            }
            Preload::Foreign => Some("this program is for another kind of processor than creel"),
            Preload::OtherRoot => {
                Some("this program starts in another root folder, without the library")
            }
            Preload::UnknownLoader => Some("the loader of this program is unknown to creel"),
        }
    }

    /// Returns whether setting the variable is safe. The loader of another architecture prints an
    /// error for each program, and an unknown loader may end the program.
    pub fn is_harmless(self) -> bool {
        !matches!(
            self,
            Preload::Foreign | Preload::OtherRoot | Preload::UnknownLoader
        )
    }
}

/// Texts by which we recognise the runtime of a program. Each is the name of a variable that the
/// runtime reads.
pub const MARKS: [&str; 6] = [
    "CRYSTAL_WORKERS",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "OCAMLRUNPARAM",
    "DOTNET_PROCESSOR_COUNT",
    "DOTNET_ROOT",
];

/// Reads the facts. Returns `None` if the file cannot be read, is not an ELF file, or has damaged
/// tables. If the name of the file already identifies the runtime, we do not search its data.
pub fn read(path: &Path, is_named: bool) -> Option<Facts> {
    let file = File::open(path).ok()?;
    let mut tables = Tables::open_stream(&file).ok()?;
    let mut facts = Facts {
        preload: preload(&file, &tables),
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
        let known: Vec<&str> = MARKS.into_iter().chain(ghc::TEXTS).collect();
        let texts = elf::find_texts(&known, &mut tables, &file);
        let comment = section(&mut tables, ".comment").unwrap_or_default();
        if memmem::find(&comment, b"GHC ").is_some() || texts.contains(&ghc::VARIABLE) {
            // The file is stripped. Packages of Debian lack the comment as well.
            facts.ghc = Some(Ghc::of_stripped(&file, &mut tables, &texts));
        }
        let marks = MARKS.into_iter().filter(|mark| texts.contains(mark));
        facts.marks = marks.collect();
    }
    Some(facts)
}

/// Returns whether a preloaded library has an effect on a program, or the reason why not.
fn preload(file: &File, tables: &Tables) -> Preload {
    let Some(loader) = loader_of(file, tables) else {
        return Preload::Static;
    };
    let own = File::open("/proc/self/exe").ok();
    let own = own.and_then(|file| Some(kind(&Tables::open_stream(&file).ok()?)));
    if own.is_some_and(|own| own != kind(tables)) {
        return Preload::Foreign;
    }
    let name = loader.file_name().unwrap_or_default().to_string_lossy();
    // For example ld-linux-x86-64.so.2, ld-linux.so.2, ld64.so.1, ld.so.1 and ld-musl-x86_64.so.1.
    // NixOS and Guix keep them in folders of their own.
    let is_known = ["ld-linux", "ld-musl-", "ld.so.", "ld64.so."];
    if !is_known.iter().any(|known| name.starts_with(known)) {
        return Preload::UnknownLoader;
    }
    match file.metadata() {
        Ok(data) if is_privileged(&data) => Preload::Privileged,
        _ => Preload::Loaded,
    }
}

/// Returns whether a program runs as another user or group than the caller.
fn is_privileged(data: &Metadata) -> bool {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP_OF_EXECUTABLE: u32 = 0o2010;
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    data.mode() & SET_USER != 0 && data.uid() != user.as_raw()
        || data.mode() & SET_GROUP_OF_EXECUTABLE == SET_GROUP_OF_EXECUTABLE
            && data.gid() != group.as_raw()
}

/// Returns the word size and the processor of a program.
fn kind(tables: &Tables) -> (::elf::file::Class, u16) {
    (tables.ehdr.class, tables.ehdr.e_machine)
}

/// The longest path that the kernel accepts.
const PATH_MAX: u64 = 4096;

/// Returns the dynamic loader that an ELF file names. Returns `None` if the file names none, cannot
/// be read, or is not an ELF file.
pub fn loader(path: &Path) -> Option<PathBuf> {
    let file = File::open(path).ok()?;
    let tables = Tables::open_stream(&file).ok()?;
    loader_of(&file, &tables)
}

fn loader_of(file: &File, tables: &Tables) -> Option<PathBuf> {
    let named = tables
        .segments()
        .iter()
        .find(|s| s.p_type == abi::PT_INTERP)?;
    let mut bytes = vec![0; named.p_filesz.min(PATH_MAX) as usize];
    file.read_exact_at(&mut bytes, named.p_offset).ok()?;
    // The path ends with a NUL.
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    Some(OsString::from_vec(bytes).into())
}

/// Returns whether a library is the runtime of a language. We need not search the data then.
fn is_runtime(library: &str) -> bool {
    ["libjli.", "libnode.", "libpython", "libruby"]
        .iter()
        .any(|name| library.starts_with(name))
}

/// Parses the version in `.go.buildinfo`. Since Go 1.18, the section has a header of 32 bytes, a
/// length, and a text such as `go1.26.1`.
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

    #[test]
    fn go_versions_are_parsed() {
        assert_eq!(go_version("go1.26.1 X:y"), Some((1, 26)));
        assert_eq!(go_version("go1.9rc2"), Some((1, 9)));
        assert_eq!(go_version("devel"), None);
    }
}
