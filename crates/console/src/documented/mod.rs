//! Checks that the documents match a program.
//!
//! Each program calls [`check`] in a unit test. The check reads the command lines in the README,
//! the guide, the documents and the program's own examples, and parses them with the program's own
//! parser. Therefore a documented flag exists, and a documented value is accepted. The check also
//! compares all `--help` texts with the file `help.txt` of the program.
//!
//! Commands that can run quickly are also run, by the tests of `docs/guide`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::Command;
use clap::error::ErrorKind;

use crate::args::with_manuals;

#[cfg(feature = "schema")]
mod schema;

#[cfg(feature = "schema")]
pub use schema::{check_columns, check_schema};

/// The documents of one program.
#[derive(Clone, Copy, Debug)]
pub struct Documents<'a> {
    /// The folder of the program's crate. The root of the workspace is two folders up.
    pub manifest: &'a str,
    /// The documents that are about this program only, relative to the root. Each flag in them must
    /// be a flag of this program.
    pub own: &'a [&'a str],
    /// Flags of other programs that the documents in `own` mention.
    pub foreign: &'a [&'a str],
}

/// Checks all documents against the command line of a program.
///
/// # Panics
///
/// Panics with a list of all differences. To accept the present `--help` texts, run the test with
/// the environment variable `CREEL_BLESS=1`.
pub fn check(command: Command, documents: Documents<'_>) {
    let mut command = with_manuals(command);
    command.build();
    let root = Path::new(documents.manifest).join("../..");
    let mut wrong = Vec::new();
    for path in markdown(&root) {
        let text = fs::read_to_string(&path).expect("a document can be read");
        let name = path.strip_prefix(&root).unwrap_or(&path).display();
        for (number, line) in command_lines(&text) {
            check_line(&command, &line, &mut |error| {
                wrong.push(format!("{name}:{number}: `{line}`: {error}"));
            });
        }
    }
    for sub in commands(&command) {
        for help in [sub.get_after_help(), sub.get_after_long_help()] {
            for line in help.map(ToString::to_string).iter().flat_map(|s| s.lines()) {
                check_line(&command, line, &mut |error| {
                    wrong.push(format!("the help of {}: `{line}`: {error}", sub.get_name()));
                });
            }
        }
    }
    check_listed_values(&command, &mut Vec::new(), &mut wrong);
    let flags = flags(&command);
    for name in documents.own {
        let text = fs::read_to_string(root.join(name)).expect("a document of the program exists");
        for (number, flag) in mentioned_flags(&text) {
            if !flags.contains(&flag) && !documents.foreign.contains(&flag.as_str()) {
                wrong.push(format!("{name}:{number}: there is no flag {flag}"));
            }
        }
    }
    check_help(
        &command,
        &Path::new(documents.manifest).join("help.txt"),
        &mut wrong,
    );
    assert!(
        wrong.is_empty(),
        "the documents and {} differ:\n{}",
        command.get_name(),
        wrong.join("\n")
    );
}

/// Checks that a command and its subcommands accept each value that the help of a flag lists.
/// `words` has the names of the parents.
fn check_listed_values(command: &Command, words: &mut Vec<String>, wrong: &mut Vec<String>) {
    words.push(command.get_name().to_owned());
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        for value in listed_values(&help) {
            let parsed = command
                .clone()
                .try_get_matches_from([command.get_name().to_owned(), format!("--{long}={value}")]);
            let kind = parsed.err().map(|error| error.kind());
            if let Some(ErrorKind::InvalidValue | ErrorKind::ValueValidation) = kind {
                let words = words.join(" ");
                wrong.push(format!(
                    "{words} --{long} does not accept {value}, which its help lists"
                ));
            }
        }
    }
    for sub in command.get_subcommands() {
        check_listed_values(sub, words, wrong);
    }
    words.pop();
}

