//! The commands that a measurement runs: one, several, or one per point of a matrix of settings.

use anyhow::{Result, bail};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// The end of the label of a command that we compare with itself.
pub const AA_SUFFIX: &str = " (again)";

/// The largest number of commands in one measurement.
const SUBJECTS_MAX: usize = 1000;

/// One command, with the settings that were filled into it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subject {
    /// The name of the command in tables.
    pub label: String,
    pub command: Vec<OsString>,
    /// The settings, which are filled into hooks as well.
    pub settings: Vec<(String, String)>,
    /// Whether this is the base command again, to measure how far it differs from itself.
    pub is_aa_control: bool,
}

/// One setting of a matrix: its name and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    name: String,
    values: Vec<String>,
}

impl std::str::FromStr for Axis {
    type Err = anyhow::Error;

    /// Parses the value of `--matrix`, for example `jobs=1,2,4`.
    fn from_str(text: &str) -> Result<Self> {
        let (name, values) = named(text, "VALUE,VALUE…")?;
        let values: Vec<String> = values.split(',').map(String::from).collect();
        if values.iter().any(String::is_empty) {
            bail!("`{text}` has an empty name or an empty value: use NAME=VALUE");
        }
        Ok(Self {
            name: name.into(),
            values,
        })
    }
}

fn named<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str)> {
    match text.split_once('=') {
        Some((name, values)) if !name.is_empty() && !values.is_empty() => Ok((name, values)),
        Some(_) => bail!("`{text}` has an empty name or an empty value: use NAME=VALUE"),
        None => bail!("`{text}` is not of the form NAME={form}"),
    }
}

/// Parses the value of `--scan`, for example `jobs=1..8` or `size=0.5..2:0.5`. Both ends belong to
/// the range.
pub fn scan(text: &str) -> Result<Axis> {
    let (name, range) = named(text, "FROM..TO[:STEP]")?;
    let (ends, step) = range.split_once(':').unwrap_or((range, "1"));
    let Some((from, to)) = ends.split_once("..") else {
        bail!("`{text}` is not of the form NAME=FROM..TO[:STEP]");
    };
    let number = |word: &str| -> Result<f64> {
        match word.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => bail!(
                "`{word}` in `{text}` is not a number: use NAME=FROM..TO[:STEP], for example \
                 jobs=1..8"
            ),
        }
    };
    let (first, last, width) = (number(from)?, number(to)?, number(step)?);
    if width <= 0.0 || last < first || (last - first) / width >= SUBJECTS_MAX as f64 {
        bail!(
            "`{text}` is an empty range, or has more than {SUBJECTS_MAX} steps: use \
             FROM..TO[:STEP] with FROM below TO"
        );
    }
    let decimals = |word: &str| word.split_once('.').map_or(0, |(_, digits)| digits.len());
    let digits = decimals(from).max(decimals(step));
    let steps = ((last - first) / width + 1e-9) as usize;
    let value = |i: usize| format!("{:.digits$}", first + i as f64 * width);
    Ok(Axis {
        name: name.into(),
        values: (0..=steps).map(value).collect(),
    })
}

/// The commands and settings that the user has given.
#[derive(Default)]
pub struct MeasureRequest<'a> {
    pub command: &'a [OsString],
    /// The command that all others are compared with, if it is not the first one.
    pub reference: Option<&'a str>,
    /// The shell that runs each command as a line, with its options.
    pub shell: Option<&'a str>,
    /// Further commands, one line each, with the quotes of a shell.
    pub versus: &'a [String],
    /// The names of the commands in tables, in the order of the commands.
    pub names: &'a [String],
    pub matrix: Vec<Axis>,
    /// Whether the first command is also run against itself.
    pub is_aa_control: bool,
}

