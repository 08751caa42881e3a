//! The sources of songs: folders, archives, playlists and standard input.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use sevenz_rust2::{ArchiveEntry, ArchiveWriter, EncoderMethod};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use crate::harness::*;

#[test]
fn folders_without_direct_songs_hint_at_recurse() {
    let folder = Folder::new("deeper");
    folder.put("in/below/deep/song.vgm", &small_song());
    fs::create_dir_all(folder.path("none")).unwrap();
    let out = folder.path("out");
    let run = render(&[&folder.path("in")], &out, &[]);
    assert!(
        stderr(&run).contains("Use -r to include them"),
        "{}",
        stderr(&run)
    );
    let run = render(&[&folder.path("in")], &out, &["-r"]);
    assert_eq!(stderr(&run), "");
    assert!(out.join("below/deep/song.wav").exists());
    let run = render(&[&folder.path("none")], &out, &[]);
    assert!(stderr(&run).contains("no song"), "{}", stderr(&run));
}

#[test]
fn playlists_and_stdin_are_rendered() {
    let folder = Folder::new("lists");
    folder.put("songs/a b.vgm", &small_song());
    folder.put("songs/c.vgm", &small_song());
    let out = folder.path("out");
    for (name, list) in [
        ("l.m3u", "#EXTM3U\nsongs\\a%20b.vgm\r\nsongs/none.vgm\n"),
        (
            "l.xspf",
            "<playlist><trackList><track><location>songs/a%20b.vgm</location></track>\
             <track><location>songs/none.vgm</location></track></trackList></playlist>",
        ),
        (
            "l.jspf",
            r#"{"playlist":{"track":[{"location":["songs/a%20b.vgm"]},{"location":["songs/none.vgm"]}]}}"#,
        ),
    ] {
        let list = folder.put(name, list.as_bytes());
        let run = render(&[&list], &out, &["--overwrite", "--format", "json"]);
        assert_eq!(run.status.code(), Some(1), "{name}: {}", stderr(&run));
        assert!(
            stderr(&run).contains("none.vgm"),
            "{name}: {}",
            stderr(&run)
        );
        assert_eq!(summary(&run)["songs"], 1, "{name}");
        assert!(out.join("a b.wav").exists());
    }
    for broken in ["<playlist>", "<html><body></body></html>"] {
        let broken = folder.put("broken.xspf", broken.as_bytes());
        let run = render(&[&broken], &out, &[]);
        assert_eq!(run.status.code(), Some(65), "{}", stderr(&run));
        assert!(
            stderr(&run).contains("not a valid XSPF"),
            "{}",
            stderr(&run)
        );
    }

    let run = from_stdin(&gzip(&small_song()), &out, &[]);
    assert!(run.status.success(), "{}", stderr(&run));
    let wav = fs::metadata(out.join("stdin.wav")).unwrap();
    assert_eq!(wav.len(), 44 + 4 * 44_100);
}

#[test]
fn first_existing_playlist_location_is_used_without_download() {
    let folder = Folder::new("places");
    folder.put("a.vgm", &small_song());
    let net = "http://example.com/x.vgm";
    let places = format!("<location>{net}</location><location>no.vgm</location>");
    for (name, list) in [
        (
            "l.xspf",
            format!(
                "<playlist><trackList><track>{places}<location>a.vgm</location></track>\
                 <track><location>{net}</location></track></trackList></playlist>"
            ),
        ),
        (
            "l.jspf",
            format!(
                r#"{{"playlist":{{"track":[{{"location":["{net}","no.vgm","a.vgm"]}},{{"location":"{net}"}}]}}}}"#
            ),
        ),
        ("l.m3u", format!("a.vgm\n{net}\n")),
    ] {
        let list = folder.put(name, list.as_bytes());
        let flags = ["--overwrite", "--format", "json"];
        let run = render(&[&list], &folder.path("out"), &flags);
        assert_eq!(run.status.code(), Some(1), "{name}: {}", stderr(&run));
        assert_eq!(summary(&run)["songs"], 1, "{name}");
        let printed = format!("{net}: network addresses in playlists are not supported");
        assert_eq!(stderr(&run).lines().count(), 1, "{}", stderr(&run));
        assert!(stderr(&run).contains(&printed), "{}", stderr(&run));
    }
}

