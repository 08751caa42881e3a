//! One knob of a runtime, and whether the user has turned it already.
//!
//! Invariant: what the user has set stays. A variable of the user's is kept; an option among
//! others in a variable joins the user's own options, unless one of them turns the same knob; an
//! argument is left out where the user's arguments or variables turn the same knob.

use serde::Serialize;
use std::ffi::{OsStr, OsString};

/// How a knob is turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KnobKind {
    /// By a variable of its own.
    Variable,
    /// By an option in a variable that holds several, before the user's or after them.
    Option {
        separator: &'static str,
        before: bool,
    },
    /// By arguments before the program's own.
    Argument,
}

/// A knob with the value that it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    pub kind: KnobKind,
    /// The variable; for arguments, only what `other_variables` begins with.
    pub name: &'static str,
    /// The value; of arguments, separated by blanks.
    pub value: String,
    /// Variables that the runtime obeys where `name` is not set.
    pub outranked: &'static [&'static str],
    /// What a word begins with by which the user turns the same knob.
    pub marks: &'static [&'static str],
    /// Variables beside `name` in which such a word may stand.
    pub other_variables: &'static [&'static str],
    /// The words between which arguments count, where the runtime's own have such.
    pub between: Option<(&'static str, &'static str)>,
}

impl Knob {
    /// A variable that holds nothing else.
    pub fn variable(name: &'static str, value: impl ToString) -> Self {
        Self {
            kind: KnobKind::Variable,
            name,
            value: value.to_string(),
            outranked: &[],
            marks: &[],
            other_variables: &[],
            between: None,
        }
    }

    /// An option among others in a variable.
    pub fn option(name: &'static str, value: String, marks: &'static [&'static str]) -> Self {
        Self {
            kind: KnobKind::Option {
                separator: " ",
                before: false,
            },
            marks,
            value,
            ..Self::variable(name, "")
        }
    }

    /// Arguments before the program's own.
    pub fn argument(value: String, marks: &'static [&'static str]) -> Self {
        Self {
            kind: KnobKind::Argument,
            ..Self::option("", value, marks)
        }
    }

    /// Also stands back for marks in these variables.
    pub fn or_in(mut self, other_variables: &'static [&'static str]) -> Self {
        self.other_variables = other_variables;
        self
    }

    /// Also stands back where one of these variables is set, which it would outrank.
    pub fn yielding_to(mut self, outranked: &'static [&'static str]) -> Self {
        self.outranked = outranked;
        self
    }

    /// Also stands back for arguments with these marks.
    pub fn or_marks(mut self, marks: &'static [&'static str]) -> Self {
        self.marks = marks;
        self
    }

    /// Where the user has turned it: `NAME=value`, or an argument.
    pub fn kept_by_user(
        &self,
        args: &[OsString],
        env: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<String> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let shown = |name: &str, value: &OsStr| format!("{name}={}", value.display());
        if self.kind == KnobKind::Variable {
            let names = [self.name]
                .into_iter()
                .chain(self.outranked.iter().copied());
            let mut found = names.filter_map(|name| Some(shown(name, &set(name)?)));
            if let Some(kept_by_user) = found.next() {
                return Some(kept_by_user);
            }
        }
        let own = [self.name].into_iter().filter(|name| !name.is_empty());
        for name in own.chain(self.other_variables.iter().copied()) {
            if let Some(value) = set(name)
                && words(&value).any(|word| self.is_marked(&word))
            {
                return Some(shown(name, &value));
            }
        }
        self.argument_among(args)
    }

    fn argument_among(&self, args: &[OsString]) -> Option<String> {
        let mut inside = self.between.is_none();
        for arg in args {
            let word = arg.to_string_lossy();
            if let Some((begin, end)) = self.between
                && (word == begin || word == end)
            {
                inside = word == begin;
            } else if inside && self.is_marked(&word) {
                return Some(format!("the argument {word}"));
            }
        }
        None
    }

    fn is_marked(&self, word: &str) -> bool {
        self.marks.iter().any(|mark| word.starts_with(mark))
    }

    /// What the variable is to hold, the user's own options included; `None` for arguments.
    pub fn variable_value(&self, env: &dyn Fn(&str) -> Option<OsString>) -> Option<OsString> {
        match self.kind {
            KnobKind::Argument => None,
            KnobKind::Variable => Some(self.value.clone().into()),
            KnobKind::Option { separator, before } => {
                let own: OsString = self.value.clone().into();
                Some(match env(self.name).filter(|theirs| !theirs.is_empty()) {
                    None => own,
                    Some(theirs) if before => joined(own, separator, theirs),
                    Some(theirs) => joined(theirs, separator, own),
                })
            }
        }
    }

    /// The arguments; none for variables.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        let value = match self.kind {
            KnobKind::Argument => self.value.as_str(),
            _ => "",
        };
        value.split_ascii_whitespace()
    }
}

