//! The server: the index, the sound, and the page in a browser if one is installed.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use creel_vgm::demo;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("creel-serve-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("music")).unwrap();
        for song in demo::CARRIED {
            fs::write(
                path.join("music").join(format!("{}.vgz", song.name)),
                song.packed,
            )
            .unwrap();
        }
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Server {
    child: Child,
    address: String,
    /// The messages of the server about its index.
    printed: String,
}

impl Server {
    fn start(folder: &Folder) -> Server {
        Server::of(folder, "music")
    }

    /// Starts a server for a folder below the test folder.
    fn of(folder: &Folder, name: &str) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
            .args([
                "serve",
                &folder.path(name),
                "--port",
                "0",
                "--index",
                &folder.path("index.redb"),
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut printed = String::new();
        let address = loop {
            let line = lines.next().expect("it says where it is").unwrap();
            match line.split_once("http://") {
                Some((_, address)) => break address.trim_end_matches('/').to_owned(),
                None => printed.push_str(&line),
            }
        };
        Server {
            child,
            address,
            printed,
        }
    }

    fn ask(&self, path: &str, host: &str, more: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        (
            String::from_utf8_lossy(&all[..end]).into_owned(),
            all[end + 4..].to_vec(),
        )
    }

    fn get(&self, path: &str) -> Vec<u8> {
        let (head, body) = self.ask(path, "127.0.0.1", "");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn index_rereads_only_changed_files() {
    let folder = Folder::new("index");
    let all = demo::CARRIED.len();
    let server = Server::start(&folder);
    assert!(
        server
            .printed
            .contains(&format!("{all} songs, {all} read, 0 removed")),
        "{}",
        server.printed
    );
    assert_eq!(
        server.json("/songs")["songs"].as_array().unwrap().len(),
        all
    );
    let found = server.json("/songs?q=ym2612");
    let found = found["songs"].as_array().unwrap();
    assert!(!found.is_empty() && found.len() < all, "{found:?}");
    drop(server);
    fs::remove_file(folder.path(&format!("music/{}.vgz", demo::CARRIED[0].name))).unwrap();
    fs::write(folder.path("music/broken.vgm"), "no song").unwrap();
    let server = Server::start(&folder);
    let wanted = format!("{} songs, 1 read, 1 removed, 1 not readable", all - 1);
    assert!(server.printed.contains(&wanted), "{}", server.printed);
}

#[test]
fn index_rescan_finds_changes_and_keeps_other_folders() {
    let folder = Folder::new("meanwhile");
    let all = demo::CARRIED.len();
    let server = Server::start(&folder);
    let named = |name: &str| folder.path(&format!("music/{name}.vgz"));
    let last = demo::CARRIED[all - 1].name;
    let id = |songs: &Value, name: &str| {
        let songs = songs["songs"].as_array().unwrap().iter();
        let path = Value::from(fs::canonicalize(named(name)).unwrap().to_str().unwrap());
        let mut found = songs.filter(|song| song["song"]["path"] == path);
        found.next().map(|song| song["id"].clone())
    };
    let before = id(&server.json("/songs"), last);
    assert!(before.is_some());
    // The new song would come first, but the known songs keep their numbers.
    fs::write(named("aaa"), demo::CARRIED[1].packed).unwrap();
    fs::remove_file(named(demo::CARRIED[0].name)).unwrap();
    let begin = std::time::Instant::now();
    let songs = loop {
        let songs = server.json("/songs");
        if id(&songs, "aaa").is_some() {
            break songs;
        }
        assert!(
            begin.elapsed().as_secs() < 60,
            "the new file is not found: {songs}"
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!(songs["all"], all, "one song was added and one was removed");
    assert_eq!(id(&songs, last), before);
    drop(server);
    // We serve another folder, and then this one again.
    let music = folder.path("music");
    fs::rename(&music, folder.path("first")).unwrap();
    fs::create_dir(&music).unwrap();
    fs::write(named("other"), demo::CARRIED[2].packed).unwrap();
    let both = Server::start(&folder);
    assert!(
        both.printed.contains("1 songs, 1 read,"),
        "{}",
        both.printed
    );
    drop(both);
    let start = |name: &str| Server::of(&folder, name).printed.clone();
    let printed = start("first");
    assert!(
        printed.contains(&format!("{all} songs, {all} read,")),
        "{printed}"
    );
    assert!(start("music").contains("1 songs, 0 read,"));
    let printed = start("first");
    assert!(
        printed.contains(&format!("{all} songs, 0 read,")),
        "{printed}"
    );
}

#[test]
fn head_has_no_body_and_host_is_case_insensitive() {
    let folder = Folder::new("head");
    let server = Server::start(&folder);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    write!(stream, "HEAD /wav?id=0 HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n").unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(
        all.starts_with("HTTP/1.1 200") && all.ends_with("\r\n\r\n"),
        "{all}"
    );
    assert!(all.contains("Content-Length: "), "{all}");
}

#[test]
fn damaged_index_is_rebuilt_and_a_locked_one_is_kept() {
    let folder = Folder::new("damaged");
    let all = format!("{0} songs, {0} read,", demo::CARRIED.len());
    drop(Server::start(&folder));
    let whole = fs::read(folder.path("index.redb")).unwrap();
    for damaged in [&whole[..whole.len() / 2], &whole[..6], b""] {
        fs::write(folder.path("index.redb"), damaged).unwrap();
        let server = Server::start(&folder);
        assert!(server.printed.contains(&all), "{}", server.printed);
        assert!(server.printed.contains("it is rebuilt") || damaged.is_empty());
        let second = Server::start(&folder);
        assert!(
            second.printed.contains("another server is using the index"),
            "{}",
            second.printed
        );
        assert!(second.printed.contains(&all), "{}", second.printed);
    }
    drop(Server::start(&folder));
    let server = Server::start(&folder);
    assert!(server.printed.contains(" 0 read,"), "{}", server.printed);
}

#[test]
fn foreign_file_is_not_overwritten_as_index() {
    let folder = Folder::new("none");
    let file = folder.path("archive.zip");
    for content in [&b"PK\x03\x04 songs of years"[..], b"no index"] {
        fs::write(&file, content).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
            .args(["serve", "--port", "0", "--index"])
            .args([&file, &folder.path("music")])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains("archive.zip is not an index"), "{printed}");
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

#[test]
fn post_is_rejected_and_the_page_has_an_icon() {
    let folder = Folder::new("methods");
    let server = Server::start(&folder);
    for path in ["/", "/songs", "/sound?id=0"] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 405 "), "{path}: {answer}");
    }
    for path in ["/favicon.ico", "/favicon.svg"] {
        let (head, body) = server.ask(path, "127.0.0.1", "");
        assert!(
            head.contains("image/svg+xml") && body.starts_with(b"<svg"),
            "{head}"
        );
    }
    let page = String::from_utf8(server.get("/")).unwrap();
    for landmark in ["<header>", "<main>", "<footer>"] {
        assert_eq!(page.matches(landmark).count(), 1, "{landmark}");
    }
}

#[test]
fn too_many_connections_get_an_answer() {
    let folder = Folder::new("busy");
    let server = Server::start(&folder);
    // Each of these connections has sent half a request.
    let half = |_| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let _ = write!(stream, "GET / HTTP/1.1\r\n");
        stream
    };
    let open: Vec<TcpStream> = (0..200).map(half).collect();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let mut answer = Vec::new();
    // Reading may end with a reset, because the server does not wait for a request.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer:?}");
    drop(open);
}

#[test]
fn samples_start_anywhere_with_muted_voices() {
    let folder = Folder::new("sound");
    let server = Server::start(&folder);
    let song = server.json("/song?id=0");
    let voices = song["voices"].as_array().unwrap().len();
    let whole = server.get("/sound?id=0&at=0&frames=20000");
    assert_eq!(whole.len(), 80_000);
    let part = server.get("/sound?id=0&at=10000&frames=500");
    assert!(
        part == whole[40_000..42_000],
        "the sound depends on the start of the request"
    );
    let none = server.get("/sound?id=0&at=10000&frames=500&heard=0");
    assert!(
        none.iter().all(|byte| *byte == 0),
        "a muted voice is audible"
    );
    let end = song["frames"].as_u64().unwrap();
    assert!(
        server
            .get(&format!("/sound?id=0&at={end}&frames=500"))
            .is_empty()
    );
    let lanes = server.json("/lanes?id=0");
    assert_eq!(lanes["levels"].as_array().unwrap().len(), voices);
    assert!(
        lanes["levels"][0]
            .as_array()
            .unwrap()
            .iter()
            .any(|level| level.as_u64() > Some(50))
    );
    let wave = lanes["wave"].as_array().unwrap();
    let is_swing = |pair: &Value| pair[0].as_i64() < Some(0) && pair[1].as_i64() > Some(0);
    assert!(wave.iter().any(is_swing), "{wave:?}");
    // The file has the sound of the song, also for a part of it.
    let wav = server.get("/wav?id=0");
    assert_eq!(wav.len() as u64, 44 + end * 4);
    assert!(wav[44..80_044] == whole[..]);
    let (head, body) = server.ask("/wav?id=0", "127.0.0.1", "Range: bytes=44-80043\r\n");
    assert!(
        head.starts_with("HTTP/1.1 206") && head.contains("Content-Range: bytes 44-80043/"),
        "{head}"
    );
    assert!(body == whole);
    for (path, host) in [
        ("/song?id=9999", "127.0.0.1"),
        ("/etc/passwd", "localhost"),
        ("/", "evil.example"),
    ] {
        let (head, _) = server.ask(path, host, "");
        assert!(!head.starts_with("HTTP/1.1 200"), "{path} {host}: {head}");
    }
}

/// Returns the samples of a FLAC file as bytes.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut reader = claxon::FlacReader::new(bytes).unwrap();
    let samples = reader.samples().map(|sample| sample.unwrap() as i16);
    samples.flat_map(i16::to_le_bytes).collect()
}

#[test]
fn flac_response_has_the_same_samples() {
    let folder = Folder::new("flac");
    let server = Server::start(&folder);
    let (head, piece) = server.ask("/sound?id=0&at=700&frames=4096&as=flac", "127.0.0.1", "");
    assert!(head.contains("audio/flac"), "{head}");
    let samples = server.get("/sound?id=0&at=700&frames=4096");
    assert!(piece.len() < samples.len());
    assert!(unpacked(&piece) == samples);
    let end = server.json("/song?id=0")["frames"].as_u64().unwrap();
    let beyond = server.get(&format!("/sound?id=0&at={end}&frames=500&as=flac"));
    assert!(beyond.is_empty());
    let flac = server.get("/flac?id=0");
    assert!(unpacked(&flac) == server.get("/wav?id=0")[44..]);
    let reader = claxon::FlacReader::new(&flac[..]).unwrap();
    let title = server.json("/songs")["songs"][0]["song"]["title"].clone();
    assert_eq!(reader.get_tag("TITLE").next(), title.as_str());
    let (head, part) = server.ask("/flac?id=0", "127.0.0.1", "Range: bytes=4-99\r\n");
    assert!(head.starts_with("HTTP/1.1 206"), "{head}");
    assert!(part == flac[4..100]);
}

#[test]
fn archive_songs_and_odd_names_are_served() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("archives");
    let [a, b, c] = [0, 1, 2].map(|at| demo::CARRIED[at].packed);
    let put = |name: &str, bytes: &[u8]| fs::write(folder.0.join("music").join(name), bytes);
    for song in demo::CARRIED {
        fs::remove_file(folder.path(&format!("music/{}.vgz", song.name))).unwrap();
    }
    let zip = |songs: &[(&str, &[u8])]| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, song) in songs {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(*name, options).unwrap();
            zip.write_all(song).unwrap();
        }
        zip.finish().unwrap().into_inner()
    };
    put("-a.zip", &zip(&[("disc 1/x.vgz", a), ("y.vgz", b)])).unwrap();
    put("damaged.zip", &zip(&[("x.vgz", a)])[..200]).unwrap();
    let mut packer = sevenz_rust2::ArchiveWriter::new(std::io::Cursor::new(Vec::new())).unwrap();
    packer
        .push_archive_entry(sevenz_rust2::ArchiveEntry::new_file("z.vgz"), Some(c))
        .unwrap();
    put("b.7z", &packer.finish().unwrap().into_inner()).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe.vgz");
    fs::write(folder.0.join("music").join(odd), a).unwrap();
    let server = Server::start(&folder);
    let wanted = "4 songs, 5 read, 0 removed, 1 not readable";
    assert!(server.printed.contains(wanted), "{}", server.printed);
    let songs = server.json("/songs");
    let songs = songs["songs"].as_array().unwrap();
    let path = |at: usize| songs[at]["song"]["path"].as_str().unwrap().to_owned();
    assert!(path(0).ends_with("/-a.zip/disc 1/x.vgz"), "{}", path(0));
    assert!(path(1).ends_with("/-a.zip/y.vgz"), "{}", path(1));
    assert!(path(2).ends_with("/b.7z/z.vgz"), "{}", path(2));
    let folders = server.json("/folders");
    let folders = folders["folders"].as_array().unwrap();
    let count = |folder: &Value| folder["songs"].as_u64().unwrap();
    let counts: Vec<u64> = folders.iter().map(count).collect();
    assert_eq!(counts, [1, 1, 1, 1], "{folders:?}");
    let archive = fs::canonicalize(folder.path("music/-a.zip")).unwrap();
    let below = server.json(&format!("/songs?in={}", archive.display()));
    assert_eq!(below["songs"].as_array().unwrap().len(), 2, "{below}");
    // The first and the last are the same song.
    let sound = |at: usize| server.get(&format!("/sound?id={at}&frames=3000"));
    assert!(sound(0) == sound(3) && sound(0) != sound(1) && sound(1) != sound(2));
    assert!(sound(0).iter().any(|byte| *byte != 0));
    assert!(server.get("/wav?id=2").len() > 10_000);
    drop(server);
    // Unchanged files are not read again. A changed archive is read again as a whole.
    put("-a.zip", &zip(&[("y.vgz", b), ("w.vgz", c), ("v.vgz", c)])).unwrap();
    let server = Server::start(&folder);
    let wanted = "5 songs, 3 read, 0 removed, 1 not readable";
    assert!(server.printed.contains(wanted), "{}", server.printed);
    // A song whose file was removed gives an error.
    fs::remove_file(folder.path("music/b.7z")).unwrap();
    let gone = server.json("/song?id=3");
    assert_eq!(gone["error"], "the file no longer exists");
}

