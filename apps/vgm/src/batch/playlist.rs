//! Playlists in the formats M3U, XSPF and JSPF, and the files to which their entries refer.
//!
//! An entry is a path relative to the playlist or a file URI, in the encoding of the machine that
//! wrote it. We try all readings of an entry, and use the first that exists, or the first of all if
//! none exists. The file may also be a folder, an archive, or another playlist.
//!
//! We leave out on purpose all properties of the entries except their locations. We report entries
//! on the network, but do not fetch them.
//!
//! Source: XSPF version 1 and JSPF (xspf.org); RFC 8089 (file URIs), RFC 3986 (percent escapes).

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use quick_xml::events::Event;
use quick_xml::{Reader, XmlVersion};
use serde::Deserialize;

use super::kind::Kind;
use super::{Unit, text};
use crate::error::{Error, Result};
use crate::format::open;

/// The maximum size of a playlist in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The target of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file of this machine, which may not exist.
    Local(PathBuf),
    /// A resource on the network.
    Remote(String),
    /// The playlist is malformed from here on, for this reason. The entries before it are valid.
    Broken(String),
}

/// Returns the entries of a playlist file, in the order of the file.
///
/// # Errors
///
/// - [`Error::Io`] if the file cannot be read.
/// - [`Error::BadList`] if it is not a playlist of this kind.
/// - [`Error::TooLarge`] if it has more than 16 MiB.
pub fn entries(path: &Path, kind: Kind) -> Result<Vec<Target>> {
    let mut bytes = Vec::new();
    open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    entries_of(&bytes, kind, folder)
}

/// Returns the entries of a playlist in memory. Its paths are relative to `folder`.
///
/// # Errors
///
/// Returns the same errors as [`entries`], except [`Error::Io`].
pub fn entries_of(bytes: &[u8], kind: Kind, folder: &Path) -> Result<Vec<Target>> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Error::TooLarge(
            "the playlist has more than 16 MiB, which is the maximum".into(),
        ));
    }
    let bytes = text::utf8(bytes);
    let mut broken = None;
    let tracks = match kind {
        Kind::Xspf => {
            let mut tracks = Vec::new();
            match xspf(&bytes, &mut tracks) {
                Err(Error::BadList(why)) if !tracks.iter().all(Vec::is_empty) => broken = Some(why),
                read => read?,
            }
            tracks
        }
        Kind::Jspf => jspf(&bytes)?,
        _ => m3u(&bytes).into_iter().map(|place| vec![place]).collect(),
    };
    let places = tracks.iter().filter_map(|track| resolve(folder, track));
    Ok(places.chain(broken.map(Target::Broken)).collect())
}

/// The locations of an entry. [`resolve`] chooses one of them.
type Track = Vec<Vec<u8>>;

/// Returns the entries: all lines that are neither empty nor comments.
fn m3u(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .map(<[u8]>::to_vec)
        .collect()
}

/// The version of XML that we pass to the library. The differences between versions do not matter
/// here.
const VERSION: XmlVersion = XmlVersion::Implicit1_0;

/// An open XML element.
struct Element {
    name: Vec<u8>,
    /// The base against which the locations in this element are resolved.
    base: Vec<u8>,
}

