//! Wrappers are programs that only start another program, for example `env`, `nice`, `timeout` or
//! the init of a container. We size the program that they start.
//!
//! The options of each wrapper are in [`table`].

mod table;

use super::variables::Variables;
use creel_topology::CpuSet;
use std::{ffi::OsString, path::Path};
use table::{MASKS, WRAPPERS};

/// The result of following a wrapper.
#[derive(Debug, PartialEq, Eq)]
pub struct WrappedCommand {
    /// The index of the wrapped program in the command.
    pub at: usize,
    pub note: Option<String>,
    /// The first words of the program, if one argument of the wrapper contains them all. `at` is
    /// the index of the words after that argument.
    pub line: Option<Vec<OsString>>,
    /// The index of the folder that the wrapper makes the root of the program.
    pub root: Option<usize>,
    /// The CPUs to which the wrapper narrows the mask, if we know them.
    pub cpus: Option<CpuSet>,
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
    let mut at = loop {
        let (at, word) = words.next()?;
        // We take a word that is not UTF-8 for a path, and not for an option.
        let word = word.to_str().unwrap_or("path");
        if word == "--" {
            break at + 1 + operands;
        }
        let option = word.starts_with('-') && word.len() > 1;
        let assignment = name == "sudo" && word.contains('=');
        if option && wrapper.valued.contains(&word) {
            words.next();
        } else if operands > 0 && !option {
            operands -= 1;
        } else if !option && !assignment {
            break at;
        }
    };
    let root = (name == "chroot").then(|| at - 1);
    // `hwloc-bind PLACE -- PROGRAM` has the separator after the operand.
    if command.get(at).is_some_and(|word| word == "--") {
        at += 1;
    }
    if at >= command.len() {
        return None;
    }
    let cpus = cpus(name, &command[1..at]);
    let note = match (&cpus, wrapper.note) {
        (Some(_), MASKS) => "",
        (_, note) => note,
    };
    Some(WrappedCommand {
        cpus,
        root,
        ..found(name, at, note)
    })
}