/// Renders a song, archive or playlist from standard input.
fn from_stdin(bytes: &[u8], output: &Path, flags: &[&str]) -> Output {
    let mut child = program()
        .args(["render", "-", "-o"])
        .arg(output)
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap()
}

/// Creates a zip archive of one song, compressed with a method.
fn zip(name: &str, method: CompressionMethod) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    zip.start_file(name, options).unwrap();
    zip.write_all(&small_song()).unwrap();
    zip.finish().unwrap().into_inner()
}

fn seven_z(name: &str, method: EncoderMethod) -> Vec<u8> {
    let mut seven = ArchiveWriter::new(Cursor::new(Vec::new())).unwrap();
    seven.set_content_methods(vec![method.into()]);
    let song = small_song();
    let entry = ArchiveEntry::new_file(name);
    seven.push_archive_entry(entry, Some(&song[..])).unwrap();
    seven.finish().unwrap().into_inner()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let files = files(folder).into_iter();
    let names = files.map(|(path, _)| path.strip_prefix(folder).unwrap().to_path_buf());
    names.collect()
}

#[test]
fn archives_are_detected_by_content() {
    let folder = Folder::new("by-bytes");
    let packed = zip("a.vgm", CompressionMethod::Stored);
    let renamed = folder.put("in/album.vgz", &packed);
    folder.put("in/b.vgm", &seven_z("b.vgm", EncoderMethod::LZMA2));
    folder.put("in/song.zip", &small_song());
    let list = folder.put(
        "list.txt",
        b"#EXTM3U\nin/album.vgz\nin/b.vgm\nin/song.zip\n",
    );
    for (paths, expected) in [
        (vec![&renamed], vec!["a.wav"]),
        (vec![&list], vec!["a.wav", "b.wav", "song.wav"]),
        (
            vec![&folder.path("in")],
            vec!["album/a.wav", "b/b.wav", "song.wav"],
        ),
    ] {
        let out = folder.path("out");
        let _ = fs::remove_dir_all(&out);
        let paths: Vec<&Path> = paths.into_iter().map(PathBuf::as_path).collect();
        let run = render(&paths, &out, &["-r"]);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(names(&out), expected);
    }
    let out = folder.path("stdin");
    let run = from_stdin(&packed, &out, &[]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let place = format!("#EXTM3U\n{}\n", renamed.display());
    let run = from_stdin(place.as_bytes(), &out, &["--overwrite"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(names(&out), [PathBuf::from("a.wav")]);
}

#[test]
fn every_archive_compression_is_read() {
    let folder = Folder::new("methods");
    use CompressionMethod as Zip;
    // The library with which we write archives here cannot write LZMA.
    folder.put("lzma.zip", include_bytes!("lzma.zip"));
    for (place, method) in [Zip::Stored, Zip::Deflated, Zip::Bzip2, Zip::Ppmd]
        .into_iter()
        .enumerate()
    {
        let name = format!("{place}.zip");
        folder.put(&name, &zip(&format!("{name}.vgm"), method));
    }
    use EncoderMethod as Seven;
    for (place, method) in [
        Seven::COPY,
        Seven::LZMA,
        Seven::LZMA2,
        Seven::PPMD,
        Seven::BZIP2,
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{place}.7z");
        folder.put(&name, &seven_z(&format!("{name}.vgm"), method));
    }
    let out = folder.path("out");
    let run = render(&[&folder.0], &out, &["-r"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(files(&out).len(), 10);
}

#[test]
fn archive_names_are_decoded_and_never_escape_the_output() {
    let folder = Folder::new("archive-names");
    let song = small_song();
    let (japanese, _, _) = encoding_rs::SHIFT_JIS.encode("縦糸/01 横糸.vgm");
    let bytes = stored_zip(&[
        (&japanese, &song),
        (b"Pok\x82mon.vgm", &song),
        ("é.vgm".as_bytes(), &song),
        (b"../../evil.vgm", &song),
        (b"/evil.vgm", &song),
        (b"..\\evil.txt", b"no song"),
        (b"more.zip", b"PK"),
    ]);
    let archive = folder.put("in/album.zip", &bytes);
    let out = folder.path("out");
    let run = render(&[&archive], &out, &["--lines"]);
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    let mut expected = ["縦糸/01 横糸.wav", "Pokémon.wav", "é.wav"].map(PathBuf::from);
    expected.sort();
    assert_eq!(names(&out), expected);
    assert_eq!(
        stderr(&run).matches("leads out").count(),
        2,
        "{}",
        stderr(&run)
    );
    assert!(stderr(&run).contains("album.zip: ../../evil.vgm"));
    assert!(
        stderr(&run).contains("more.zip: skipped, because archives in archives are not supported")
    );
    assert_eq!(summary(&run)["failed"], 3);
    assert_eq!(
        names(&folder.0).len(),
        4,
        "files were written outside the output folder"
    );
}

#[test]
fn damaged_archives_have_readable_errors() {
    let folder = Folder::new("damaged-archives");
    let whole = seven_z("a.vgm", EncoderMethod::LZMA2);
    let mut flipped = whole.clone();
    flipped[40] ^= 0x55;
    let zip = zip("a.vgm", CompressionMethod::Deflated);
    for (name, bytes) in [
        ("cut.7z", &whole[..whole.len() - 7]),
        ("head.7z", &whole[..20]),
        ("flipped.7z", &flipped),
        ("cut.zip", &zip[..zip.len() - 30]),
        ("text.zip", b"no archive"),
        ("empty.7z", b""),
    ] {
        let path = folder.put(name, bytes);
        let run = render(&[&path], &folder.path("out"), &[]);
        assert_eq!(run.status.code(), Some(65), "{name}: {}", stderr(&run));
        let printed = stderr(&run);
        assert!(printed.contains(name), "{printed}");
        for word in ["Error", "kind:", "Custom", "(\"", "{"] {
            assert!(!printed.contains(word), "{word} in {printed}");
        }
    }
}

#[test]
fn playlists_may_contain_playlists_archives_and_folders() {
    let folder = Folder::new("nested-lists");
    folder.put("music/a.vgm", &small_song());
    folder.put("music/é b.vgm", &small_song());
    folder.put("album.zip", &zip("c.vgm", CompressionMethod::Deflated));
    let units: Vec<u8> = "#EXTM3U\r\nmusic\\é b.vgm\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    folder.put("wide.m3u8", &[b"\xFF\xFE", &units[..]].concat());
    let xspf = "<playlist xml:base='music/'><trackList><track><location>a.vgm</location></track>\
                </trackList></playlist>";
    folder.put("based.xspf", xspf.as_bytes());
    let text = "wide.m3u8\nbased.xspf\nalbum.zip\nall.m3u\n";
    let list = folder.put("all.m3u", text.as_bytes());
    let out = folder.path("out");
    let run = render(&[&list], &out, &[]);
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    assert_eq!(
        stderr(&run).matches("back to itself").count(),
        1,
        "{}",
        stderr(&run)
    );
    let expected = ["a.wav", "c.wav", "é b.wav"].map(PathBuf::from);
    assert_eq!(names(&out), expected);
    let list = folder.put("folder.m3u", b"music\n");
    let out = folder.path("of-folder");
    assert!(render(&[&list], &out, &[]).status.success());
    assert_eq!(names(&out).len(), 2);
}