/// Reads each `location` of each `track`, resolved against the `xml:base` that applies to it.
fn xspf(bytes: &[u8], tracks: &mut Vec<Track>) -> Result<()> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::BadList(format!("not a valid XSPF playlist: {error}"))
    };
    let mut reader = Reader::from_reader(bytes);
    let mut path: Vec<Element> = Vec::new();
    let mut place: Option<Vec<u8>> = None;
    loop {
        match reader.read_event().map_err(|error| bad(&error))? {
            Event::Start(tag) => {
                let outer = path.last().map_or(&[][..], |element| &element.base);
                let own = tag.try_get_attribute("xml:base").ok().flatten();
                let own =
                    own.and_then(|own| Some(own.normalized_value(VERSION).ok()?.into_owned()));
                let base = own.map_or(outer.to_vec(), |own| resolved(outer, own.as_bytes()));
                let name = tag.local_name().as_ref().to_vec();
                let outer = path.last().map(|element| &element.name[..]);
                match (outer, &name[..]) {
                    (None, b"playlist") => {}
                    (None, _) => {
                        return Err(bad(&"the root element of the XSPF file is not a playlist"));
                    }
                    (Some(b"track"), b"location") => place = Some(Vec::new()),
                    (_, b"track") => tracks.push(Vec::new()),
                    _ => {}
                }
                path.push(Element { name, base });
            }
            Event::End(_) => {
                let ended = path.pop();
                let track = tracks.last_mut();
                if let (Some(place), Some(element), Some(track)) = (place.take(), ended, track) {
                    track.push(resolved(&element.base, place.trim_ascii()));
                }
            }
            Event::Text(text) => {
                if let Some(place) = &mut place {
                    place.extend_from_slice(&text);
                }
            }
            Event::CData(text) => {
                if let Some(place) = &mut place {
                    place.extend_from_slice(&text);
                }
            }
            Event::GeneralRef(name) => {
                if let Some(place) = &mut place {
                    place.extend(reference(&name));
                }
            }
            Event::Eof if path.is_empty() => return Ok(()),
            Event::Eof => return Err(bad(&"the file is cut short")),
            _ => {}
        }
    }
}

/// Resolves a location against a base. A relative location replaces everything after the last slash
/// of the base. An absolute location stays unchanged.
fn resolved(base: &[u8], place: &[u8]) -> Vec<u8> {
    let scheme = place.iter().position(|byte| *byte == b':').unwrap_or(0);
    // One letter and a colon are a drive of Windows, and not a scheme.
    let has_scheme = scheme > 1 && place[..scheme].iter().all(u8::is_ascii_alphanumeric);
    if has_scheme || place.starts_with(b"/") || place.get(1) == Some(&b':') {
        return place.to_vec();
    }
    let folder = base.iter().rposition(|byte| *byte == b'/');
    [&base[..folder.map_or(0, |slash| slash + 1)], place].concat()
}

/// Returns the text that an XML reference stands for, for example `&` for `&amp;`. An unknown
/// reference stands for an empty text.
fn reference(name: &quick_xml::events::BytesRef<'_>) -> Vec<u8> {
    if let Ok(Some(char)) = name.resolve_char_ref() {
        return char.to_string().into_bytes();
    }
    match &**name {
        b"amp" => b"&".to_vec(),
        b"lt" => b"<".to_vec(),
        b"gt" => b">".to_vec(),
        b"apos" => b"'".to_vec(),
        b"quot" => b"\"".to_vec(),
        _ => Vec::new(),
    }
}

/// A JSPF document, with the parts that we need.
#[derive(Deserialize)]
struct Jspf {
    playlist: JspfList,
}

#[derive(Deserialize)]
struct JspfList {
    #[serde(default)]
    track: Vec<JspfTrack>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JspfTrack {
    Track {
        #[serde(default)]
        location: Locations,
    },
    /// Any other value. It must not make the other tracks unusable.
    Other(serde_json::Value),
}

/// The locations of a track. The format requires a list, but some programs write a single string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Locations {
    Many(Vec<String>),
    One(String),
}

impl Default for Locations {
    fn default() -> Self {
        Locations::Many(Vec::new())
    }
}

fn jspf(bytes: &[u8]) -> Result<Vec<Track>> {
    let bad =
        |error: serde_json::Error| Error::BadList(format!("not a valid JSPF playlist: {error}"));
    let document: Jspf = serde_json::from_slice(bytes).map_err(bad)?;
    let tracks = document.playlist.track.into_iter();
    let places = tracks.map(|track| match track {
        JspfTrack::Track {
            location: Locations::Many(places),
        } => places,
        JspfTrack::Track {
            location: Locations::One(place),
        } => vec![place],
        // An entry that is not a track becomes the name of a file. The file does not exist, so the
        // entry is reported.
        JspfTrack::Other(value) => vec![value.to_string()],
    });
    let bytes = |track: Vec<String>| track.into_iter().map(String::into_bytes).collect();
    Ok(places.map(bytes).collect())
}

