//! Runs `creel top` and checks its report, and its display on terminals of two sizes.
//!
//! The watched programs end by themselves, even if a test fails.

mod program;

use program::CREEL;
use pty_process::{Size, blocking};
use std::{
    fs,
    io::{Read, Write},
    num::NonZeroU16,
    process::{Child, Command},
};

/// A command that computes for up to half a minute.
const BUSY: &str = "exec timeout 30 sh -c 'while :; do :; done'";

fn creel(words: &[&str]) -> (Option<i32>, String, String) {
    program::creel(&[&["top"], words].concat())
}

#[test]
fn threads_and_a_verdict_are_reported() {
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let (code, text, err) = creel(&["--", "sh", "-c", busy]);
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("threads runnable on average"), "{text}");
    assert!(text.lines().any(|line| line.contains(" sh ")), "{text}");
}

#[test]
fn top_keeps_the_exit_code_and_prints_the_program_output_to_stderr() {
    let words = ["--format", "json", "--", "sh", "-c", "echo printed; exit 7"];
    let (code, json, err) = creel(&words);
    assert_eq!(code, Some(7), "{err}");
    let output: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(output["exit_code"], 7);
    assert!(err.contains("printed"), "{err}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let words = [
        "--output",
        file.to_str().unwrap(),
        "sh",
        "-c",
        "echo printed; kill -9 $$",
    ];
    let (code, _, err) = creel(&words);
    assert_eq!((code, err.as_str()), (Some(128 + 9), ""));
    assert_eq!(fs::read_to_string(file).unwrap(), "printed\n");
}

#[test]
fn sigterm_ends_the_report_with_code_143() {
    // The program sends the signal to its parent, which is `creel top`.
    let script = "kill -TERM $PPID; exec sleep 30";
    let (code, json, err) = creel(&["--format", "json", "--", "sh", "-c", script]);
    assert_eq!(code, Some(143), "{err}");
    let output: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(output["schema"], 1, "the report is printed");
}

#[test]
fn the_flag_verbose_adds_the_limits_to_the_report() {
    let (_, quiet, _) = creel(&["--", "true"]);
    let (code, verbose, err) = creel(&["-v", "--", "true"]);
    assert_eq!(code, Some(0), "{err}");
    let bound = "usable workers are bound by";
    assert!(
        verbose.contains(bound) && !quiet.contains(bound),
        "{verbose}"
    );
}

#[test]
fn top_does_not_watch_itself() {
    // The shell watches itself. Its child is `creel top`, which must not appear.
    let script = "\"$0\" top -p $$ --for 300ms --format json; exit";
    let output = Command::new("sh").args(["-c", script, CREEL]).output();
    let output: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let threads = output["threads"].as_array().unwrap();
    let names: Vec<_> = threads.iter().map(|thread| &thread["name"]).collect();
    assert_eq!(names, ["sh"]);
}

