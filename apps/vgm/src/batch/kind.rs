//! Determines the kind of a file from its first bytes: a song, an archive or a playlist. We use the
//! name only if the bytes do not decide, because names can be wrong.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;

use super::text;
use crate::format::open;

/// The number of bytes that we check.
const FRONT: u64 = 1024;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A song, or an unknown file, which fails when it is read as a song.
    Song,
    /// A zip archive.
    Zip,
    /// A 7z archive.
    SevenZ,
    /// An M3U playlist: lines that name files.
    M3u,
    /// An XSPF playlist.
    Xspf,
    /// A JSPF playlist.
    Jspf,
}

impl Kind {
    /// Determines the kind of a file. If the file cannot be read, its name decides, and reading it
    /// fails later.
    pub fn of_file(path: &Path) -> Kind {
        let front = || -> io::Result<Vec<u8>> {
            let mut front = Vec::new();
            open(path)?.take(FRONT).read_to_end(&mut front)?;
            Ok(front)
        };
        Kind::of(&front().unwrap_or_default(), path)
    }

    /// Determines the kind from the first bytes and the name.
    pub fn of(front: &[u8], name: &Path) -> Kind {
        let front = &front[..front.len().min(FRONT as usize)];
        by_bytes(front)
            .or_else(|| by_name(name))
            .unwrap_or(Kind::Song)
    }

    /// Returns whether this is an archive.
    pub fn is_archive(self) -> bool {
        matches!(self, Kind::Zip | Kind::SevenZ)
    }
}

fn by_bytes(front: &[u8]) -> Option<Kind> {
    match front {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => {
            return Some(Kind::Zip);
        }
        [b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C, ..] => return Some(Kind::SevenZ),
        // A plain song, or one compressed with gzip, bzip2 or zstd.
        [b'V', b'g', b'm', b' ', ..]
        | [0x1F, 0x8B, ..]
        | [b'B', b'Z', b'h', ..]
        | [0x28, 0xB5, 0x2F, 0xFD, ..] => return Some(Kind::Song),
        _ => {}
    }
    let text = text::utf8(front);
    let text = text.trim_ascii_start();
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    match text {
        [b'#', b'E', b'X', b'T', b'M', b'3', b'U', ..] => Some(Kind::M3u),
        [b'<', ..] if has(b"playlist") => Some(Kind::Xspf),
        [b'{', ..] if has(b"\"playlist\"") => Some(Kind::Jspf),
        _ => None,
    }
}

/// Determines the kind of a file from its name.
pub fn by_name(path: &Path) -> Option<Kind> {
    let ending = path.extension().and_then(OsStr::to_str)?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "vgm" | "vgz" | "vgb" | "vgzst" | "gz" => Kind::Song,
        "zip" => Kind::Zip,
        "7z" => Kind::SevenZ,
        "m3u" | "m3u8" => Kind::M3u,
        "xspf" => Kind::Xspf,
        "jspf" => Kind::Jspf,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_takes_precedence_over_file_name() {
        let of = |front: &[u8], name: &str| Kind::of(front, Path::new(name));
        assert_eq!(of(b"PK\x03\x04", "a.vgm"), Kind::Zip);
        assert_eq!(of(b"7z\xBC\xAF\x27\x1C", "-"), Kind::SevenZ);
        assert_eq!(of(b"Vgm ", "a.zip"), Kind::Song);
        assert_eq!(of(b"\xEF\xBB\xBF#EXTM3U\n", "a.txt"), Kind::M3u);
        assert_eq!(of(b"\xFF\xFE#\0E\0X\0T\0M\x003\0U\0", "-"), Kind::M3u);
        assert_eq!(of(b"<?xml?>\n<playlist/>", "-"), Kind::Xspf);
        assert_eq!(of(b" {\"playlist\": {}}", "-"), Kind::Jspf);
        assert_eq!(of(b"a.vgm\n", "a.M3U"), Kind::M3u);
        assert_eq!(of(b"a.vgm\n", "a.txt"), Kind::Song);
        assert_eq!(of(b"", "a.7z"), Kind::SevenZ);
    }
}
