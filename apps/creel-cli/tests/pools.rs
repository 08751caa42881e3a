//! Runs `creel top` and `creel run --watch` with a program that has a Creel pool. The program is
//! this test executable itself.
//!
//! The program ends when its stdin is closed, or after a minute.

use creel::{Observe, Pool};
use pty_process::{Size, blocking};
use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");
/// The variable that turns this test into that program.
const OBSERVE: &str = "CREEL_TEST_OBSERVE";

/// The program. It runs loops on two workers, and prints the number of workers when it changes.
#[test]
fn a_program_with_a_pool() {
    let Ok(observe) = env::var(OBSERVE) else {
        return;
    };
    let observe = observe.parse::<Observe>().unwrap();
    let builder = Pool::builder().workers(2).name("seen").observe(observe);
    let pool = builder.build().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            over.store(true, Ordering::Relaxed);
        });
        let mut items = vec![0_u64; 1000];
        let mut workers = 0;
        let begin = std::time::Instant::now();
        while !over.load(Ordering::Relaxed) {
            pool.for_each(&mut items, |item| *item += 1);
            if pool.workers() != workers {
                workers = pool.workers();
                println!("\nworkers {workers}");
            }
            if begin.elapsed() > Duration::from_secs(60) {
                // If a test waits for output that never comes, the end of this program ends the
                // wait.
                std::process::exit(1);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}

/// Returns `words` followed by the words that start the program.
fn program<'a>(words: &[&'a str], own: &'a str) -> Vec<&'a str> {
    let test = [own, "a_program_with_a_pool", "--exact", "--nocapture"];
    [words, &test].concat()
}

fn own() -> String {
    env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// The program as the child of another one, with pipes.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(observe: &str, words: &[&str]) -> Self {
        let own = own();
        let words = program(words, &own);
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .env(OBSERVE, observe)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self {
            child,
            stdin,
            lines,
        };
        running.says("workers 2");
        running
    }

    /// Reads lines until the expected one.
    fn says(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            let read = self.lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "it has ended without {wanted:?}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn pool_workers_are_reported() {
    let top = |running: &Running, more: &[&str]| {
        let pid = running.child.id().to_string();
        let words = [&["top", "-p", &pid, "--for", "500ms"], more].concat();
        let output = Command::new(CREEL).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let running = Running::start("look", &[]);
    let json: serde_json::Value =
        serde_json::from_str(&top(&running, &["--format", "json"])).unwrap();
    let pool = &json["pools"][0];
    assert_eq!(pool["pool"], "seen", "{json}");
    assert_eq!(pool["pid"], running.child.id());
    let items = |worker: usize| pool["workers"][worker]["loop_items"].as_u64().unwrap();
    // The counts are from half a second with a loop every few milliseconds, and exclude earlier
    // loops. On a busy machine there are few loops, and with one CPU the caller runs them alone.
    let cpus = creel_topology::affinity::current().unwrap().len();
    let least = u64::from(cpus > 1);
    assert!(
        (least..1_000_000).contains(&(items(0) + items(1))),
        "{json}"
    );
    let text = top(&running, &[]);
    assert!(text.contains("pool seen: 2 workers"), "{text}");
    let unseen = Running::start("off", &[]);
    let json: serde_json::Value =
        serde_json::from_str(&top(&unseen, &["--format", "json"])).unwrap();
    assert_eq!(json["pools"], serde_json::json!([]));
}

#[test]
fn the_view_shows_pool_workers() {
    let (mut pty, pts) = blocking::open().unwrap();
    pty.resize(Size::new(24, 80)).unwrap();
    let own = own();
    let words = program(&["top", "--interval", "50ms", "--"], &own);
    let child = blocking::Command::new(CREEL).args(words);
    let mut child = child.env(OBSERVE, "look").spawn(pts).unwrap();
    let size = |n| std::num::NonZeroU16::new(n).unwrap();
    let mut screen = vt100::Parser::new(size(24), size(80), 0);
    let mut bytes = [0; 4096];
    let mut until = |pty: &mut blocking::Pty, shown: bool| {
        loop {
            let text = screen.screen().contents();
            if (text.contains("pool seen: 2 workers") && text.contains(" wakes ")) == shown {
                break;
            }
            let read = pty.read(&mut bytes).unwrap();
            screen.process(&bytes[..read]);
        }
    };
    until(&mut pty, true);
    pty.write_all(b"P").unwrap();
    until(&mut pty, false);
    pty.write_all(b"q").unwrap();
    // We read until the end, because otherwise the program could not write its output.
    while pty.read(&mut bytes).is_ok_and(|n| n > 0) {}
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn resizable_pools_follow_the_limits() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: this machine has only one CPU");
        return;
    }
    let mut running = Running::start("resize", &[CREEL, "run", "--watch", "--"]);
    let pid = running.child.id().to_string();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let cpus = status.split_once("Cpus_allowed_list:\t").unwrap().1;
    let first: String = cpus.chars().take_while(char::is_ascii_digit).collect();
    let mut taskset = Command::new("taskset");
    let Ok(output) = taskset.args(["-acp", &first, &pid]).output() else {
        eprintln!("skipped: taskset is not installed");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    running.says("workers 1");
}
