//! Values of settings: a sweep over the values of one setting, or a matrix of several settings.
//!
//! A sweep measures all values in the same rounds, so that their ratios mean something. For this,
//! we merge the cases of all values into one case, and add the value to the name of each subject.

use std::str::FromStr;

use crate::harness::{Case, ONE_THREAD, Subject};

/// A setting and its values, for example `workers=1..4`, `items=100,1000` or `yield=no,block`.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// The name of the setting.
    pub key: String,
    /// The values as the user wrote them.
    pub values: Vec<String>,
}

/// The largest number of values of one setting. A longer list is probably a typing error.
const VALUES_MAX: usize = 64;

const EXPECTED: &str = "expected KEY=VALUES, for example workers=1..4";

impl FromStr for Values {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, list) = text.split_once('=').ok_or(EXPECTED)?;
        let mut values = Vec::new();
        for part in list.split(',') {
            match part.split_once("..") {
                None => values.push(part.to_owned()),
                Some((first, last)) => {
                    let number = |text: &str| {
                        let number: Result<usize, _> = text.parse();
                        number.map_err(|_| format!("`{text}` is not a number"))
                    };
                    let range = number(first)?..=number(last)?;
                    if range.clone().count() > VALUES_MAX {
                        return Err(format!("{part} has more than {VALUES_MAX} values"));
                    }
                    values.extend(range.map(|value| value.to_string()));
                }
            }
        }
        if key.is_empty() || values.is_empty() || values.iter().any(String::is_empty) {
            return Err(EXPECTED.into());
        }
        let key = key.to_owned();
        Ok(Values { key, values })
    }
}

impl Values {
    /// Returns the values as positive numbers.
    ///
    /// # Errors
    ///
    /// Returns an error for the first value that is not a positive number.
    pub fn numbers(&self) -> Result<Vec<usize>, String> {
        let number = |text: &String| {
            let number = text.parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{}={text}: expected a number of 1 or more", self.key))
        };
        self.values.iter().map(number).collect()
    }
}

/// A subject of a sweep at one value, parsed from its name `NAME, KEY VALUE`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// The name of the subject without the value.
    pub name: &'a str,
    /// The setting of the sweep.
    pub key: &'a str,
    /// The value of the setting.
    pub value: f64,
}

/// The settings whose values a sweep can vary.
pub const KEYS: [&str; 3] = ["workers", "items", "work"];

impl<'a> Point<'a> {
    /// Parses the name of a subject. Returns `None` if the subject does not belong to a sweep.
    pub fn of(subject: &'a str) -> Option<Self> {
        let (name, point) = subject.rsplit_once(", ")?;
        let (key, value) = point.split_once(' ')?;
        let value = value.parse().ok()?;
        KEYS.contains(&key).then_some(Point { name, key, value })
    }
}

/// Returns the name of the subject that `subject` is compared with, given its name without a value.
///
/// In a sweep over the amount of work, we compare only subjects that do the same amount. In a sweep
/// over the number of workers, all subjects do the same amount.
pub fn counterpart(subject: &str, name: &str) -> String {
    fn work(name: &str) -> Option<Point<'_>> {
        Point::of(name).filter(|point| point.key != "workers")
    }
    let name = work(name).map_or(name, |point| point.name);
    match work(subject) {
        Some(Point { key, value, .. }) => format!("{name}, {key} {value}"),
        None => name.into(),
    }
}

/// Merges the cases of all values into one set, so that all values are measured in the same rounds.
///
/// The name of each subject gets the value. In a sweep over the number of workers, a subject
/// without workers appears once.
pub fn merged(key: &str, points: Vec<(usize, Vec<Case>)>) -> Vec<Case> {
    let mut all: Vec<Case> = Vec::new();
    for (value, cases) in points {
        for mut case in cases {
            let subjects = std::mem::take(&mut case.subjects);
            let at = all.iter().position(|other| other.name == case.name);
            let case = match at {
                Some(at) => &mut all[at],
                None => {
                    all.push(case);
                    all.last_mut().expect("the case was just pushed")
                }
            };
            for subject in subjects {
                if let Some(name) = name_at(key, value, &subject.name) {
                    push(case, subject.named(name));
                }
            }
        }
    }
    all
}

fn push(case: &mut Case, subject: Subject) {
    if case.subjects.iter().all(|other| other.name != subject.name) {
        case.subjects.push(subject);
    }
}

/// Returns the name of a subject with the value of the sweep added. Returns `None` if the name
/// already contains another number of workers.
fn name_at(key: &str, value: usize, name: &str) -> Option<String> {
    if key != "workers" {
        return Some(format!("{name}, {key} {value}"));
    }
    if name == ONE_THREAD || name == "tokio current-thread" {
        return Some(name.into());
    }
    let Some(head) = name.strip_suffix(" workers") else {
        return Some(format!("{name}, {key} {value}"));
    };
    // The name already ends with the subject's number of workers. We write this number in the form
    // of the sweep, and leave out subjects that have another number than `value`.
    let (head, own) = head.rsplit_once(' ')?;
    (own == value.to_string()).then(|| format!("{head}, {key} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::tests::{case, noisy};

    #[test]
    fn subjects_are_compared_at_equal_work() {
        let first = "creel [sticky, adaptive], items 100";
        assert_eq!(
            counterpart("rayon, items 3000", ONE_THREAD),
            "one thread, items 3000"
        );
        let there = counterpart("rayon, items 3000", first);
        assert_eq!(there, "creel [sticky, adaptive], items 3000");
        assert_eq!(counterpart("rayon, workers 2", ONE_THREAD), ONE_THREAD);
        let workers = "creel [sticky, adaptive], workers 1";
        assert_eq!(counterpart("rayon, workers 2", workers), workers);
    }

    #[test]
    fn sweep_values_are_lists_or_ranges() {
        let values: Values = "workers=1..3,8".parse().unwrap();
        assert_eq!(
            (&*values.key, values.numbers().unwrap()),
            ("workers", vec![1, 2, 3, 8])
        );
        let values: Values = "yield=no,block".parse().unwrap();
        assert_eq!(values.values, ["no", "block"]);
        assert!(values.numbers().unwrap_err().contains("yield=no"));
        for bad in [
            "workers",
            "=1",
            "workers=",
            "workers=1..x",
            "workers=1..1000",
        ] {
            assert!(bad.parse::<Values>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sweep_points_merge_into_one_case() {
        let at = |value| {
            let names = [
                "creel [a, b]".to_owned(),
                ONE_THREAD.into(),
                format!("go {value} workers"),
            ];
            let names = names.iter().map(String::as_str).chain(["go 1 workers"]);
            let mut names: Vec<&str> = names.collect();
            names.dedup();
            (
                value,
                vec![case(
                    1,
                    names.iter().map(|name| noisy(name, 1.0, 1)).collect(),
                )],
            )
        };
        let cases = merged("workers", vec![at(1), at(2)]);
        let names: Vec<&str> = cases[0].subjects.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "creel [a, b], workers 1",
                "one thread",
                "go, workers 1",
                "creel [a, b], workers 2",
                "go, workers 2"
            ]
        );
        let point = Point::of(names[3]).unwrap();
        assert_eq!(
            (point.name, point.key, point.value),
            ("creel [a, b]", "workers", 2.0)
        );
        assert_eq!(Point::of("bare wheel, 20 ms"), None);
    }
}
