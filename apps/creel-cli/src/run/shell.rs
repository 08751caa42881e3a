//! Finds the commands of a shell script, as far as we can without running it.
//!
//! We parse simple commands only: words, quotes and the operators between commands. We do not know
//! the values of variables and substitutions, so a word with one of them does not name a program.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

/// Returns the simple commands of a script, each as its words without leading assignments.
pub fn commands(script: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut chars = script.chars().peekable();
    let end = |all: &mut Vec<Vec<String>>, word: &mut Option<String>| {
        if let (Some(word), Some(last)) = (word.take(), all.last_mut()) {
            last.push(word);
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let quoted = word.get_or_insert_default();
                quoted.extend(chars.by_ref().take_while(|&c| c != '\''));
            }
            '"' => {
                let quoted = word.get_or_insert_default();
                while let Some(c) = chars.next().filter(|&c| c != '"') {
                    let plain = if c == '\\' { chars.next() } else { Some(c) };
                    quoted.extend(plain);
                }
            }
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(c) => word.get_or_insert_default().push(c),
            },
            '#' if word.is_none() => while chars.next_if(|&c| c != '\n').is_some() {},
            ';' | '&' | '|' | '\n' | '(' | ')' | '`' => {
                end(&mut all, &mut word);
                all.push(Vec::new());
            }
            c if c.is_whitespace() => end(&mut all, &mut word),
            c => word.get_or_insert_default().push(c),
        }
    }
    end(&mut all, &mut word);
    let mut all: Vec<Vec<String>> = all.into_iter().map(without_assignments).collect();
    all.retain(|words| !words.is_empty());
    all
}

/// The index of the word with the input of a shell.
#[derive(Debug, PartialEq, Eq)]
pub enum ShellInput {
    /// The commands themselves, in `sh -c LINE`.
    Line(usize),
    /// A file with the commands, in `sh FILE`.
    File(usize),
}

/// Finds the input in the command of a shell, or returns `None` if it reads its stdin.
pub fn input(command: &[OsString]) -> Option<ShellInput> {
    let mut words = command.iter().enumerate().skip(1);
    let mut has_line = false;
    loop {
        let (at, word) = words.next()?;
        let at = match word.as_bytes() {
            b"--" | b"-" => words.next()?.0,
            b"--rcfile" | b"--init-file" => {
                words.next();
                continue;
            }
            [b'-', b'-', ..] => continue,
            [sign @ (b'-' | b'+'), letters @ ..] => {
                has_line |= *sign == b'-' && letters.contains(&b'c');
                if letters.contains(&b's') && !has_line {
                    return None;
                }
                // The names of these options are the next words.
                for _ in letters
                    .iter()
                    .filter(|&&letter| matches!(letter, b'o' | b'O'))
                {
                    words.next();
                }
                continue;
            }
            _ => at,
        };
        return Some(match has_line {
            true => ShellInput::Line(at),
            false => ShellInput::File(at),
        });
    }
}

fn without_assignments(words: Vec<String>) -> Vec<String> {
    let before = |word: &String| {
        let keyword = ["then", "do", "else", "!", "{", "if", "while"].contains(&word.as_str());
        let name = word.split('=').next().unwrap_or("");
        let is_name = !name.is_empty()
            && name != word
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        keyword || is_name
    };
    words.into_iter().skip_while(before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_split_into_commands() {
        let script =
            "A=1 exec java -jar 'a b.jar'; cd \"$X\" && nice -n 5 erl # erl\nfoo | bar\\ x";
        let expected: [&[&str]; 5] = [
            &["exec", "java", "-jar", "a b.jar"],
            &["cd", "$X"],
            &["nice", "-n", "5", "erl"],
            &["foo"],
            &["bar x"],
        ];
        assert_eq!(commands(script), expected);
        assert!(commands("  # nothing\n;;").is_empty());
        assert_eq!(commands("exec \"$@\""), [["exec", "$@"]]);
    }

    #[test]
    fn the_script_in_the_arguments_of_a_shell_is_found() {
        let found = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            input(&words)
        };
        for (line, expected) in [
            ("sh -c x", Some(ShellInput::Line(2))),
            ("bash -e -uc x", Some(ShellInput::Line(3))),
            ("bash -o pipefail -c x", Some(ShellInput::Line(4))),
            ("bash -eo pipefail -c x", Some(ShellInput::Line(4))),
            ("bash --norc -O extglob -c x", Some(ShellInput::Line(5))),
            ("bash --rcfile f -c x", Some(ShellInput::Line(4))),
            ("sh -c -e x", Some(ShellInput::Line(3))),
            ("sh -c -- x", Some(ShellInput::Line(3))),
            ("sh +e -c x", Some(ShellInput::Line(3))),
            ("sh file -c", Some(ShellInput::File(1))),
            ("sh -x -- file", Some(ShellInput::File(3))),
            ("bash -s x", None),
            ("bash --login", None),
            ("sh", None),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
    }
}
