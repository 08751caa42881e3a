//! Tests of the remote control, with a player without a terminal.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Folder, carried, demo};

const PROGRAM: &str = env!("CARGO_BIN_EXE_creel-vgm");

/// A player without a terminal, and its socket.
pub struct Player {
    pub child: Child,
    pub socket: String,
    // Dropped last, so that the folder exists until the end.
    _folder: Folder,
}

impl Player {
    fn start(name: &str, words: &[&str]) -> Player {
        Player::start_with(name, words, &[])
    }

    /// Starts a player with these environment variables.
    pub fn start_with(name: &str, words: &[&str], vars: &[(&str, &str)]) -> Player {
        let folder = Folder::new(name);
        let socket = folder.path("socket");
        let child = Command::new(PROGRAM)
            .arg("play")
            .args(words)
            .args(["--listen", &socket])
            // The test must not use the user's configuration or bus.
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .envs(vars.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let player = Player {
            child,
            socket,
            _folder: folder,
        };
        player.until("it plays", |status| status["queue_position"] == 1);
        player
    }

    /// Runs `ctl`, and returns its output and exit code.
    fn ctl(&self, words: &[&str]) -> (String, Option<i32>) {
        let output = Command::new(PROGRAM)
            .args(["ctl", "--socket", &self.socket])
            .args(words)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8(text).unwrap(), output.status.code())
    }

    pub fn status(&self) -> Option<Value> {
        let (text, code) = self.ctl(&["status", "--json"]);
        (code == Some(0)).then(|| serde_json::from_str(&text).unwrap())
    }

    pub fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let status = self.status();
            if let Some(status) = status.filter(&condition) {
                return status;
            }
            let late = begin.elapsed() > Duration::from_secs(60);
            assert!(!late, "{what}: {:?}", self.status());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a command that succeeds.
    pub fn send(&self, words: &[&str]) {
        assert_eq!(self.ctl(words), (String::new(), Some(0)), "{words:?}");
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ctl_controls_the_player_and_reads_its_status() {
    let player = Player::start("remote", &demo(&[]));
    let status = player.status().unwrap();
    assert_eq!(status["state"], "playing");
    assert_eq!(status["songs"], creel_vgm::demo::CARRIED.len());
    assert_eq!(
        status["length_s"],
        Value::Null,
        "an endless song has no length"
    );
    assert!(status["voices"].as_array().unwrap().len() > 4, "{status}");
    player.send(&["next"]);
    player.until("the second", |status| status["queue_position"] == 2);
    player.send(&["previous"]);
    player.until("the first", |status| status["queue_position"] == 1);
    player.send(&["seek", "0:30"]);
    let at = |status: &Value| status["position_s"].as_f64().unwrap();
    player.until("there", |status| at(status) >= 30.0);
    player.send(&["pause"]);
    let before = player.until("paused", |status| status["state"] == "paused");
    player.send(&["seek", "-10"]);
    player.until("back", |status| at(status) < at(&before) - 5.0);
    player.send(&["resume"]);
    player.until("playing", |status| status["state"] == "playing");
    player.send(&["volume", "50"]);
    player.send(&["volume", "+10"]);
    player.send(&["tempo", "80"]);
    player.send(&["pitch", "120"]);
    player.send(&["mute", "2"]);
    player.send(&["loop", "on"]);
    player.send(&["repeat", "all"]);
    player.send(&["shuffle", "on"]);
    let status = player.until("muted", |status| status["voices"][1]["audible"] == false);
    assert_eq!(status["volume_percent"], 60);
    assert_eq!(
        (&status["tempo_percent"], &status["pitch_percent"]),
        (&80.0.into(), &120.0.into())
    );
    assert_eq!(
        (&status["loop_forever"], &status["repeat"]),
        (&true.into(), &"all".into())
    );
    assert_eq!(status["shuffle"], true);
    player.send(&["hear-all"]);
    player.send(&["solo", "1"]);
    player.until("alone", |status| {
        status["voices"][0]["audible"] == true && status["voices"][1]["audible"] == false
    });
    player.send(&["jump", "3"]);
    player.until("the third", |status| status["queue_position"] == 3);
    for words in [
        &["status", "--format", "json"][..],
        &["--format=json", "status"],
    ] {
        let (text, code) = player.ctl(words);
        let status: Value = serde_json::from_str(&text).expect("the status is not JSON");
        assert_eq!(
            (&status["queue_position"], code),
            (&Value::from(3), Some(0))
        );
    }
    let (text, _) = player.ctl(&["status"]);
    assert!(
        text.contains("queue_position: 3\n") && text.contains("state: playing\n"),
        "{text}"
    );
}

#[test]
fn ctl_reports_invalid_commands() {
    let player = Player::start("refused", &demo(&[]));
    for (words, why) in [
        (&["dance"][..], "unknown command dance"),
        (&["jump", "99"], "no song 99"),
        (&["mute", "60"], "no voice 60"),
        (&["volume"], "volume needs a value"),
        (
            &["volume", "401"],
            "volume 401: expected a number from 0 to 400",
        ),
        (
            &["tempo", "1000"],
            "tempo 1000: expected a number from 25 to 400",
        ),
        (&["seek", "1:99"], "seek 1:99: expected a time"),
    ] {
        let (text, code) = player.ctl(words);
        assert!(
            text.contains(why) && code == Some(1),
            "{words:?}: {text} {code:?}"
        );
    }
    // The player does not wait for the end of a line that exceeds the limit, and other clients are
    // not delayed.
    let mut stream = UnixStream::connect(&player.socket).unwrap();
    stream.write_all(&[b'x'; 4000]).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("too long"), "{answer}");
    // Another player cannot take over the socket.
    let second = Command::new(PROGRAM)
        .args([
            "play",
            "--demo",
            "--sink",
            "null",
            "--listen",
            &player.socket,
        ])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(75), "{second:?}");
    player.send(&["next"]);
}

