//! Tests of media keys. The test starts a bus of its own, and uses the tools of D-Bus in place of a
//! desktop.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::remote::Player;
use crate::{Folder, demo};

const NAME: &str = "org.mpris.MediaPlayer2.creel_vgm";

/// A session bus.
struct Bus {
    child: Child,
    address: String,
    // Dropped last, so that the folder exists until the end.
    _folder: Folder,
}

impl Bus {
    /// Starts a bus. Returns `None` if the programs for it are not installed.
    fn start(name: &str) -> Option<Bus> {
        let tools = ["dbus-daemon", "dbus-send", "dbus-monitor"];
        let is_there = |tool: &&str| {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&folders).any(|folder| folder.join(tool).is_file())
        };
        if let Some(tool) = tools.iter().find(|tool| !is_there(tool)) {
            eprintln!("skipped: there is no {tool} here");
            return None;
        }
        let folder = Folder::new(name);
        let address = format!("unix:path={}", folder.path("bus"));
        let child = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address", "--address"])
            .arg(&address)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        Some(Bus {
            child,
            address: line.trim().to_owned(),
            _folder: folder,
        })
    }

    fn player(&self, words: &[&str]) -> Player {
        let vars = [("DBUS_SESSION_BUS_ADDRESS", &*self.address)];
        static PLAYERS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("mpris-{}", PLAYERS.fetch_add(1, Relaxed));
        let player = Player::start_with(&name, words, &vars);
        self.until("it is on the bus", |bus| bus.names().contains(NAME));
        player
    }

    /// Sends a message and returns the answer or the error.
    fn send(&self, to: &str, words: &[&str]) -> Result<String, String> {
        let (path, method) = words.split_first().expect("an object");
        let output = Command::new("dbus-send")
            .args(["--session", "--print-reply", "--reply-timeout=60000"])
            .arg(format!("--dest={to}"))
            .arg(path)
            .args(method)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        match output.status.success() {
            true => Ok(text(output.stdout)),
            false => Err(text(output.stderr)),
        }
    }

    fn names(&self) -> String {
        let words = ["/org/freedesktop/DBus", "org.freedesktop.DBus.ListNames"];
        self.send("org.freedesktop.DBus", &words).unwrap()
    }

    fn call(&self, method: &str, words: &[&str]) -> Result<String, String> {
        let method = format!("org.mpris.MediaPlayer2.{method}");
        let head = ["/org/mpris/MediaPlayer2", &method];
        self.send(NAME, &[&head, words].concat())
    }

    fn property(&self, verb: &str, name: &str, value: &[&str]) -> Result<String, String> {
        let verb = format!("org.freedesktop.DBus.Properties.{verb}");
        let name = format!("string:{name}");
        let of = "string:org.mpris.MediaPlayer2.Player";
        let head = ["/org/mpris/MediaPlayer2", &verb, of, &name];
        self.send(NAME, &[&head, value].concat())
    }

    fn get(&self, name: &str) -> String {
        self.property("Get", name, &[]).unwrap()
    }

    fn set(&self, name: &str, value: &str) {
        self.property("Set", name, &[value]).unwrap();
    }

    fn until(&self, what: &str, condition: impl Fn(&Bus) -> bool) {
        let begin = Instant::now();
        while !condition(self) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn position(status: &Value) -> f64 {
    status["position_s"].as_f64().unwrap()
}

#[test]
fn mpris_commands_control_the_player() {
    let Some(bus) = Bus::start("keys") else {
        return;
    };
    let mut player = bus.player(&demo(&[]));
    let key = |name: &str| drop(bus.call(&format!("Player.{name}"), &[]).unwrap());
    bus.until("it plays", |bus| {
        bus.get("PlaybackStatus").contains("\"Playing\"")
    });
    key("Next");
    player.until("the second", |status| status["queue_position"] == 2);
    key("Previous");
    // A song that is paused at its very start has the status "Stopped".
    player.until("the first, under way", |status| {
        status["queue_position"] == 1 && position(status) > 0.0
    });
    key("PlayPause");
    player.until("paused", |status| status["state"] == "paused");
    assert!(bus.get("PlaybackStatus").contains("\"Paused\""));
    key("PlayPause");
    player.until("playing", |status| status["state"] == "playing");
    key("Pause");
    key("Pause");
    player.until("paused", |status| status["state"] == "paused");
    key("Play");
    player.until("playing", |status| status["state"] == "playing");
    bus.call("Player.Seek", &["int64:30000000"]).unwrap();
    player.until("later", |status| position(status) >= 30.0);
    key("Stop");
    bus.until("stopped", |bus| {
        bus.get("PlaybackStatus").contains("\"Stopped\"")
    });
    key("Play");
    player.until("from its start", |status| {
        status["state"] == "playing" && position(status) < 25.0
    });
    bus.call("Quit", &[]).unwrap();
    assert_eq!(player.child.wait().unwrap().code(), Some(0));
    bus.until("it has left the bus", |bus| !bus.names().contains(NAME));
}

#[test]
fn mpris_properties_are_readable_and_writable() {
    let Some(bus) = Bus::start("panel") else {
        return;
    };
    let player = bus.player(&demo(&[]));
    let monitor = Monitor::start(&bus);
    let title = player.status().unwrap()["title"].clone();
    let title = title.as_str().unwrap().to_owned();
    bus.until("its song", |bus| bus.get("Metadata").contains(&title));
    player.until("under way", |status| position(status) > 0.0);
    let metadata = bus.get("Metadata");
    assert!(metadata.contains("object path \"/creel_vgm/song/1\""));
    assert!(
        !metadata.contains("mpris:length"),
        "an endless song has no length"
    );
    bus.set("Volume", "variant:double:0.5");
    bus.set("Rate", "variant:double:1.5");
    bus.set("LoopStatus", "variant:string:Playlist");
    bus.set("Shuffle", "variant:boolean:true");
    let status = player.status().unwrap();
    assert_eq!(status["volume_percent"], 50);
    assert_eq!(status["tempo_percent"], 150.0);
    assert_eq!(status["repeat"], "all");
    assert_eq!(status["shuffle"], true);
    assert!(bus.get("Volume").contains("double 0.5"));
    assert!(bus.get("LoopStatus").contains("\"Playlist\""));
    // Changes from elsewhere are signalled, including a jump of the position.
    player.send(&["volume", "70"]);
    monitor.until("double 0.7");
    player.send(&["pause"]);
    monitor.until("\"Paused\"");
    player.send(&["seek", "2:00"]);
    monitor.until("member=Seeked");
    // A position in another song, or before the start, is ignored.
    let to = |song: &str, us: &str| {
        let song = format!("objpath:/creel_vgm/song/{song}");
        bus.call("Player.SetPosition", &[&song, us]).unwrap();
    };
    to("9", "int64:1000000");
    to("1", "int64:-1000000");
    to("1", "int64:60000000");
    player.until("at a minute", |status| position(status) == 60.0);
    // Invalid values are rejected and change nothing.
    for (name, value) in [
        ("LoopStatus", "variant:string:Sometimes"),
        ("Volume", "variant:double:nan"),
        ("Position", "variant:int64:1"),
    ] {
        assert!(bus.property("Set", name, &[value]).is_err(), "{name}");
    }
    assert!(bus.call("Player.OpenUri", &["string:file:///x"]).is_err());
    assert_eq!(player.status().unwrap()["repeat"], "all");
}

#[test]
fn second_player_gets_its_own_bus_name_and_survives_bus_exit() {
    let Some(bus) = Bus::start("two") else {
        return;
    };
    let first = bus.player(&demo(&[]));
    let second = bus.player(&demo(&[]));
    let other = format!("{NAME}.instance{}", second.child.id());
    bus.until("both", |bus| bus.names().contains(&other));
    // A player with --no-mpris is not on the bus.
    let third = bus.player(&demo(&["--no-mpris"]));
    third.send(&["next"]);
    third.until("the second", |status| status["queue_position"] == 2);
    let its = format!("{NAME}.instance{}", third.child.id());
    assert!(!bus.names().contains(&its));
    drop(bus);
    for player in [first, second] {
        let before = position(&player.status().unwrap());
        player.until("it plays on", |status| position(status) > before + 0.5);
    }
}

/// The signals on the bus.
struct Monitor {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Monitor {
    fn start(bus: &Bus) -> Monitor {
        let mut child = Command::new("dbus-monitor")
            .args(["--session", "type='signal',path='/org/mpris/MediaPlayer2'"])
            .env("DBUS_SESSION_BUS_ADDRESS", &bus.address)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (printed, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .all(|line| printed.send(line).is_ok())
        });
        let monitor = Monitor { child, lines };
        // The monitor loses its name when it starts to listen.
        monitor.until("NameLost");
        monitor
    }

    /// Waits for a line that contains this text.
    fn until(&self, text: &str) {
        let begin = Instant::now();
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60));
            let line = line.unwrap_or_else(|_| panic!("no signal contains {text}"));
            if line.contains(text) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{text}");
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
