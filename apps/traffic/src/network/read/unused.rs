//! Counts the parts of a file that a reader does not use although they could change the result.

use super::ReadError;
use super::xml::Element;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The parts of a file that were not used, with the number of times that they occur. A key names an
/// element (`stop`), an attribute (`vType accel`) or a value (`leg mode=pt`).
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Unused(BTreeMap<String, u64>);

impl Unused {
    /// Counts one occurrence.
    pub fn add(&mut self, key: impl Into<String>) {
        self.add_many(key, 1);
    }

    /// Counts several occurrences.
    pub fn add_many(&mut self, key: impl Into<String>, count: u64) {
        if count > 0 {
            *self.0.entry(key.into()).or_default() += count;
        }
    }

    /// Adds the counts of another part of the file.
    pub(crate) fn merge(&mut self, other: Self) {
        other
            .0
            .into_iter()
            .for_each(|(key, count)| self.add_many(key, count));
    }

    /// Counts all attributes of an element that are neither `known` nor in an XML namespace. An
    /// attribute is known if the reader uses it, or if it cannot change the result.
    pub(crate) fn attributes(
        &mut self,
        element: &Element<'_>,
        known: &[&str],
    ) -> Result<(), ReadError> {
        element.each_name(|name| {
            let is_known = known.contains(&name) || name.starts_with("xmlns") || name.contains(':');
            if !is_known {
                self.add(format!("{} {name}", element.name()));
            }
        })
    }

    /// Returns whether everything was used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the keys and their counts, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(key, &count)| (key.as_str(), count))
    }

    /// Returns a list for a message, for example `stop (12), vType accel (3)`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (key, count) in self.iter() {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{key} ({count})");
        }
        text
    }
}