#[test]
fn browser_page_lists_plays_and_mutes() {
    let Some(browser) = ["chromium", "chromium-browser"].into_iter().find(|name| {
        let found = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    }) else {
        eprintln!("skipped: no chromium here");
        return;
    };
    let folder = Folder::new("browser");
    let server = Server::start(&folder);
    // The fragment of the address makes the page open the song and mute a voice. The browser prints
    // the resulting page.
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--autoplay-policy=no-user-gesture-required",
            "--virtual-time-budget=6000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.path("browser")))
        .arg(format!("http://{}/#open=0&mute=1", server.address))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        page.matches("data-id=").count(),
        demo::CARRIED.len(),
        "{page}"
    );
    let song = server.json("/song?id=0");
    for voice in song["voices"].as_array().unwrap() {
        assert!(
            page.contains(&format!("<td>{}</td>", voice.as_str().unwrap())),
            "{voice} in {page}"
        );
    }
    assert_eq!(page.matches("class=\"muted\"").count(), 1, "{page}");
    assert!(page.contains("aria-current=\"true\""), "{page}");
    // The page has requested sound and made progress.
    let asked = page
        .split("data-frames=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let asked: u64 = asked.and_then(|frames| frames.parse().ok()).unwrap_or(0);
    assert!(asked >= 4096, "{asked} frames were made: {page}");
    assert!(page.contains("data-kind=\"audio/flac\""), "{page}");
    assert_eq!(asked % 4096, 0, "a piece has as many frames as asked for");
}