/// Returns the values that a help text lists after a colon, for example `a`, `b` and `c` in `Use
/// this: a, b, or c (slow)`. The result is empty if the text after the colon is not a list.
fn listed_values(help: &str) -> Vec<&str> {
    let Some((_, list)) = help.rsplit_once(": ") else {
        return Vec::new();
    };
    let list = list.split([';', '.', '[']).next().unwrap_or_default();
    let values = list.split(", ").flat_map(|part| part.split(" or "));
    let values = values.map(|value| value.trim().trim_start_matches("or "));
    let values = values.map(|value| value.split(" (").next().unwrap_or_default());
    let values: Vec<&str> = values.collect();
    let is_word = |value: &&str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !value.is_empty() && value.chars().all(is_part)
    };
    match values.len() > 1 && values.iter().all(is_word) {
        true => values,
        false => Vec::new(),
    }
}

/// Returns the Markdown files that users read, such as the README, the guide and the documents.
fn markdown(root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![
        root.to_owned(),
        root.join("docs"),
        root.join("docs/guide/src"),
    ];
    folders.push(root.join("docs/design"));
    for parent in ["apps", "crates"] {
        let entries = fs::read_dir(root.join(parent))
            .into_iter()
            .flatten()
            .flatten();
        folders.extend(entries.map(|entry| entry.path()));
    }
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let files = files.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    files.sort();
    files
}

/// Returns the lines of the shell blocks and the code spans of a Markdown text, with their numbers.
/// A line that ends in a backslash continues on the next one.
fn command_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut block = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            block = match block {
                Some(_) => None,
                None => Some(["console", "sh", "text", ""].contains(&language(info))),
            };
        } else if block == Some(true) || block.is_none() && line.starts_with("    ") {
            lines.push((number, line.to_owned()));
        } else if block.is_none() {
            let spans = line.split('`').skip(1).step_by(2);
            lines.extend(spans.map(|span| (number, span.to_owned())));
        }
    }
    let mut joined: Vec<(usize, String)> = Vec::new();
    for (number, line) in lines {
        match joined
            .last_mut()
            .and_then(|(_, last)| Some((last.strip_suffix('\\')?.to_owned(), last)))
        {
            Some((start, last)) => *last = start + line.trim(),
            None => joined.push((number, line)),
        }
    }
    joined
}

/// Returns the language of a block, which is the first word of its info string.
fn language(info: &str) -> &str {
    info.split([' ', ',']).next().unwrap_or_default()
}

/// Parses all calls of the program in a line of shell.
fn check_line(command: &Command, line: &str, wrong: &mut dyn FnMut(String)) {
    for words in calls(command.get_name(), line) {
        // The documents also write names of subjects as code, for example
        // `creel [sticky, adaptive]`. We must not parse these as commands.
        let is_argument =
            |word: &String| word.starts_with(|c: char| c == '-' || c.is_ascii_lowercase());
        if words.get(1).is_some_and(|word| !is_argument(word)) {
            continue;
        }
        let names = value_names(command);
        let is_template = words[1..].iter().any(|word| is_placeholder(word, &names));
        if is_template {
            let sub = words[1..]
                .iter()
                .try_fold(command, |at, word| at.find_subcommand(word).ok_or(at));
            let (Ok(sub) | Err(sub)) = sub;
            let known = own_flags(command)
                .chain(own_flags(sub))
                .collect::<BTreeSet<_>>();
            let own = words.iter().take_while(|word| *word != "--");
            for flag in own.filter_map(|word| flag_of(word)) {
                if !known.contains(flag) && !["--help", "--version"].contains(&flag) {
                    wrong(format!("there is no flag {flag}"));
                }
            }
            continue;
        }
        // A code span in a text may leave out arguments that the command requires, so we do not
        // report missing arguments.
        let complete = |kind| {
            !matches!(
                kind,
                ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand
            )
        };
        if let Err(error) = command.clone().try_get_matches_from(&words)
            && error.use_stderr()
            && complete(error.kind())
            && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        {
            let text = error.to_string();
            wrong(text.lines().next().unwrap_or_default().to_owned());
        }
    }
}

/// Returns whether a word stands for another one, for example `FILE` or `--jobs=N`. The names of
/// the values in the help are such words.
fn is_placeholder(word: &str, names: &BTreeSet<String>) -> bool {
    let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    word.contains(['…', '{']) || parts.any(|part| names.contains(part))
}

