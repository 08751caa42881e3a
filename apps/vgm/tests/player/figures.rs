//! Prints measurements of the player without judging them, because they depend on the machine.
//!
//! Run `cargo test --release -p creel-vgm --test player -- --ignored --nocapture figures`. Set
//! `CREEL_FIGURES_SECONDS=600` for a long run.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::terminal::{PLAIN, Terminal};
use crate::{Folder, carried};

/// Threads that spin, to keep the processors busy.
struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Hogs {
    fn start(count: usize) -> Hogs {
        let stop = Arc::new(AtomicBool::new(false));
        let hog = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(hog).collect();
        Hogs { stop, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// A player in a terminal with a socket. It plays an endless song of the YM2612.
struct Player {
    terminal: Terminal,
    control: BufReader<UnixStream>,
    _folder: Folder,
}

impl Player {
    fn start(name: &str, words: &[&str]) -> Player {
        let folder = Folder::new(name);
        let (socket, song) = (folder.path("socket"), folder.put("song.vgz", ym2612()));
        let words = [&["--loops", "0", "--listen", &socket], words, &[&song]].concat();
        let mut terminal = Terminal::play(&words, (24, 80), PLAIN);
        terminal.until_has("> 1 ");
        let control = BufReader::new(UnixStream::connect(&socket).unwrap());
        Player {
            terminal,
            control,
            _folder: folder,
        }
    }

    fn send(&mut self, line: &str) -> Value {
        self.control
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        self.control.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Waits for this time, and reads the screen while it waits.
    fn pass(&mut self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.terminal.poll(Duration::from_millis(20));
        }
    }

    /// Returns the processor time so far in seconds.
    fn cpu(&self) -> f64 {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.terminal.child.id())).unwrap();
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let ticks: f64 = [11, 12]
            .iter()
            .map(|at| fields[*at].parse::<f64>().unwrap())
            .sum();
        ticks / 100.0
    }

    /// Returns the used share of a core during this time, in percent.
    fn share(&mut self, time: Duration) -> f64 {
        let (before, begin) = (self.cpu(), Instant::now());
        self.pass(time);
        (self.cpu() - before) / begin.elapsed().as_secs_f64() * 100.0
    }
}

fn ym2612() -> &'static [u8] {
    let is_it = |at: &usize| {
        let song = creel_vgm::format::Song::parse(carried(*at).to_vec()).unwrap();
        song.chips()
            .any(|chip| chip.chip == creel_vgm::format::ChipId::Ym2612)
    };
    carried((0..creel_vgm::demo::CARRIED.len()).find(is_it).unwrap())
}

fn seconds() -> Duration {
    let set = std::env::var("CREEL_FIGURES_SECONDS").ok();
    Duration::from_secs(set.and_then(|text| text.parse().ok()).unwrap_or(20))
}

fn row(what: &str, asked: &str, seen: String) {
    println!("{what:52} {asked:>10} {seen:>24}");
}

#[test]
#[ignore = "prints measurements and takes minutes"]
fn figures() {
    let cores = thread::available_parallelism().unwrap();
    println!(
        "a YM2612's song, 24 rows of 80, {cores} CPUs, {} s each",
        seconds().as_secs()
    );
    row("", "asked", "seen".into());
    processor_time();
    underruns();
    for hogs in [0, 4] {
        let _hogs = Hogs::start(hogs);
        key_to_sound(hogs);
        seek_back(hogs);
        quit(hogs);
    }
}

fn processor_time() {
    let mut player = Player::start("cpu", &["--sink", "null"]);
    player.pass(Duration::from_secs(2));
    let share = player.share(seconds());
    row(
        "CPU of a core, with the interface",
        "3 %",
        format!("{share:.2} %"),
    );
    player.terminal.press("v");
    let share = player.share(seconds());
    row("  the same with waves", "", format!("{share:.2} %"));
    player.terminal.press("v ");
    player.terminal.until_has("paused");
    player.pass(Duration::from_secs(1));
    let share = player.share(seconds());
    row("  the same paused", "0.2 %", format!("{share:.2} %"));
}

fn underruns() {
    let gaps = |player: &mut Player| {
        let status = player.send("status");
        format!("{} ({} ms)", status["underruns"], status["underrun_ms"])
    };
    for (hogs, jobs) in [(0, "2"), (4, "2"), (4, "1")] {
        let _hogs = Hogs::start(hogs);
        let mut player = Player::start("gaps", &["--sink", "null", "--jobs", jobs]);
        player.pass(seconds());
        let seen = gaps(&mut player);
        row(&format!("underruns, {hogs} hogs, --jobs {jobs}"), "0", seen);
    }
    let _hogs = Hogs::start(4);
    let mut player = Player::start("stopped", &["--sink", "null"]);
    // From here on, nobody reads the terminal.
    thread::sleep(seconds());
    let seen = gaps(&mut player);
    row("underruns, 4 hogs, the terminal stopped", "0", seen);
}

