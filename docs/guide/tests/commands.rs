//! Runs the shell blocks of the documents and compares what they print with what the document shows.
//!
//! The info string of a block decides how it runs:
//!
//! | info string | how the block runs |
//! |---|---|
//! | `console` | each line after `$ ` is run in one shell, in an empty folder with some sample files. All of them must succeed. The other lines are the expected output |
//! | `console background` | the block starts, and the next block runs next to it. Then we terminate it, unless it ends itself |
//! | `console no-run: REASON` | the block is not run. Each program still parses its command lines, in a unit test of its own |
//!
//! In an expected line, a number stands for any number, and `…` for any text. An expected line `…`
//! stands for any number of lines.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A block must not take longer than this, because all of them together must be quick.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a block in the background may run after the next block has ended.
const GRACE: Duration = Duration::from_secs(5);

const PROGRAMS: &[&str] = &[
    "creel",
    "creel-vgm",
    "creel-cast",
    "creel-traffic",
    "creel-serve",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder of the programs. Cargo builds them before it runs the tests of the workspace.
fn programs() -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap().to_owned();
    let missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|name| !folder.join(name).exists())
        .collect();
    if !missing.is_empty() {
        eprintln!("skipped, because {missing:?} are not built: run cargo test --workspace");
        return None;
    }
    Some(folder)
}

/// A shell block of a document.
#[derive(Debug, PartialEq)]
struct Block {
    /// The file and the line.
    place: String,
    info: String,
    commands: Vec<String>,
    output: Vec<String>,
}