/// Returns the target of a track: its first location that exists, otherwise its first location on
/// this machine, otherwise its first location. Returns `None` if it has none.
fn resolve(folder: &Path, track: &Track) -> Option<Target> {
    let (away, here): (Vec<_>, Vec<_>) = track.iter().partition(|place| is_remote(place));
    let paths = here.iter().flat_map(|place| readings(folder, place));
    let mut paths: Vec<_> = paths.collect();
    if paths.is_empty() {
        let first = away.first()?;
        return Some(Target::Remote(String::from_utf8_lossy(first).into_owned()));
    }
    let there = paths.iter().position(|path| path.exists());
    Some(Target::Local(paths.swap_remove(there.unwrap_or(0))))
}

/// Returns whether a location is a URI, but not a file URI.
fn is_remote(place: &[u8]) -> bool {
    let text = String::from_utf8_lossy(place);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.split_once("://").is_some_and(|(scheme, _)| {
        // A single letter before the colon is a drive of Windows and not a scheme.
        scheme.len() > 1 && scheme.chars().all(is_scheme) && !scheme.eq_ignore_ascii_case("file")
    })
}

/// Returns the paths to which a location can refer.
fn readings(folder: &Path, place: &[u8]) -> Vec<PathBuf> {
    let mut readings = Vec::new();
    let unescaped = unescape(place);
    match place
        .get(..7)
        .filter(|scheme| scheme.eq_ignore_ascii_case(b"file://"))
    {
        // A host may follow the scheme. We ignore it, because it must be this machine.
        Some(_) => {
            let from = |bytes: &[u8]| {
                let slash = bytes[7..]
                    .iter()
                    .position(|byte| *byte == b'/')
                    .unwrap_or(0);
                bytes[7 + slash..].to_vec()
            };
            readings.extend([from(&unescaped), from(place)]);
        }
        None => readings.extend([place.to_vec(), unescaped]),
    }
    let mut paths = Vec::new();
    for reading in readings {
        for text in text::readings(&reading) {
            let turned = text.iter().map(|b| if *b == b'\\' { b'/' } else { *b });
            let turned: Vec<u8> = turned.collect();
            paths.extend([
                folder.join(os_string(&text)),
                folder.join(os_string(&turned)),
            ]);
        }
    }
    paths
}