#[test]
fn ctl_quit_removes_the_socket() {
    let mut player = Player::start("quit", &demo(&[]));
    player.send(&["quit"]);
    assert_eq!(player.child.wait().unwrap().code(), Some(0));
    assert!(!std::path::Path::new(&player.socket).exists());
    let (text, code) = player.ctl(&["status"]);
    assert!(text.contains("no player is listening on"), "{text}");
    assert_eq!(code, Some(75));
}

#[test]
fn underruns_and_stalls_are_counted() {
    let player = Player::start("gap", &demo(&[]));
    let pid = Pid::from_child(&player.child);
    let gap_ms = |status: &Value| status["underrun_ms"].as_f64().unwrap();
    let before = gap_ms(&player.status().unwrap());
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill_process(pid, Signal::CONT).unwrap();
    let status = player.until("an underrun", |status| gap_ms(status) >= before + 200.0);
    assert!(status["underruns"].as_u64() > Some(0), "{status}");
    // A pause is not an underrun. We try several times, because a busy machine may halt the player.
    let begin = Instant::now();
    let mut is_none = false;
    while !is_none {
        let before = player.status().unwrap();
        player.send(&["pause"]);
        std::thread::sleep(Duration::from_millis(200));
        player.send(&["resume"]);
        player.send(&["next"]);
        let status = player.until("the next", |status| {
            status["queue_position"] != before["queue_position"]
        });
        is_none = gap_ms(&status) - gap_ms(&before) < 190.0;
        let late = begin.elapsed() > Duration::from_secs(60);
        assert!(!late, "{status} after {before}");
    }
}

#[test]
fn paused_player_shows_the_seek_position() {
    let player = Player::start("paused", &demo(&[]));
    player.send(&["pause"]);
    player.until("paused", |status| status["state"] == "paused");
    player.send(&["seek", "1:00"]);
    let at = |status: &Value| status["position_s"].as_f64().unwrap();
    // The buffer of the device does not count.
    let near = |status: &Value, seconds: f64| (at(status) - seconds).abs() < 0.2;
    player.until("at a minute", |status| near(status, 60.0));
    // A relative seek counts from the target of the previous seek, and not from the last position
    // that was played.
    player.send(&["seek", "+10"]);
    player.until("ten seconds on", |status| near(status, 70.0));
    player.send(&["next"]);
    player.until("the second", |status| status["queue_position"] == 2);
    player.until("its start", |status| near(status, 0.0));
    player.send(&["resume"]);
    player.until("it plays", |status| (0.3..60.0).contains(&at(status)));
}