fn joined(mut first: OsString, separator: &str, second: OsString) -> OsString {
    first.push(separator);
    first.push(second);
    first
}

/// The words of a variable: runtimes separate options by blanks, commas or colons.
fn words(value: &OsStr) -> impl Iterator<Item = String> {
    let text = value.to_string_lossy().into_owned();
    let words: Vec<String> = text
        .split([' ', '\t', ',', ':'])
        .map(String::from)
        .collect();
    // Paths hold colons too: the whole counts as a word as well.
    words.into_iter().chain([text])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_by_user(knob: &Knob, args: &[&str], env: &[(&str, &str)]) -> Option<String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        knob.kept_by_user(&args, &lookup(env))
    }

    fn lookup(env: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| {
            let found = env.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| value.into())
        }
    }

    #[test]
    fn user_settings_are_kept() {
        let erl = Knob::option("ERL_AFLAGS", "+S 2:2".into(), &["+S"])
            .or_in(&["ERL_FLAGS", "ELIXIR_ERL_OPTIONS"]);
        assert_eq!(
            kept_by_user(&erl, &["-noshell"], &[("ERL_FLAGS", "+P 9000")]),
            None
        );
        assert!(kept_by_user(&erl, &["+S", "3:3"], &[]).is_some());
        assert!(kept_by_user(&erl, &[], &[("ELIXIR_ERL_OPTIONS", "-x +S 3:3")]).is_some());
        let plain = Knob::variable("OMP_NUM_THREADS", 2);
        assert_eq!(
            kept_by_user(&plain, &[], &[("OMP_NUM_THREADS", "7")]),
            Some("OMP_NUM_THREADS=7".into())
        );
        assert_eq!(kept_by_user(&plain, &[], &[("OMP_NUM_THREADS", "")]), None);
        let blas = Knob::variable("OPENBLAS_NUM_THREADS", 2).yielding_to(&["OMP_NUM_THREADS"]);
        assert!(kept_by_user(&blas, &[], &[("OMP_NUM_THREADS", "1")]).is_some());
    }

    #[test]
    fn options_are_appended_to_user_options() {
        let java = Knob::option("JAVA_TOOL_OPTIONS", "-XX:A=2".into(), &["-XX:A"]);
        let set = [("JAVA_TOOL_OPTIONS", "-Xmx64m")];
        assert_eq!(kept_by_user(&java, &[], &set), None);
        let value = java.variable_value(&lookup(&set)).unwrap();
        assert_eq!(value, "-Xmx64m -XX:A=2");
    }

    #[test]
    fn only_runtime_arguments_count_as_user_options() {
        let ghc = Knob {
            between: Some(("+RTS", "-RTS")),
            ..Knob::argument("+RTS -N2 -RTS".into(), &["-N"])
        };
        assert_eq!(kept_by_user(&ghc, &["-Name"], &[]), None);
        assert!(kept_by_user(&ghc, &["x", "+RTS", "-N3"], &[]).is_some());
        assert_eq!(
            kept_by_user(&ghc, &["+RTS", "-A1m", "-RTS", "-Nine"], &[]),
            None
        );
        assert_eq!(ghc.arguments().count(), 3);
    }
}