/// Returns the shell blocks of a document. In a block without `$ `, each line is a command.
fn blocks(name: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let body = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```");
        let body: Vec<&str> = body.collect();
        let has_prompts = match info.split(' ').next() {
            Some("console") => true,
            Some("sh") => false,
            _ => continue,
        };
        let (commands, output): (Vec<&str>, Vec<&str>) = body
            .into_iter()
            .partition(|line| !has_prompts || line.starts_with("$ "));
        let command = |line: &str| line.strip_prefix("$ ").unwrap_or(line).to_owned();
        blocks.push(Block {
            place: format!("{name}:{number}"),
            info: info.split_once(' ').map_or("", |(_, rest)| rest).to_owned(),
            commands: commands.into_iter().map(command).collect(),
            output: output.into_iter().map(str::to_owned).collect(),
        });
    }
    blocks
}

/// Returns the documents with commands.
fn documents() -> BTreeMap<String, String> {
    let mut documents = BTreeMap::new();
    for folder in ["", "docs", "docs/guide/src", "apps/cast"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = Path::new(folder).join(path.file_name().unwrap());
                documents.insert(
                    name.display().to_string(),
                    fs::read_to_string(path).unwrap(),
                );
            }
        }
    }
    documents
}

/// A folder in which blocks run. It is removed at the end.
struct Folder {
    path: PathBuf,
    path_variable: OsString,
}

impl Folder {
    /// Creates the files that the documents name.
    fn new(programs: &Path) -> Self {
        let path = std::env::temp_dir().join(format!("creel-documents-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        let mut path_variable = programs.as_os_str().to_owned();
        path_variable.push(":");
        path_variable.push(std::env::var_os("PATH").unwrap_or_default());
        let folder = Folder {
            path,
            path_variable,
        };
        for (name, seconds) in [
            ("old", 0.02),
            ("new", 0.01),
            ("batch", 0.1),
            ("service", 0.5),
        ] {
            let script = folder.path.join(name);
            fs::write(&script, format!("#!/bin/sh\nsleep {seconds}\n")).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in ["roads", "trips"] {
            let from = root().join(format!("apps/traffic/tests/data/sioux-falls.{name}.tntp"));
            fs::copy(from, folder.path.join(format!("{name}.tntp"))).unwrap();
        }
        let setup = "creel-vgm generate -o music
            song=$(ls music/*.vg* | head -n 1)
            cp $song song.vgz
            cp $song album.zip
            echo song.vgz > list.m3u";
        let status = folder.shell(setup).status().unwrap();
        assert!(status.success(), "the sample files cannot be created");
        folder
    }

    /// Returns a shell that runs a script in this folder and in a process group of its own.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-euc", script]).current_dir(&self.path);
        command.env("PATH", &self.path_variable).process_group(0);
        command.stdin(Stdio::null());
        command
    }

    fn start(&self, block: &Block) -> Running {
        let mut command = self.shell(&block.commands.join("\n"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = move |from: &mut dyn Read| {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Running {
            child,
            stdout: std::thread::spawn(move || read(&mut stdout)),
            stderr: std::thread::spawn(move || read(&mut stderr)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

struct Running {
    child: Child,
    stdout: std::thread::JoinHandle<String>,
    stderr: std::thread::JoinHandle<String>,
}

impl Running {
    /// Waits for the end, and terminates the block if it has not ended by then.
    fn end(mut self, limit: Duration) -> (ExitStatus, bool, String, String) {
        let begin = Instant::now();
        let mut is_late = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > limit && !is_late {
                is_late = true;
                let group = format!("-{}", self.child.id());
                let kill = Command::new("kill").args(["-TERM", "--", &group]).status();
                assert!(kill.unwrap().success());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        (
            status,
            is_late,
            self.stdout.join().unwrap(),
            self.stderr.join().unwrap(),
        )
    }
}

/// Replaces each number by `0`, and several spaces or lines of a table by one.
fn normalize(line: &str) -> String {
    let mut normal = String::new();
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_ascii_digit() {
            while chars
                .next_if(|c| c.is_ascii_digit() || *c == '.' || *c == ',')
                .is_some()
            {}
            normal.push('0');
        } else if c == ' ' || c == '─' {
            while chars.next_if(|next| *next == c).is_some() {}
            normal.push(c);
        } else {
            normal.push(c);
        }
    }
    normal
}

/// Returns whether a line has the parts of an expected line, which `…` separates.
fn line_matches(expected: &str, line: &str) -> bool {
    let (expected, line) = (normalize(expected), normalize(line));
    let mut parts = expected.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut is_exact = true;
    for part in parts {
        let part = part.trim();
        let Some(at) = rest.rfind(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        is_exact = part.is_empty();
    }
    rest.is_empty() || is_exact && expected.contains('…')
}

/// Returns the first expected line that was not printed.
fn first_difference<'a>(expected: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().filter(|line| !line.trim().is_empty());
    let mut may_skip = false;
    for line in expected.iter().filter(|line| !line.trim().is_empty()) {
        if line.trim() == "…" {
            may_skip = true;
            continue;
        }
        let found = match may_skip {
            true => printed.any(|other| line_matches(line, other)),
            false => printed
                .next()
                .is_some_and(|other| line_matches(line, other)),
        };
        if !found {
            return Some(line);
        }
        may_skip = false;
    }
    None
}

/// Returns whether a block that was terminated has ended as documented.
fn is_terminated(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(15) || status.code() == Some(143)
}

#[test]
fn the_commands_of_the_documents_print_what_is_shown() {
    let Some(programs) = programs() else { return };
    let folder = Folder::new(&programs);
    let mut wrong = Vec::new();
    for (name, text) in documents() {
        let mut background: Option<(Block, Running)> = None;
        for block in blocks(&name, &text) {
            if let Some(reason) = block.info.strip_prefix("no-run: ") {
                println!("{}: not run, because it {reason}", block.place);
                continue;
            }
            let begin = Instant::now();
            let running = folder.start(&block);
            if block.info == "background" {
                std::thread::sleep(Duration::from_millis(500));
                background = Some((block, running));
                continue;
            }
            assert_eq!(block.info, "", "{}: unknown info string", block.place);
            let mut ended = vec![(block, running, LIMIT)];
            ended.extend(
                background
                    .take()
                    .map(|(block, running)| (block, running, GRACE)),
            );
            for (block, running, limit) in ended {
                let (status, is_late, stdout, stderr) = running.end(limit);
                println!("{}: {status} after {:.1?}", block.place, begin.elapsed());
                let is_right = match block.info.as_str() {
                    "background" => status.success() || is_late && is_terminated(status),
                    _ => status.success() && !is_late,
                };
                if !is_right {
                    wrong.push(format!("{}: {status}\n{stdout}\n{stderr}", block.place));
                } else if let Some(line) = first_difference(&block.output, &stdout) {
                    wrong.push(format!(
                        "{}: expected `{line}`, but the output is\n{stdout}",
                        block.place
                    ));
                }
            }
        }
        assert!(
            background.is_none(),
            "{name}: no block follows the one in the background"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn each_reason_says_why_a_block_is_not_run() {
    for (name, text) in documents() {
        for block in blocks(&name, &text) {
            if block.info.starts_with("no-run") {
                let reason = block.info.strip_prefix("no-run: ").unwrap_or_default();
                assert!(
                    reason.len() > 8,
                    "{}: add a reason after `no-run: `",
                    block.place
                );
            }
        }
    }
}

#[test]
fn numbers_and_ellipses_match_any_number_and_text() {
    assert!(line_matches("12.5 of 1,000 cars", "7 of 20 cars"));
    assert!(line_matches("hash 0x…", "hash 0xabcdef"));
    assert!(line_matches("a … c  7", "a b b c 8"));
    assert!(!line_matches("12 cars", "12 buses"));
    assert!(!line_matches("a … c", "a b d"));
    let expected = ["one", "…", "nine"].map(str::to_owned);
    assert_eq!(
        first_difference(&expected, "one\ntwo\nthree\nnine\nten\n"),
        None
    );
    assert_eq!(first_difference(&expected, "one\ntwo\n"), Some("nine"));
    assert_eq!(first_difference(&expected, "two\nnine\n"), Some("one"));
}

#[test]
fn blocks_are_split_into_commands_and_output() {
    let text =
        "```console no-run: needs a network\n$ a -b\n$ c\nd 1\n```\n```sh\ne\n```\n```rust\n```\n";
    let lines = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    };
    let block = |line: usize, info: &str, commands: &[&str], output: &[&str]| Block {
        place: format!("x:{line}"),
        info: info.to_owned(),
        commands: lines(commands),
        output: lines(output),
    };
    let first = block(1, "no-run: needs a network", &["a -b", "c"], &["d 1"]);
    assert_eq!(blocks("x", text), [first, block(6, "", &["e"], &[])]);
}
