//! Wrappers are programs that only start another program, for example `env`, `nice`, `timeout` or
//! the init of a container. We size the program that they start.
//!
//! Each row lists the options with a value in the next word, and the number of words before the
//! program. Source: the manual pages of coreutils, findutils, util-linux, strace, sudo, doas, tini,
//! dumb-init, numactl, libcgroup, s6, runit and fakeroot.

use super::variables::Variables;
use std::{ffi::OsString, path::Path};

struct Wrapper {
    name: &'static str,
    /// The options whose value is the next word.
    valued: &'static [&'static str],
    /// The number of words of the wrapper before the program, without options.
    operands: usize,
    /// An effect of the wrapper that we cannot see, for a note.
    note: &'static str,
}

const MASKS: &str = "narrows the mask after creel has counted the CPUs: put it before `creel run`";

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

const GROUP: &str =
    "changes the control group after creel has read its limits: put it before `creel run`";
const ENVIRONMENT: &str =
    "drops most variables, including those that creel sets: put it before `creel run`";

const ROOT: &str = "starts the program in another root folder, where creel cannot look at it";

const WRAPPERS: [Wrapper; 40] = [
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
    // Their next word is the name of an applet, which is often a wrapper or a shell itself.
    row("busybox", &[], 0, ""),
    row("toybox", &[], 0, ""),
    row(
        "setpriv",
        &[
            "--ambient-caps",
            "--inh-caps",
            "--bounding-set",
            "--ruid",
            "--euid",
            "--rgid",
            "--egid",
            "--reuid",
            "--regid",
            "--groups",
            "--securebits",
            "--pdeathsig",
            "--ptracer",
            "--selinux-label",
            "--apparmor-profile",
            "--landlock-access",
            "--landlock-rule",
            "--seccomp-filter",
        ],
        0,
        "",
    ),
    row(
        "unshare",
        &[
            "-w",
            "--wd",
            "-S",
            "--setuid",
            "-G",
            "--setgid",
            "--propagation",
            "--setgroups",
        ],
        0,
        "",
    ),
    row("chroot", &[], 1, ROOT),
    row("runuser", &["-u", "-g", "--group", "-G", "-s", "-w"], 0, ""),
    row("choom", &["-n", "--adjust", "-p", "--pid"], 0, ""),
    row("uclampset", &["-m", "-M", "-p", "--pid"], 0, ""),
    row("linux32", &[], 0, ""),
    row("linux64", &[], 0, ""),
    row("i386", &[], 0, ""),
    row("x86_64", &[], 0, ""),
    row("cgexec", &["-g"], 0, GROUP),
    row(
        "flock",
        &["-w", "--timeout", "--wait", "-E", "--conflict-exit-code"],
        1,
        "",
    ),
    row("fakeroot", &["-l", "-f", "-i", "-s", "-b"], 0, ""),
    row(
        "dbus-run-session",
        &["--config-file", "--dbus-daemon"],
        0,
        "",
    ),
    row("s6-setuidgid", &[], 1, ""),
    row(
        "chpst",
        &[
            "-u", "-U", "-b", "-e", "-/", "-n", "-l", "-L", "-m", "-d", "-o", "-p", "-f", "-c",
            "-t",
        ],
        0,
        "",
    ),
];

/// The result of following a wrapper.
#[derive(Debug, PartialEq, Eq)]
pub struct WrappedCommand {
    /// The index of the wrapped program in the command.
    pub at: usize,
    pub note: Option<String>,
    /// The changes that the wrapper makes to the variables.
    pub variables: Variables,
}

/// Follows one wrapper. Returns `None` if the command is not a wrapper, or starts nothing.
pub fn unwrap_one(command: &[OsString]) -> Option<WrappedCommand> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    if name == "env" {
        return env(command);
    }
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == name)?;
    let mut operands = wrapper.operands;
    let mut words = command.iter().enumerate().skip(1);
    while let Some((at, word)) = words.next() {
        let word = word.to_str()?;
        if word == "--" {
            let at = at + 1 + operands;
            return (at < command.len()).then(|| found(name, at, wrapper.note));
        }
        let option = word.starts_with('-') && word.len() > 1;
        let assignment = name == "sudo" && word.contains('=');
        if option && wrapper.valued.contains(&word) {
            words.next();
        } else if operands > 0 && !option {
            operands -= 1;
        } else if !option && !assignment {
            return Some(found(name, at, wrapper.note));
        }
    }
    None
}

/// Follows `env`, whose options and assignments change the variables.
fn env(command: &[OsString]) -> Option<WrappedCommand> {
    let mut variables = Variables::default();
    let mut words = command.iter().enumerate().skip(1);
    let mut options = true;
    while let Some((at, word)) = words.next() {
        let mut next = || Some(words.next()?.1.to_str()?.to_owned());
        let text = word.to_string_lossy();
        match text.strip_prefix('-').filter(|_| options) {
            Some("-") => options = false,
            Some("" | "-ignore-environment") => variables.clear("env -i"),
            Some("-unset") => variables.drop(next()?, "env -u"),
            Some("-chdir") => drop(next()?),
            Some(long) if long.starts_with("-split-string") => return None,
            Some(long) if long.starts_with('-') => {
                if let Some(name) = long.strip_prefix("-unset=") {
                    variables.drop(name.into(), "env -u");
                }
            }
            Some(short) => {
                for (i, letter) in short.char_indices() {
                    if letter == 'i' {
                        variables.clear("env -i");
                    } else if ['u', 'C', 'S'].contains(&letter) {
                        let value = match &short[i + 1..] {
                            "" => next()?,
                            rest => rest.to_owned(),
                        };
                        match letter {
                            'u' => variables.drop(value, "env -u"),
                            'C' => {}
                            // All words are in one argument, and may contain variables.
                            _ => return None,
                        }
                        break;
                    }
                }
            }
            None => match text.split_once('=') {
                Some((name, value)) => variables.set(name.into(), value.into()),
                None => {
                    return Some(WrappedCommand {
                        variables,
                        ..found("env", at, "")
                    });
                }
            },
        }
    }
    None
}

fn found(name: &str, at: usize, note: &str) -> WrappedCommand {
    WrappedCommand {
        at,
        note: (!note.is_empty()).then(|| format!("{name} {note}")),
        variables: Variables::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Option<usize> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        unwrap_one(&words).map(|t| t.at)
    }

    #[test]
    fn wrapped_programs_are_found() {
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
        assert_eq!(
            at("setpriv --reuid 65534 --clear-groups --inh-caps=-all java"),
            Some(5)
        );
        assert_eq!(at("setpriv --no-new-privs -- java"), Some(3));
        assert_eq!(at("busybox timeout 10 java"), Some(1));
        assert_eq!(at("flock -w 3 /tmp/lock java"), Some(4));
        assert_eq!(at("chpst -u www -n 5 java"), Some(5));
        assert_eq!(at("unshare -r -m --propagation private java"), Some(5));
        assert_eq!(at("timeout 10"), None);
        assert_eq!(at("env"), None);
        assert_eq!(at("env -iuX -C / -- A=1 java -i"), Some(6));
        assert_eq!(at("env -vS java"), None);
        assert_eq!(at("java -jar x"), None);
    }

    #[test]
    fn wrappers_that_drop_variables_are_noted() {
        let words = ["sudo", "-E", "java"].map(OsString::from);
        assert!(unwrap_one(&words).unwrap().note.unwrap().contains("drops"));
    }
}
