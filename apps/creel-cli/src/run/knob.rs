//! A knob is one setting of a runtime. This module also finds out whether the user has set it
//! already.
//!
//! Invariant: the settings of the user stay.
//!
//! - We keep a variable of the user.
//! - If a variable holds several options, we add ours to those of the user, unless one of them is
//!   for the same knob.
//! - We add no argument if an argument or a variable of the user is for the same knob.

use serde::Serialize;
use std::ffi::{OsStr, OsString};

/// The way to set a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KnobKind {
    /// A variable for this knob only.
    Variable,
    /// An option in a variable that holds several, before or after the options of the user.
    Option {
        separator: &'static str,
        before: bool,
    },
    /// Arguments before those of the program.
    Argument,
}

/// A knob with its new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    pub kind: KnobKind,
    /// The name of the variable. It is empty for arguments.
    pub name: &'static str,
    /// The value. Several arguments are separated by blanks.
    pub value: String,
    /// Variables that the runtime obeys if `name` is not set.
    pub outranked: &'static [&'static str],
    /// The prefixes of words that set the same knob.
    pub marks: &'static [&'static str],
    /// Variables other than `name` that may contain such a word.
    pub other_variables: &'static [&'static str],
    /// The words that enclose the options of the runtime among the arguments, if the runtime has
    /// them.
    pub between: Option<(&'static str, &'static str)>,
}

impl Knob {
    /// Creates a knob with a variable of its own.
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

    /// Creates a knob that is one option of several in a variable.
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

    /// Creates a knob that is set by arguments before those of the program.
    pub fn argument(value: String, marks: &'static [&'static str]) -> Self {
        Self {
            kind: KnobKind::Argument,
            ..Self::option("", value, marks)
        }
    }

    /// Adds variables in which a mark means that the user has set the knob.
    pub fn or_in(mut self, other_variables: &'static [&'static str]) -> Self {
        self.other_variables = other_variables;
        self
    }

    /// Adds variables that this knob would override. If the user has set one of them, we do not set
    /// the knob.
    pub fn yielding_to(mut self, outranked: &'static [&'static str]) -> Self {
        self.outranked = outranked;
        self
    }

    /// Sets the prefixes of words that set the same knob.
    pub fn or_marks(mut self, marks: &'static [&'static str]) -> Self {
        self.marks = marks;
        self
    }

    /// Returns the setting of the user for this knob, `NAME=value` or an argument, or `None` if
    /// there is none.
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

    /// Returns the new value of the variable, including the options of the user. Returns `None` for
    /// arguments.
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

    /// Returns the arguments. There are none for variables.
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

/// Returns the words of a variable. Runtimes separate options by blanks, commas or colons.
fn words(value: &OsStr) -> impl Iterator<Item = String> {
    let text = value.to_string_lossy().into_owned();
    let words: Vec<String> = text
        .split([' ', '\t', ',', ':'])
        .map(String::from)
        .collect();
    // Paths may contain colons, so the whole value counts as a word as well.
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
    fn a_setting_of_the_user_is_not_overridden() {
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