#[test]
fn an_error_names_the_wrong_argument() {
    let fails = |words: &[&str], code: i32, text: &str| {
        let (ended, _, said) = creel(words);
        assert_eq!(ended, Some(code), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    };
    fails(&["no-such-program"], 127, "no-such-program");
    fails(&["-p", "4000000000"], 2, "no such process");
    fails(&["--name", "no such name"], 2, "no process with the name");
    fails(&["--cgroup", "no/such/group"], 2, "no control group");
    fails(&["--for", "x", "true"], 2, "use for example 90m");
    fails(
        &["--output", "/no/such/folder/x", "true"],
        2,
        "/no/such/folder/x",
    );
}

#[test]
fn a_thread_that_waits_for_a_cpu_is_not_idle() {
    let cpu = creel_topology::affinity::current()
        .unwrap()
        .first()
        .unwrap();
    // Three programs spin on one CPU. The watched one has the least priority, so it mostly waits.
    let hog = |nice: &str| {
        let words = ["-n", nice, "taskset", "-c", &cpu.to_string()];
        // `timeout` ends the programs. We cannot end them with a signal, because it would not reach
        // the shell inside of `timeout`.
        let spin = ["timeout", "4", "sh", "-c", "while :; do :; done"];
        let mut command = Command::new("nice");
        command.args(words).args(spin).spawn().unwrap()
    };
    let mut hogs = [hog("0"), hog("0")];
    let mut watched = hog("19");
    let pid = watched.id().to_string();
    let (code, json, err) = creel(&["-p", &pid, "--for", "1s", "--format", "json"]);
    hogs.iter_mut().chain([&mut watched]).for_each(|child| {
        child.wait().unwrap();
    });
    assert_eq!(code, Some(0), "{err}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    // On a busy machine, `timeout` may wait as well while it starts. Then two threads are runnable.
    let processes = report["processes"].as_array().unwrap();
    let is_starved = |process: &serde_json::Value| process["verdict"] == "starved";
    assert!(processes.iter().any(is_starved), "{json}");
    assert!(
        ["starved", "mis-sized"].contains(&report["verdict"].as_str().unwrap()),
        "{json}"
    );
    let seconds = report["seconds"].as_f64().unwrap();
    for thread in report["threads"].as_array().unwrap() {
        assert!(thread["waited_s"].as_f64().unwrap() <= seconds, "{thread}");
    }
}

/// Waits until a program sleeps. While it starts on a busy machine, it waits for a CPU.
fn wait_until_asleep(child: &Child) {
    let stat = || fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    while !stat().contains(") S ") {
        std::thread::yield_now();
    }
}

#[test]
fn running_processes_are_found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("creel-top-by-name");
    fs::copy("/bin/sleep", &program).unwrap();
    let mut child = Command::new(&program).arg("30").spawn().unwrap();
    wait_until_asleep(&child);
    let (code, text, err) = creel(&["--name", "creel-top-by-name", "--for", "100ms"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("the program is idle"), "{text}");
    assert!(text.contains("did nothing is not shown"), "{text}");
}

#[test]
fn the_limits_are_those_of_the_program() {
    let own = creel_topology::affinity::current().unwrap();
    let one = own.first().unwrap().to_string();
    let mut command = Command::new("taskset");
    let mut child = command.args(["-c", &one, "sleep", "30"]).spawn().unwrap();
    wait_until_asleep(&child);
    let pid = child.id().to_string();
    let (code, json, err) = creel(&["-p", &pid, "--for", "100ms", "--format", "json"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(code, Some(0), "{err}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["usable_workers"], 1, "{json}");
    // Some systems do not show the function in which a thread sleeps.
    if let Some(wait) = report["waits"].as_array().unwrap().first() {
        assert_eq!(
            (&wait["for"], &wait["threads"]),
            (&"a timer".into(), &1.into())
        );
    }
}

#[test]
fn processes_of_a_control_group_are_watched() {
    // A folder with a list of processes looks like a control group.
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("30").spawn().unwrap();
    wait_until_asleep(&child);
    fs::write(
        folder.path().join("cgroup.procs"),
        format!("{}\n", child.id()),
    )
    .unwrap();
    let group = folder.path().to_str().unwrap();
    let words = ["--cgroup", group, "--for", "100ms", "--format", "json"];
    let (code, json, err) = creel(&words);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(code, Some(0), "{err}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["processes"][0]["pid"], child.id());
    assert_eq!(report["processes"][0]["verdict"], "idle");
}

#[test]
fn lanes_are_written_as_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let trace = file.to_str().unwrap();
    let (code, _, err) = creel(&["--for", "300ms", "--trace", trace, "--", "sh", "-c", BUSY]);
    assert_eq!(code, Some(0), "{err}");
    let trace: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let runs = |event: &serde_json::Value| {
        event["ph"] == "X"
            && event["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("sh ("))
    };
    assert!(events.iter().any(runs), "{trace}");
}

/// `creel top` in a terminal of its own, and the contents of that terminal.
struct Terminal {
    pty: blocking::Pty,
    child: Child,
    screen: vt100::Parser,
}

impl Terminal {
    fn start(columns: u16, rows: u16, words: &[&str]) -> Self {
        let (pty, pts) = blocking::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let command = blocking::Command::new(CREEL).args(["top", "--interval", "50ms"]);
        let child = command.args(words).spawn(pts).unwrap();
        let size = |n| NonZeroU16::new(n).unwrap();
        Self {
            pty,
            child,
            screen: vt100::Parser::new(size(rows), size(columns), 100),
        }
    }

    fn rows(&self) -> Vec<String> {
        let (_, columns) = self.screen.screen().size();
        self.screen.screen().rows(0, columns.get()).collect()
    }

    /// Reads the output until `wanted` returns true for the rows of the screen. Returns false if
    /// the program ends before that.
    fn until(&mut self, wanted: impl Fn(&[String]) -> bool) -> bool {
        let mut bytes = [0; 4096];
        while !wanted(&self.rows()) {
            match self.pty.read(&mut bytes) {
                Ok(count @ 1..) => self.screen.process(&bytes[..count]),
                _ => return wanted(&self.rows()),
            }
        }
        true
    }

    fn shows(&mut self, text: &str) {
        let seen = self.until(|rows| rows.iter().any(|row| row.contains(text)));
        assert!(seen, "{text:?} is not in\n{}", self.rows().join("\n"));
    }

    fn press(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads the rest of the output. Returns the exit code and the screen.
    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.pty.read(&mut bytes) {
            self.screen.process(&bytes[..count]);
        }
        (self.child.wait().unwrap().code(), self.rows())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_view_fits_two_terminal_sizes() {
    for (columns, rows) in [(80, 24), (200, 50)] {
        let script = format!("echo printed by the program; {BUSY}");
        let mut top = Terminal::start(columns, rows, &["--", "sh", "-c", &script]);
        top.shows("printed by the program");
        top.shows("wait%");
        let is_busy = |row: &String| row.contains(" sh ") && !row.contains("creel top");
        assert!(
            top.until(|rows| rows.iter().any(is_busy)),
            "{:?}",
            top.rows()
        );
        let seen = top.rows();
        // The screen has not scrolled: the title is still the first line, and the list of keys is
        // the last.
        assert!(seen[0].starts_with(" creel top  sh "), "{seen:?}");
        assert!(
            seen[usize::from(rows) - 1].starts_with("q quit"),
            "{seen:?}"
        );
        assert!(seen[1].contains("runnable"), "{seen:?}");
        assert!(seen[2].starts_with("PU "), "a lane a PU: {seen:?}");
        // A line of the full width keeps its last character.
        let titles = seen.iter().find(|row| row.contains("wait%")).unwrap();
        assert!(titles.trim_end().ends_with("migr/s"), "{titles}");
        top.press("q");
        let (code, last) = top.end();
        assert_eq!(code, Some(0));
        assert!(
            last.iter().any(|row| row.contains("runnable on average")),
            "{last:?}"
        );
    }
}

#[test]
fn keys_and_mouse_control_the_view() {
    let mut top = Terminal::start(80, 24, &["--", "sh", "-c", BUSY]);
    top.shows("CPU%▾");
    top.press("w");
    top.shows("wait%▾");
    top.press("w");
    top.shows("wait%▴");
    top.press("?");
    top.shows("any key: back");
    top.press("?");
    top.shows("q quit");
    top.press("T");
    top.shows("   sh ");
    top.press("l");
    let titles = top.until(|rows| rows[2].contains("thread") && rows[2].contains("PU"));
    assert!(titles, "{:?}", top.rows());
    // We click on the title of the names, which is on the third line now.
    top.press("\x1b[<0;14;3M");
    top.shows("name▾");
    top.press(" ");
    top.shows("paused");
    top.press("q");
    assert_eq!(top.end().0, Some(0));
}

#[test]
fn ended_processes_disappear_from_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = |name: &str| {
        let path = folder.path().join(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        path
    };
    let (one, two) = (pipe("one"), pipe("two"));
    let (first, second) = (one.display(), two.display());
    let script = format!("cat {first}; cat {second}; echo over; exit 5");
    let mut top = Terminal::start(80, 24, &["--", "sh", "-c", &script]);
    let cats = |rows: &[String]| -> Vec<String> {
        let rows = rows.iter().filter(|row| row.contains(" cat "));
        let tid = |row: &String| row[1..].split_whitespace().next().map(String::from);
        rows.filter_map(tid).collect()
    };
    assert!(top.until(|rows| cats(rows).len() == 1), "{:?}", top.rows());
    let before = cats(&top.rows());
    fs::write(one, "").unwrap();
    let other = |rows: &[String]| cats(rows).len() == 1 && cats(rows) != before;
    assert!(top.until(other), "the first one has gone: {:?}", top.rows());
    fs::write(two, "").unwrap();
    let (code, last) = top.end();
    assert_eq!(code, Some(5));
    assert!(last.iter().any(|row| row.contains("over")), "{last:?}");
}

#[test]
fn ctrl_c_interrupts_the_live_view() {
    let mut top = Terminal::start(80, 24, &["--", "sh", "-c", BUSY]);
    top.shows("CPU%");
    top.press("\x03");
    assert_eq!(top.end().0, Some(130));
}

#[test]
fn top_with_a_duration_shows_the_output() {
    let script = "echo HELLO; exec timeout 10 sh -c 'while :; do :; done'";
    let mut top = Terminal::start(80, 24, &["--for", "3s", "--", "sh", "-c", script]);
    top.shows("output of sh");
    top.shows("HELLO");
    let (code, last) = top.end();
    assert_eq!(code, Some(0));
    // The program keeps running, and creel prints the file with its output.
    let said = last.join("");
    assert!(
        said.contains("HELLO") && said.contains("creel-top-"),
        "{last:?}"
    );
    let file = said.split("its output is in ").nth(1).unwrap();
    let end = file.find(".out").unwrap() + 4;
    fs::remove_file(&file[..end]).unwrap();
}