/// Returns every command to run, once per point of the matrix.
pub fn subjects(request: &MeasureRequest) -> Result<Vec<Subject>> {
    let shell = match request.shell {
        Some(shell) => words("--shell", shell)?,
        None => Vec::new(),
    };
    // With a shell, we pass the line to it as one argument. Without a shell, we split the line into
    // words.
    let command = |flag: &str, line: &str| match shell.is_empty() {
        true => words(flag, line),
        false => Ok(vec![OsString::from(line)]),
    };
    let mut commands = Vec::new();
    if let Some(line) = request.reference {
        commands.push(command("--reference", line)?);
    }
    commands.push(request.command.to_vec());
    for line in request.versus {
        commands.push(command("--vs", line)?);
    }
    if request.names.len() > commands.len() {
        bail!("there are more --name options than commands: remove one, or add a command");
    }
    for axis in &request.matrix {
        let hole = format!("{{{}}}", axis.name);
        let used = |word: &OsString| word.to_string_lossy().contains(&hole);
        if !commands.iter().flatten().any(used) {
            bail!(
                "cannot set {}: no command contains {hole}, so add it to a command",
                axis.name
            );
        }
    }
    let points = points(&request.matrix);
    let each = commands.len() + usize::from(request.is_aa_control);
    if points.len() * each > SUBJECTS_MAX {
        bail!(
            "the values of --matrix and --scan have more than {SUBJECTS_MAX} combinations: use \
             fewer values"
        );
    }
    let mut all = Vec::new();
    for point in &points {
        let base = all.len();
        for (i, command) in commands.iter().enumerate() {
            let name = request.names.get(i).map(|name| labelled(name, point));
            all.push(subject(command, point, name, &shell));
        }
        if request.is_aa_control {
            let first: &Subject = &all[base];
            all.push(Subject {
                label: format!("{}{AA_SUFFIX}", first.label),
                is_aa_control: true,
                ..first.clone()
            });
        }
    }
    Ok(all)
}

/// Splits a command into words, as a shell does. On Windows, a backslash separates the parts of a
/// path and quotes nothing.
fn words(flag: &str, line: &str) -> Result<Vec<OsString>> {
    let plain = match cfg!(windows) {
        true => line.replace('\\', "\\\\"),
        false => line.to_owned(),
    };
    match shlex::split(&plain).filter(|words| !words.is_empty()) {
        Some(words) => Ok(words.into_iter().map(OsString::from).collect()),
        None => bail!("{flag} `{line}` is not a command: it is empty, or a quote is open"),
    }
}

/// Returns every combination of the values of all axes. The last axis changes fastest.
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

/// Returns a name at a point of the matrix. If the name contains no placeholder, the settings of
/// the point follow it.
fn labelled(name: &str, point: &[(String, String)]) -> String {
    let filled = fill_text(name, point);
    if filled != name || point.is_empty() {
        return filled;
    }
    let settings: Vec<String> = point.iter().map(|(n, v)| format!("{n}={v}")).collect();
    format!("{name} {}", settings.join(" "))
}

fn subject(
    command: &[OsString],
    point: &[(String, String)],
    name: Option<String>,
    shell: &[OsString],
) -> Subject {
    let command: Vec<OsString> = command.iter().map(|word| fill(word, point)).collect();
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    let line = || {
        let line = shlex::try_join(words.iter().map(AsRef::as_ref));
        line.unwrap_or_else(|_| words.join(" "))
    };
    // A single word is already a line of shell.
    let line = match words.as_slice() {
        [line] if !shell.is_empty() => line.to_string(),
        _ => line(),
    };
    let command = match shell.is_empty() {
        true => command.clone(),
        false => {
            let mut through_shell = shell.to_vec();
            through_shell.extend(["-c".into(), OsString::from(&line)]);
            through_shell
        }
    };
    Subject {
        label: name.unwrap_or(line),
        command,
        settings: point.to_vec(),
        is_aa_control: false,
    }
}

/// Fills the settings into a word. A word that is not UTF-8 does not change.
fn fill(word: &OsStr, point: &[(String, String)]) -> OsString {
    match word.to_str() {
        Some(text) => fill_text(text, point).into(),
        None => word.to_owned(),
    }
}

