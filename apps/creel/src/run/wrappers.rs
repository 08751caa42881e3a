//! Programs that only start another: `env`, `nice`, `timeout`, a container's init. What they
//! start is what is sized.
//!
//! Each row says which options take a word of their own and how many words stand before the
//! program. Source: the manual pages of coreutils, findutils, util-linux, strace, sudo, doas, tini,
//! dumb-init and numactl.

use std::{ffi::OsString, path::Path};

struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Words of its own before the program.
    operands: usize,
    /// What of it we do not see.
    note: &'static str,
}

const MASKS: &str = "narrows the mask after the counting: put it before `creel run`";

const fn row(
    name: &'static str,
    valued: &'static [&'static str],
    operands: usize,
    note: &'static str,
) -> Wrapper {
    Wrapper {
        name,
        valued,
        operands,
        note,
    }
}

const ENVIRONMENT: &str =
    "drops most variables, also those that are set here: put it before `creel run`";

const WRAPPERS: [Wrapper; 23] = [
    row("env", &["-u", "--unset", "-C", "--chdir"], 0, ""),
    row("nice", &["-n", "--adjustment"], 0, ""),
    row("timeout", &["-k", "--kill-after", "-s", "--signal"], 1, ""),
    row("nohup", &[], 0, ""),
    row("setsid", &[], 0, ""),
    row(
        "stdbuf",
        &["-i", "--input", "-o", "--output", "-e", "--error"],
        0,
        "",
    ),
    row("ionice", &["-c", "--class", "-n", "--classdata"], 0, ""),
    row(
        "chrt",
        &[
            "-T",
            "--sched-runtime",
            "-P",
            "--sched-period",
            "-D",
            "--sched-deadline",
        ],
        1,
        "",
    ),
    row("taskset", &[], 1, MASKS),
    row("numactl", &["-i", "-N", "-m", "-C", "-p"], 0, MASKS),
    row("time", &["-f", "--format", "-o", "--output"], 0, ""),
    row("setarch", &[], 1, ""),
    row("prlimit", &["-p", "--pid", "-o", "--output"], 0, ""),
    row(
        "strace",
        &[
            "-a", "-b", "-e", "-E", "-I", "-o", "-O", "-P", "-s", "-S", "-u", "-U", "-X",
        ],
        0,
        "",
    ),
    row(
        "xargs",
        &["-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"],
        0,
        "",
    ),
    row(
        "sudo",
        &[
            "-C", "-D", "-g", "-h", "-p", "-R", "-r", "-T", "-t", "-u", "-U",
        ],
        0,
        ENVIRONMENT,
    ),
    row("doas", &["-C", "-u"], 0, ENVIRONMENT),
    row("tini", &["-p", "-e"], 0, ""),
    row("tini-static", &["-p", "-e"], 0, ""),
    row("dumb-init", &["-r", "--rewrite"], 0, ""),
    row("catatonit", &[], 0, ""),
    row("gosu", &[], 1, ""),
    row("su-exec", &[], 1, ""),
];

/// A wrapper seen through.
#[derive(Debug, PartialEq, Eq)]
pub struct Through {
    /// Where in the command the wrapped program stands.
    pub at: usize,
    pub note: Option<String>,
}

/// Looks through one wrapper; `None` where the command is none, or starts nothing.
pub fn through(command: &[OsString]) -> Option<Through> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == name)?;
    let mut operands = wrapper.operands;
    let mut note = wrapper.note;
    let mut words = command.iter().enumerate().skip(1);
    while let Some((at, word)) = words.next() {
        let word = word.to_str()?;
        if word == "--" {
            let at = at + 1 + operands;
            return (at < command.len()).then(|| found(name, at, note));
        }
        let option = word.starts_with('-') && word.len() > 1;
        let assignment = ["env", "sudo"].contains(&name) && word.contains('=');
        if name == "env" && ["-i", "-", "--ignore-environment"].contains(&word) {
            note = "drops all variables, also those that are set here: put it before `creel run`";
        } else if name == "env" && (word.starts_with("-S") || word.starts_with("--split")) {
            return None;
        } else if option && wrapper.valued.contains(&word) {
            words.next();
        } else if operands > 0 && !option {
            operands -= 1;
        } else if !option && !assignment {
            return Some(found(name, at, note));
        }
    }
    None
}

fn found(name: &str, at: usize, note: &str) -> Through {
    Through {
        at,
        note: (!note.is_empty()).then(|| format!("{name} {note}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Option<usize> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        through(&words).map(|t| t.at)
    }

    #[test]
    fn what_wrappers_start_is_found() {
        assert_eq!(at("env -u X A=1 B=2 java -jar x"), Some(5));
        assert_eq!(at("/usr/bin/nice -n 5 erl"), Some(3));
        assert_eq!(at("nice -10 erl"), Some(2));
        assert_eq!(at("timeout -k 3 -s KILL 10 java"), Some(6));
        assert_eq!(at("timeout --foreground 10 java"), Some(3));
        assert_eq!(at("taskset -c 0-3 java"), Some(3));
        assert_eq!(at("tini -- java"), Some(2));
        assert_eq!(at("gosu user java"), Some(2));
        assert_eq!(at("sudo -u www A=1 java"), Some(4));
        assert_eq!(at("strace -f -o x java"), Some(4));
        assert_eq!(at("xargs -P 4 -I {} java {}"), Some(5));
        assert_eq!(at("timeout 10"), None);
        assert_eq!(at("env"), None);
        assert_eq!(at("java -jar x"), None);
    }

    #[test]
    fn a_wrapper_that_undoes_the_sizing_is_said() {
        for words in [["env", "-i", "java"], ["sudo", "-E", "java"]] {
            let note = through(&words.map(OsString::from)).unwrap().note;
            assert!(note.unwrap().contains("drops"), "{words:?}");
        }
    }
}