fn os_string(bytes: &[u8]) -> OsString {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt;
        OsString::from_vec(bytes.to_vec())
    }
    #[cfg(not(unix))]
    {
        OsString::from(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Decodes percent escapes. Invalid escapes stay unchanged.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%');
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| !digits.starts_with('+'))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match value {
            Some(value) => {
                out.push(value);
                rest = &after[2..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

/// The sound files of a run, for an M3U playlist. Several threads may add files.
#[derive(Debug, Default)]
pub struct Playlist(Mutex<Vec<Entry>>);

/// The position in the input, the file, and the number of frames if it is known.
type Entry = (usize, PathBuf, Option<u64>);

impl Playlist {
    /// Adds the sound file of a song.
    pub fn add(&self, unit: &Unit, frames: Option<u64>) {
        let entry = (unit.order, unit.output.clone(), frames);
        let mut entries = self
            .0
            .lock()
            .expect("no thread panics while it holds this lock");
        entries.push(entry);
    }

    /// Returns the reason why a playlist must not be written to `path`, if there is one. An
    /// existing file must be a playlist, and `replaced` must be true, so that we may replace it.
    pub fn refused_at(path: &Path, replaced: bool) -> Option<&'static str> {
        let Ok(there) = std::fs::symlink_metadata(path) else {
            return None;
        };
        if !there.is_file() {
            return Some("the path is not that of a regular file");
        }
        let mut begin = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(16).read_to_end(&mut begin));
        if read.is_err() || !begin.starts_with(b"#EXTM3U") {
            return Some("the file exists, but it is not an M3U playlist");
        }
        (!replaced).then_some("the playlist exists already. Use --overwrite to replace it")
    }

    /// Writes the playlist in the order of the input. The path of a sound file below the folder of
    /// the playlist is relative to this folder, unless it has control characters. All other paths
    /// are absolute. If there are no files, it writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn write(&self, path: &Path, sample_rate: u32) -> io::Result<()> {
        let mut entries = self
            .0
            .lock()
            .expect("no thread panics while it holds this lock")
            .clone();
        if entries.is_empty() {
            return Ok(());
        }
        entries.sort();
        let folder = std::path::absolute(path)?;
        let folder = folder.parent().unwrap_or(Path::new("/"));
        let mut text = b"#EXTM3U\n".to_vec();
        for (_, output, frames) in entries {
            // We round the length to the nearest second, as players do. However, we never write 0,
            // because some programs use 0 for an unknown length.
            let rate = u64::from(sample_rate);
            let seconds = frames.map_or(-1, |frames| ((frames + rate / 2) / rate).max(1) as i64);
            let title = output.file_stem().unwrap_or_default().to_string_lossy();
            let title = title.replace(char::is_control, " ");
            text.extend(format!("#EXTINF:{seconds},{title}\n").into_bytes());
            let output = std::path::absolute(&output)?;
            let place = output.strip_prefix(folder).unwrap_or(&output);
            text.extend(line(place, &output));
            text.push(b'\n');
        }
        creel_console::AtomicFile::write(path, &text)
    }
}

/// Returns the line of an M3U playlist for a path. `absolute` is the same path in absolute form.
fn line(place: &Path, absolute: &Path) -> Vec<u8> {
    let bytes = place.as_os_str().as_encoded_bytes();
    match bytes {
        // A line break in the name would end the line, so such a name must be a URI.
        _ if bytes.iter().any(u8::is_ascii_control) => {
            let bytes = absolute.as_os_str().as_encoded_bytes();
            format!("file://{}", text::escaped(bytes)).into_bytes()
        }
        // Otherwise, the line would be a comment, or lose its leading spaces.
        [b'#' | b' ', ..] => [b"./", bytes].concat(),
        _ => bytes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(places: Vec<Vec<u8>>) -> Vec<String> {
        let text = |place: Vec<u8>| String::from_utf8(place).unwrap();
        places.into_iter().map(text).collect()
    }

    /// Returns the locations of each track, joined by a bar.
    fn tracks(tracks: Vec<Track>) -> Vec<String> {
        let text = |track: Track| texts(track).join("|");
        tracks.into_iter().map(text).collect()
    }

    #[test]
    fn m3u_has_one_entry_per_line_except_comments() {
        let list = "#EXTM3U\r\n#EXTINF:1,x\r\n a b.vgm \r\n\r\nc\\d.vgz";
        assert_eq!(texts(m3u(list.as_bytes())), ["a b.vgm", "c\\d.vgz"]);
    }

    fn of_xspf(bytes: &[u8]) -> Result<Vec<Track>> {
        let mut tracks = Vec::new();
        xspf(bytes, &mut tracks).map(|()| tracks)
    }

    #[test]
    fn malformed_playlist_entry_does_not_affect_others() {
        let named = |list: &str, kind| {
            let places = entries_of(list.as_bytes(), kind, Path::new("pl")).unwrap();
            let name = |place: Target| match place {
                Target::Local(path) => path.display().to_string(),
                Target::Remote(uri) | Target::Broken(uri) => uri,
            };
            places.into_iter().map(name).collect::<Vec<_>>()
        };
        let cut = "<playlist><trackList><track><location>a.vgm</location></track><track><loc";
        let places = named(cut, Kind::Xspf);
        assert_eq!(places.len(), 2, "{places:?}");
        assert!(places[0] == "pl/a.vgm" && places[1].starts_with("not a valid XSPF playlist"));
        let list = r#"{"playlist":{"track":[{"location":"a.vgm"},{"location":5},7,{"location":["b.vgm"]}]}}"#;
        let places = named(list, Kind::Jspf);
        assert_eq!(
            places,
            ["pl/a.vgm", r#"pl/{"location":5}"#, "pl/7", "pl/b.vgm"]
        );
    }

    #[test]
    fn xspf_lists_the_location_of_each_track() {
        let list = r#"<?xml version="1.0"?><playlist xmlns="http://xspf.org/ns/0/"><location>no</location>
            <trackList><track><title>t</title><location>a%20b.vgm?&amp;&#x41;</location><location>b.vgm</location></track>
            <track><location> c.vgm </location></track><track/></trackList></playlist>"#;
        assert_eq!(
            tracks(of_xspf(list.as_bytes()).unwrap()),
            ["a%20b.vgm?&A|b.vgm", "c.vgm"]
        );
        let list = r#"<playlist xml:base="file:///m/&amp;/x"><track><location>a.vgm</location></track>
            <trackList xml:base="sub/"><track xml:base="b%20/"><location>b.vgm</location></track>
            <track><location>/c.vgm</location></track></trackList></playlist>"#;
        assert_eq!(
            tracks(of_xspf(list.as_bytes()).unwrap()),
            ["file:///m/&/a.vgm", "file:///m/&/sub/b%20/b.vgm", "/c.vgm"]
        );
        assert!(of_xspf(b"<playlist><track>").is_err());
        assert!(of_xspf(b"<a></b>").is_err());
        assert!(of_xspf(b"<html><body/></html>").is_err(), "not a playlist");
    }

    #[test]
    fn jspf_accepts_location_lists_and_single_locations() {
        let list = r#"{"playlist":{"track":[{"location":["a.vgm","b"]},{"location":"c"},{}]}}"#;
        assert_eq!(tracks(jspf(list.as_bytes()).unwrap()), ["a.vgm|b", "c", ""]);
        assert!(jspf(b"[]").is_err());
    }

    #[test]
    fn playlist_entry_resolves_to_the_existing_file() {
        let folder = std::env::temp_dir().join(format!("creel-vgm-list-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        for name in ["a b.vgm", "100%25.vgm", "sub/é.vgm", "縦.vgm"] {
            std::fs::write(folder.join(name), b"x").unwrap();
        }
        let here = |name: &str| Some(Target::Local(folder.join(name)));
        let uri = format!("file://localhost{}/a%20b.vgm", folder.display());
        let (japanese, _, _) = encoding_rs::SHIFT_JIS.encode("縦.vgm");
        for (place, name) in [
            (&b"a%20b.vgm"[..], "a b.vgm"),
            (b"100%25.vgm", "100%25.vgm"),
            (b"sub\\\xE9.vgm", "sub/é.vgm"),
            (b"sub/%C3%A9.vgm", "sub/é.vgm"),
            (&japanese, "縦.vgm"),
            (uri.as_bytes(), "a b.vgm"),
        ] {
            assert_eq!(
                resolve(&folder, &vec![place.to_vec()]),
                here(name),
                "{place:?}"
            );
        }
        let track = |places: &[&str]| places.iter().map(|it| it.as_bytes().to_vec()).collect();
        assert_eq!(resolve(&folder, &track(&["none"])), here("none"));
        assert_eq!(resolve(&folder, &track(&["file://"])), here(""));
        let net = "https://example.com/a%20b.vgm";
        let places = track(&[net, "none", "a b.vgm"]);
        assert_eq!(resolve(&folder, &places), here("a b.vgm"));
        assert_eq!(resolve(&folder, &track(&[net, "none"])), here("none"));
        assert_eq!(
            resolve(&folder, &track(&[net])),
            Some(Target::Remote(net.into()))
        );
        assert_eq!(resolve(&folder, &Track::new()), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn m3u_escapes_names_that_contain_line_breaks() {
        let said = |name: &str| line(Path::new(name), &Path::new("/é d").join(name));
        for (name, expected) in [
            ("a b%20.wav", "a b%20.wav"),
            ("#a.wav", "./#a.wav"),
            (" a.wav", "./ a.wav"),
            ("a\n\u{1b}.wav", "file:///%C3%A9%20d/a%0A%1B.wav"),
        ] {
            assert_eq!(said(name), expected.as_bytes());
        }
        assert_eq!(
            resolve(Path::new(""), &vec![said("a\n.wav")]),
            Some(Target::Local("/é d/a\n.wav".into()))
        );
    }
}