/// Fills the settings into a text.
pub fn fill_text(text: &str, point: &[(String, String)]) -> String {
    point.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

/// Parses the value of `--label`, which has the form `KEY=VALUE`.
pub fn label(text: &str) -> Result<(String, String)> {
    let (key, value) = named(text, "VALUE")?;
    let figure = super::sample::unit(key) != super::sample::Unit::Plain;
    if figure || ["command", "run", "exit_code"].contains(&key) {
        bail!(
            "cannot add the column `{key}`, because creel already has a column of this name: use \
             another name"
        );
    }
    Ok((key.into(), value.into()))
}

/// The settings and the labels of a command, by their names.
pub type Labels = BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;

    fn made(
        command: &[&str],
        versus: &[&str],
        axes: &[&str],
        names: &[&str],
    ) -> Result<Vec<Subject>> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let strings =
            |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).into()).collect() };
        let axes: Result<Vec<Axis>> = axes.iter().map(|a| a.parse()).collect();
        subjects(&MeasureRequest {
            command: &command,
            versus: &strings(versus),
            names: &strings(names),
            matrix: axes?,
            is_aa_control: false,
            ..MeasureRequest::default()
        })
    }

    #[test]
    fn lines_are_run_by_a_shell_on_request() {
        let command = ["a | b {j}".into()];
        let request = MeasureRequest {
            command: &command,
            reference: Some("c 'd"),
            shell: Some("bash -e"),
            matrix: vec!["j=1".parse().unwrap()],
            ..MeasureRequest::default()
        };
        let all = subjects(&request).unwrap();
        let words: Vec<String> = all
            .iter()
            .map(|s| s.command.join(" ".as_ref()).into_string().unwrap())
            .collect();
        assert_eq!(words, ["bash -e -c c 'd", "bash -e -c a | b 1"]);
        assert_eq!(all[1].label, "a | b 1");
        let without = MeasureRequest {
            shell: None,
            ..request
        };
        let error = subjects(&without).unwrap_err().to_string();
        assert!(error.contains("--reference"), "{error}");
    }

    #[test]
    fn a_matrix_expands_to_all_combinations() {
        let versus = ["old --jobs {jobs}"];
        let made = made(
            &["r", "-j{jobs}", "{mode}"],
            &versus,
            &["jobs=1,2", "mode=a,b c"],
            &[],
        );
        let made = made.unwrap();
        let labels: Vec<&str> = made.iter().map(|s| s.label.as_str()).collect();
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
        assert_eq!(labels, expected);
    }

    #[test]
    fn names_replace_commands_in_labels() {
        let made = made(&["r", "{j}"], &["s"], &["j=1,2"], &["new", "old {j}"]).unwrap();
        let labels: Vec<&str> = made.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["new j=1", "old 1", "new j=2", "old 2"]);
    }

    #[test]
    fn a_scan_expands_to_the_values_of_its_range() {
        let values = |text: &str| scan(text).unwrap().values.join(" ");
        assert_eq!(values("j=1..4"), "1 2 3 4");
        assert_eq!(values("x=0.5..2:0.5"), "0.5 1.0 1.5 2.0");
        assert_eq!(values("x=0..1:0.1").split(' ').count(), 11);
        for wrong in [
            "j", "j=1", "j=1..", "j=4..1", "j=1..2:0", "j=0..1e9", "=1..2",
        ] {
            assert!(scan(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_names_the_wrong_argument() {
        let error = |versus: &[&str], axes: &[&str]| {
            made(&["x"], versus, axes, &[]).unwrap_err().to_string()
        };
        assert!(error(&[], &["jobs"]).contains("`jobs` is not of the form"));
        assert!(error(&[], &["jobs=1,"]).contains("empty"));
        assert!(error(&[], &["jobs=1"]).contains("contains {jobs}"));
        assert!(error(&["a 'b"], &[]).contains("a quote is open"));
        assert!(made(&["x"], &[], &[], &["a", "b"]).is_err());
        assert!(label("command=x").is_err() && label("wall_s=3").is_err() && label("x").is_err());
    }
}