#[test]
fn long_seek_still_accepts_commands() {
    for jobs in ["1", "2"] {
        let mut player = Player::start("far", &demo(&["--jobs", jobs]));
        player.send(&["seek", "20000:00"]);
        player.until("it is on its way", |status| status["state"] == "seeking");
        player.send(&["mute", "1"]);
        player.send(&["seek", "0:30"]);
        player.until("there, and the voice is muted", |status| {
            let at = status["position_s"].as_f64().unwrap();
            (30.0..60.0).contains(&at) && status["voices"][0]["audible"] == false
        });
        player.send(&["seek", "20000:00"]);
        player.send(&["quit"]);
        assert_eq!(player.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn paused_player_shows_muted_voices() {
    let player = Player::start("muted", &demo(&[]));
    player.send(&["pause"]);
    player.send(&["mute", "1"]);
    let heard = |voice: usize, is_heard: bool| {
        move |status: &Value| status["voices"][voice]["audible"] == is_heard
    };
    player.until("one", heard(0, false));
    player.send(&["mute", "2"]);
    player.until("two", heard(1, false));
    player.send(&["solo", "1"]);
    player.until("it alone", heard(0, true));
    let status = player.until("the third", heard(2, false));
    assert_eq!(status["state"], "paused");
    let (text, _) = player.ctl(&["status"]);
    assert!(
        text.contains("(audible)") && text.contains("(muted)"),
        "{text}"
    );
    assert!(text.contains("length_s: endless"), "{text}");
}

#[test]
fn player_runs_on_one_worker() {
    let mut player = Player::start("one", &demo(&["--jobs", "1"]));
    player.send(&["next"]);
    player.until("the second", |status| status["queue_position"] == 2);
    kill_process(Pid::from_child(&player.child), Signal::TERM).unwrap();
    let ended = player.child.wait().unwrap();
    assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn the_player_resumes_at_the_saved_position() {
    let folder = Folder::new("resume");
    let songs: Vec<String> = (0..3)
        .map(|n| folder.put(&format!("{n}.vgz"), carried(n)))
        .collect();
    let play = || {
        let mut words = vec![
            "play", "--sink", "null", "--loops", "0", "--resume", "--listen",
        ];
        let socket = folder.path("socket");
        words.push(&socket);
        words.extend(songs.iter().map(String::as_str));
        // The player must react to SIGHUP even if the tests were started with `nohup`.
        let child = Command::new("env")
            .args(["--default-signal", PROGRAM])
            .args(words)
            .env("XDG_STATE_HOME", folder.path("state"))
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Player {
            child,
            socket: folder.path("socket"),
            _folder: Folder::new("none"),
        }
    };
    let mut first = play();
    first.until("it plays", |status| status["queue_position"] == 1);
    first.send(&["jump", "2"]);
    first.until("the second", |status| status["queue_position"] == 2);
    first.send(&["seek", "1:00"]);
    first.until("there", |status| {
        status["position_s"].as_f64().unwrap() >= 60.0
    });
    first.send(&["quit"]);
    assert_eq!(first.child.wait().unwrap().code(), Some(0));
    let mut second = play();
    second.until("where it was", |status| {
        status["queue_position"] == 2 && status["position_s"].as_f64().unwrap() >= 60.0
    });
    // The terminal is closed.
    second.send(&["jump", "3"]);
    second.until("the third", |status| status["queue_position"] == 3);
    kill_process(Pid::from_child(&second.child), Signal::HUP).unwrap();
    let ended = second.child.wait().unwrap();
    assert_eq!(ended.signal(), Some(Signal::HUP.as_raw()));
    let mut third = play();
    third.until("where it was", |status| status["queue_position"] == 3);
    // A killed player loses a few seconds at most.
    third.send(&["jump", "1"]);
    third.until("the first", |status| status["queue_position"] == 1);
    third.send(&["seek", "2:00"]);
    let file = folder.path("state/creel-vgm/positions.json");
    let begin = Instant::now();
    let is_kept = |text: String| {
        let book: Value = serde_json::from_str(&text).unwrap();
        let left = &book["queues"][0];
        left["source"] == *songs[0] && left["ms"].as_u64() >= Some(120_000)
    };
    while !is_kept(std::fs::read_to_string(&file).unwrap()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is not kept");
        std::thread::sleep(Duration::from_millis(50));
    }
    third.child.kill().unwrap();
    third.child.wait().unwrap();
    play().until("where it was", |status| {
        status["queue_position"] == 1 && status["position_s"].as_f64().unwrap() >= 120.0
    });
}