/// Returns the names of all values of a command and its subcommands, for example `FILE`.
fn value_names(command: &Command) -> BTreeSet<String> {
    let arguments = commands(command)
        .into_iter()
        .flat_map(Command::get_arguments);
    let names = arguments.flat_map(|arg| arg.get_value_names().unwrap_or_default());
    let words = names.flat_map(|name| name.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
    let words = words.filter(|word| word.chars().any(|c| c.is_ascii_uppercase()));
    words.map(str::to_owned).collect()
}

/// Returns the words of each call of a program in a line of shell. The first word is its name.
fn calls(program: &str, line: &str) -> Vec<Vec<String>> {
    let line = line.trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let mut calls = Vec::new();
    for mut words in simple_commands(line) {
        // In an example with `cargo run`, the arguments of the program come after `--`.
        if words.first().is_some_and(|word| word == "cargo") {
            let package = words.iter().position(|word| word == "-p");
            let package = package.and_then(|at| words.get(at + 1)).cloned();
            let is_run = words.get(1).is_some_and(|word| word == "run");
            let rest = words
                .iter()
                .position(|word| word == "--")
                .map(|at| words.split_off(at + 1));
            words = match package {
                Some(package) if is_run && !words.contains(&"--example".to_owned()) => {
                    let name = if package == "creel-cli" {
                        "creel".to_owned()
                    } else {
                        package
                    };
                    [vec![name], rest.unwrap_or_default()].concat()
                }
                _ => continue,
            };
        }
        let is_variable = |word: &String| {
            word.split('=').next().is_some_and(|name| {
                word.contains('=')
                    && !name.is_empty()
                    && name.chars().all(|c| c == '_' || c.is_ascii_uppercase())
            })
        };
        let skip = words
            .iter()
            .take_while(|word| is_variable(word) || *word == "time")
            .count();
        words.drain(..skip);
        // If a command of `creel` runs another program, that program and its arguments come after
        // `--`.
        let wrapped = words
            .iter()
            .position(|word| word == "--")
            .map(|at| words[at + 1..].to_vec());
        for mut words in [Some(words), wrapped].into_iter().flatten() {
            if let Some(first) = words.first_mut()
                && first.rsplit('/').next() == Some(program)
            {
                *first = program.to_owned();
                calls.push(words);
            }
        }
    }
    calls
}

/// Splits a line of shell into its commands, and these into words. Two spaces end the line, because
/// an explanation follows them.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut redirect = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let mut end = |word: &mut Option<String>, commands: &mut Vec<Vec<String>>| {
            if let Some(word) = word.take()
                && !std::mem::take(&mut redirect)
                && let Some(command) = commands.last_mut()
            {
                command.push(word);
            }
        };
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '#') if word.is_none() => break,
            (None, ' ') => {
                end(&mut word, &mut commands);
                if chars.peek() == Some(&' ') {
                    break;
                }
            }
            (None, '|' | ';' | '&') => {
                end(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            (None, '>' | '<') => {
                end(&mut word, &mut commands);
                redirect = true;
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    if let (Some(word), false, Some(command)) = (word, redirect, commands.last_mut()) {
        command.push(word);
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// Returns a command and all its subcommands.
fn commands(command: &Command) -> Vec<&Command> {
    let subs = command.get_subcommands().flat_map(commands);
    std::iter::once(command).chain(subs).collect()
}

/// Returns the long flags of a command.
fn own_flags(command: &Command) -> impl Iterator<Item = String> {
    let names = command.get_arguments().flat_map(|arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(aliases)
    });
    names.map(|name| format!("--{name}"))
}

/// Returns the long flags of a command and its subcommands.
fn flags(command: &Command) -> BTreeSet<String> {
    let mut flags: BTreeSet<String> = commands(command).into_iter().flat_map(own_flags).collect();
    flags.extend(["--help".to_owned(), "--version".to_owned()]);
    flags
}

/// Returns the long flag at the beginning of a word, for example `--jobs` of `--jobs=2`.
fn flag_of(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--")?;
    let end = name.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-');
    let flag = &word[..2 + end.unwrap_or(name.len())];
    (flag.len() > 2).then_some(flag)
}

/// Returns the flags in the code spans that begin with a flag, with the numbers of their lines.
fn mentioned_flags(text: &str) -> Vec<(usize, String)> {
    let mut flags = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let spans = line.split('`').skip(1).step_by(2);
            let spans = spans.filter(|span| span.starts_with('-'));
            let words = spans.flat_map(|span| span.split(' '));
            flags.extend(
                words
                    .filter_map(flag_of)
                    .map(|flag| (number, flag.to_owned())),
            );
        }
    }
    flags
}

/// Compares the `--help` texts with a file, or writes them if `CREEL_BLESS` is set.
fn check_help(command: &Command, path: &Path, wrong: &mut Vec<String>) {
    let mut text = String::new();
    add_help(&mut command.clone().term_width(100), "", &mut text);
    if env::var_os("CREEL_BLESS").is_some() {
        fs::write(path, &text).expect("the help can be written");
    }
    let before = fs::read_to_string(path).unwrap_or_default();
    if before != text {
        let pair = before
            .lines()
            .zip(text.lines())
            .find(|(old, new)| old != new);
        let (old, new) = pair.unwrap_or(("", "more or fewer lines"));
        wrong.push(format!(
            "{}: the help has changed, first from `{old}` to `{new}`. If this is intended, run the \
             test with CREEL_BLESS=1",
            path.display()
        ));
    }
}

/// Adds the help of a command and of its subcommands to `text`.
fn add_help(command: &mut Command, parents: &str, text: &mut String) {
    let name = format!("{parents}{}", command.get_name());
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    *text += &format!("$ {name} --help\n{}\n\n", help.join("\n"));
    for sub in command.get_subcommands_mut() {
        if !sub.is_hide_set() && sub.get_name() != "help" {
            add_help(sub, &format!("{name} "), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn program() -> Command {
        let codec = Arg::new("codec").long("codec").value_name("NAME[=NUMBER]");
        let codec = codec.value_parser(["PCMA", "PCMU"]);
        let send = Command::new("send").arg(codec);
        Command::new("creel-x").subcommand(send.about("Send"))
    }

    fn errors(line: &str) -> Vec<String> {
        let mut errors = Vec::new();
        check_line(&program(), line, &mut |error| errors.push(error));
        errors
    }

    #[test]
    fn documented_lines_are_parsed() {
        for line in [
            "$ creel-x send --codec PCMA &",
            "cat a | target/release/creel-x send --codec=PCMU > 'a file' # a comment",
            "cargo run --release -p creel-x -- send   send something",
            "creel run -- creel-x send",
            "creel-x send --codec NAME",
            "cargo build -p creel-x --anything; other --flag",
        ] {
            assert_eq!(errors(line), [""; 0], "{line}");
        }
        for line in [
            "creel-x send --codex PCMA",
            "creel-x send --codec G.711",
            "creel-x unknown",
            "creel-x send --codex NAME=1",
            "TZ=UTC cat a | ./creel-x send --codec a > b",
            "cargo run -p creel-x -- send --codec a",
        ] {
            assert_eq!(errors(line).len(), 1, "{line}");
        }
    }

    #[test]
    fn values_that_a_help_text_lists_are_found() {
        for (help, values) in [
            (
                "Wait this way: park, spin, or never (costs power)",
                &["park", "spin", "never"][..],
            ),
            ("Pass: a or b", &["a", "b"]),
            ("Use TIME: a number", &[]),
            ("Use sets: 0-3, {4-7}", &[]),
            ("Nothing", &[]),
        ] {
            assert_eq!(listed_values(help), values, "{help}");
        }
        let mut wrong = Vec::new();
        let arg = Arg::new("mode").long("mode").help("Use: a, b");
        let program = Command::new("x").arg(arg.value_parser(["a"]));
        check_listed_values(&program, &mut Vec::new(), &mut wrong);
        assert_eq!(wrong, ["x --mode does not accept b, which its help lists"]);
    }

    #[test]
    fn console_blocks_and_flags_in_code_spans_are_found() {
        let text =
            "Use `a --b` or `--c D`.\n```rust\nfn x() {}\n```\n```console no-run: slow\n$ e\n```\n";
        let lines = [(1, "a --b"), (1, "--c D"), (6, "$ e")].map(|(n, line)| (n, line.to_owned()));
        assert_eq!(command_lines(text), lines);
        assert_eq!(mentioned_flags(text), [(1, "--c".to_owned())]);
    }
}