/// A device: a FIFO that is read in real time, ten milliseconds at a time.
struct Ear {
    /// The time at which each piece was audible, and its loudest sample.
    heard: Arc<Mutex<Vec<(Instant, i16)>>>,
}

impl Ear {
    fn open(path: &str) -> Ear {
        let made = std::process::Command::new("mkfifo")
            .arg(path)
            .status()
            .unwrap();
        assert!(made.success());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (printed, path) = (Arc::clone(&heard), path.to_owned());
        thread::spawn(move || {
            let mut fifo = File::open(path).unwrap();
            let mut piece = [0; 441 * 4];
            let begin = Instant::now();
            for count in 1u32.. {
                if fifo.read_exact(&mut piece).is_err() {
                    return;
                }
                let samples = piece.chunks_exact(2);
                let peak =
                    samples.map(|pair| i16::from_le_bytes([pair[0], pair[1]]).saturating_abs());
                let peak = peak.max().unwrap();
                printed.lock().unwrap().push((Instant::now(), peak));
                thread::sleep(
                    (begin + count * Duration::from_millis(10))
                        .saturating_duration_since(Instant::now()),
                );
            }
        });
        Ear { heard }
    }

    /// Returns the time from `begin` until the output was silent or, if not `silent`, audible.
    fn until(&self, player: &mut Player, begin: Instant, silent: bool) -> Duration {
        loop {
            player.terminal.poll(Duration::from_millis(1));
            let heard = self.heard.lock().unwrap();
            let is_it = |piece: &&(Instant, i16)| piece.0 > begin && (piece.1 == 0) == silent;
            if let Some(piece) = heard.iter().find(is_it) {
                return piece.0 - begin;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "no sound is audible"
            );
        }
    }
}

fn key_to_sound(hogs: usize) {
    let folder = Folder::new("fifo");
    let fifo = folder.path("fifo");
    let ear = Ear::open(&fifo);
    thread::sleep(Duration::from_millis(200));
    let sink = format!("raw:{fifo}");
    let mut player = Player::start("keys", &["--sink", &sink]);
    player.pass(Duration::from_secs(3));
    let (mut times, mut answers) = (Vec::new(), Vec::new());
    player.send("solo 1");
    player.pass(Duration::from_millis(300));
    for _ in 0..KEYS {
        player.send("hear-all");
        player.pass(Duration::from_millis(250));
        player.send("solo 1");
        player.pass(Duration::from_millis(157));
        let begin = Instant::now();
        player.terminal.press("m");
        let heard = ear.until(&mut player, begin, true);
        times.push(heard.as_secs_f64() * 1000.0);
        answers.push(
            player.send("status")["command_latency_ms"]
                .as_f64()
                .unwrap(),
        );
    }
    let what = format!("a key to the sound of it, {hogs} hogs");
    row(&what, "50 ms", spread(times));
    row("  of that, until the device has it", "", spread(answers));
}

/// The number of key presses per measurement.
const KEYS: usize = 100;

/// Returns the median, the 99th percentile and the maximum.
fn spread(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    format!("{:.0} ms, {:.0}, {:.0}", at(0.5), at(0.99), at(1.0))
}

fn seek_back(hogs: usize) {
    let mut player = Player::start("seek", &["--sink", "null"]);
    player.send("seek 10:00");
    player.pass(Duration::from_secs(10));
    let mut times = Vec::new();
    for _ in 0..10 {
        player.send("seek 10:00");
        player.pass(Duration::from_millis(700));
        player.send("seek -5:03.7");
        player.pass(Duration::from_millis(700));
        let status = player.send("status");
        assert!(status["position_s"].as_f64().unwrap() < 320.0, "{status}");
        times.push(status["command_latency_ms"].as_f64().unwrap());
    }
    times.sort_by(f64::total_cmp);
    let seen = format!("{:.1} ms, at most {:.1}", times[5], times[9]);
    row(
        &format!("5 minutes back, median of 10, {hogs} hogs"),
        "50 ms",
        seen,
    );
}

fn quit(hogs: usize) {
    for jobs in ["2", "1"] {
        let mut times = Vec::new();
        for _ in 0..10 {
            let mut player = Player::start("quit", &["--sink", "null", "--jobs", jobs]);
            player.pass(Duration::from_millis(300));
            let begin = Instant::now();
            player.terminal.press("q");
            assert_eq!(player.terminal.end(), Some(0));
            times.push(begin.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        let seen = format!("{:.0} ms, at most {:.0}", times[5], times[9]);
        row(
            &format!("q to the end, median of 10, --jobs {jobs}, {hogs} hogs"),
            "100 ms",
            seen,
        );
    }
}