/// Returns the CPUs in the arguments of a wrapper that sets the mask, if we can read them.
fn cpus(name: &str, arguments: &[OsString]) -> Option<CpuSet> {
    let words: Vec<&str> = arguments
        .iter()
        .map(|word| word.to_str())
        .collect::<Option<_>>()?;
    match name {
        "taskset" => {
            let is_list = |word: &&str| {
                let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                letters.is_some_and(|letters| letters.contains('c')) || *word == "--cpu-list"
            };
            let last = words.iter().rfind(|word| **word != "--")?;
            match words.iter().any(is_list) {
                true => last.parse().ok(),
                false => CpuSet::parse_mask(last).ok(),
            }
        }
        "numactl" => {
            let separate = words.windows(2).find_map(|pair| {
                ["-C", "--physcpubind"]
                    .contains(&pair[0])
                    .then_some(pair[1])
            });
            let joined = || {
                let value = |word: &&str| {
                    let value = word.strip_prefix("--physcpubind=");
                    value.or_else(|| word.strip_prefix("-C")).map(str::to_owned)
                };
                words.iter().find_map(value)
            };
            separate.map(str::to_owned).or_else(joined)?.parse().ok()
        }
        _ => None,
    }
    .filter(|cpus: &CpuSet| !cpus.is_empty())
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
            Some("-chdir" | "-argv0") => drop(next()?),
            Some("-split-string") => {
                let text = next()?;
                return split(&text, words.next().map(|(at, _)| at), command, variables);
            }
            Some(long) if long.starts_with("-split-string=") => {
                let text = long.split_once('=')?.1;
                return split(text, Some(at + 1), command, variables);
            }
            Some(long) if long.starts_with('-') => {
                if let Some(name) = long.strip_prefix("-unset=") {
                    variables.drop(name.into(), "env -u");
                }
            }
            Some(short) => {
                for (i, letter) in short.char_indices() {
                    if letter == 'i' {
                        variables.clear("env -i");
                    } else if ['u', 'C', 'a', 'S'].contains(&letter) {
                        let value = match &short[i + 1..] {
                            "" => next()?,
                            rest => rest.to_owned(),
                        };
                        match letter {
                            'u' => variables.drop(value, "env -u"),
                            'S' => {
                                let rest = words.next().map(|(at, _)| at);
                                return split(&value, rest, command, variables);
                            }
                            _ => {}
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

/// Follows `env -S`, which has the first words of its command in one argument. The other words
/// begin at `rest`.
fn split(
    text: &str,
    rest: Option<usize>,
    command: &[OsString],
    mut variables: Variables,
) -> Option<WrappedCommand> {
    // We do not know the values of variables.
    let words = shlex::split(text).filter(|_| !text.contains('$'))?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    // The words may begin with more options and assignments of env.
    let rest = rest.unwrap_or(command.len());
    let all: Vec<OsString> = std::iter::once("env".into())
        .chain(words)
        .chain(command.get(rest..).unwrap_or_default().iter().cloned())
        .collect();
    let inner = env(&all)?;
    variables.then(inner.variables);
    let line = inner.line.unwrap_or_else(|| all[inner.at..].to_vec());
    Some(WrappedCommand {
        line: Some(line),
        variables,
        ..found("env", command.len(), "")
    })
}

fn found(name: &str, at: usize, note: &str) -> WrappedCommand {
    WrappedCommand {
        at,
        line: None,
        root: None,
        cpus: None,
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
        assert_eq!(at("env -a name java"), Some(3));
        assert_eq!(at("env --argv0 name java"), Some(3));
        assert_eq!(at("chroot --userspec 1:1 /root java"), Some(4));
        assert_eq!(at("numactl --physcpubind 0 java"), Some(3));
        assert_eq!(at("hwloc-bind core:0 -- java"), Some(3));
        assert_eq!(at("systemd-run --scope -p CPUQuota=50% java"), Some(4));
        assert_eq!(at("nsenter -t 1 -m -- java"), Some(5));
        assert_eq!(at("softlimit -m 1000 setuidgid www java"), Some(3));
        assert_eq!(at("java -jar x"), None);
    }

    #[test]
    fn the_words_of_env_s_are_split() {
        let followed = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let line = unwrap_one(&words)?.line?;
            Some(line.join(" ".as_ref()).into_string().unwrap())
        };
        for words in [
            &["env", "-S", "java -jar 'x'"][..],
            &["env", "-vS", "A=1 java -jar", "x"],
            &["env", "--split-string=-i A=1 java", "-jar", "x"],
            &["env", "-Sjava", "-jar", "x"],
            &["env", "-S", "-S 'java -jar'", "x"],
        ] {
            assert_eq!(followed(words).as_deref(), Some("java -jar x"), "{words:?}");
        }
        assert_eq!(followed(&["env", "-S", "${JAVA} x"]), None);
        assert_eq!(followed(&["env", "-S", ""]), None);
    }

    #[test]
    fn cpu_lists_of_taskset_and_numactl_are_parsed() {
        let cpus = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Some(unwrap_one(&words)?.cpus?.to_string())
        };
        for (line, expected) in [
            ("taskset -c 0-1,4 x", Some("0-1,4")),
            ("taskset --cpu-list 2 x", Some("2")),
            ("taskset -ac 2 -- x", Some("2")),
            ("taskset 0x6 x", Some("1-2")),
            ("taskset 3 x", Some("0-1")),
            ("taskset -c all x", None),
            ("numactl -C 1 x", Some("1")),
            ("numactl -C1 x", Some("1")),
            ("numactl --physcpubind=1,3 x", Some("1,3")),
            ("numactl -C +0 x", None),
            ("numactl -N 0 x", None),
            ("nice -n 5 x", None),
        ] {
            assert_eq!(cpus(line).as_deref(), expected, "{line}");
        }
        let words = ["numactl", "-N", "0", "x"].map(OsString::from);
        assert!(unwrap_one(&words).unwrap().note.unwrap().contains("mask"));
    }

    #[test]
    fn wrappers_that_drop_variables_are_noted() {
        let words = ["sudo", "-E", "java"].map(OsString::from);
        assert!(unwrap_one(&words).unwrap().note.unwrap().contains("drops"));
    }
}
