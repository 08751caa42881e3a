//! Which commands a measurement runs: one, a pair, or a matrix of settings.

use anyhow::{Result, bail};
use std::ffi::{OsStr, OsString};

/// The most commands that one measurement may consist of.
const SUBJECTS_MAX: usize = 1000;

/// One command, with the settings that were put into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// What tables call it.
    pub label: String,
    pub command: Vec<OsString>,
}

/// One setting of a matrix: its name and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    name: String,
    values: Vec<String>,
}

impl std::str::FromStr for Axis {
    type Err = anyhow::Error;

    /// Reads `jobs=1,2,4`.
    fn from_str(text: &str) -> Result<Self> {
        let Some((name, values)) = text.split_once('=') else {
            bail!("`{text}` is not of the form NAME=VALUE,VALUE…");
        };
        let values: Vec<String> = values.split(',').map(String::from).collect();
        if name.is_empty() || values.iter().any(String::is_empty) {
            bail!("`{text}` has an empty name or value");
        }
        Ok(Self {
            name: name.into(),
            values,
        })
    }
}

/// Every command to run: `command` and, if given, `versus`, each at every point of the matrix.
pub fn subjects(
    command: &[OsString],
    versus: Option<&str>,
    matrix: &[Axis],
) -> Result<Vec<Subject>> {
    let mut commands = vec![command.to_vec()];
    if let Some(text) = versus {
        let Some(words) = shlex::split(text).filter(|words| !words.is_empty()) else {
            bail!("--vs `{text}` is no command line: a quote is open, or nothing is there");
        };
        commands.push(words.into_iter().map(OsString::from).collect());
    }
    for axis in matrix {
        let hole = format!("{{{}}}", axis.name);
        let used = |word: &OsString| word.to_string_lossy().contains(&hole);
        if !commands.iter().flatten().any(used) {
            bail!(
                "--matrix {}: the command has no {hole} to put it in",
                axis.name
            );
        }
    }
    let points = points(matrix);
    if points.len() * commands.len() > SUBJECTS_MAX {
        bail!("the matrix has more than {SUBJECTS_MAX} points");
    }
    let at = |point: &Vec<(String, String)>| {
        let commands = commands.iter().map(|command| subject(command, point));
        commands.collect::<Vec<_>>()
    };
    Ok(points.iter().flat_map(at).collect())
}

/// Every combination of the axes' values, the last axis fastest.
fn points(matrix: &[Axis]) -> Vec<Vec<(String, String)>> {
    let start = vec![Vec::new()];
    matrix.iter().fold(start, |points, axis| {
        let extend = |point: Vec<(String, String)>| {
            axis.values.iter().map(move |value| {
                let mut longer = point.clone();
                longer.push((axis.name.clone(), value.clone()));
                longer
            })
        };
        points.into_iter().flat_map(extend).collect()
    })
}

fn subject(command: &[OsString], point: &[(String, String)]) -> Subject {
    let command: Vec<OsString> = command.iter().map(|word| fill(word, point)).collect();
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    let label = shlex::try_join(words.iter().map(AsRef::as_ref));
    Subject {
        label: label.unwrap_or_else(|_| words.join(" ")),
        command,
    }
}

/// Puts the settings into a word. A word that is not UTF-8 has no holes and stays as it is.
fn fill(word: &OsStr, point: &[(String, String)]) -> OsString {
    let Some(text) = word.to_str() else {
        return word.to_owned();
    };
    let filled = point.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    });
    filled.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(command: &[&str], versus: Option<&str>, axes: &[&str]) -> Result<Vec<String>> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let axes: Result<Vec<Axis>> = axes.iter().map(|a| a.parse()).collect();
        let subjects = subjects(&command, versus, &axes?)?;
        Ok(subjects.into_iter().map(|s| s.label).collect())
    }

    #[test]
    fn a_matrix_is_filled_in_pair_by_pair() {
        let made = labels(
            &["r", "-j{jobs}", "{mode}"],
            Some("old --jobs {jobs}"),
            &["jobs=1,2", "mode=a,b c"],
        );
        let expected = [
            "r -j1 a",
            "old --jobs 1",
            "r -j1 'b c'",
            "old --jobs 1",
            "r -j2 a",
            "old --jobs 2",
            "r -j2 'b c'",
            "old --jobs 2",
        ];
        assert_eq!(made.unwrap(), expected);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |versus, axes: &[&str]| labels(&["x"], versus, axes).unwrap_err().to_string();
        assert!(error(None, &["jobs"]).contains("`jobs` is not of the form"));
        assert!(error(None, &["jobs=1,"]).contains("empty"));
        assert!(error(None, &["jobs=1"]).contains("no {jobs}"));
        assert!(error(Some("a 'b"), &[]).contains("a quote is open"));
    }
}
