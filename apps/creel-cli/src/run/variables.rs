//! The changes that wrappers make to the environment between us and the program.

use std::ffi::OsString;

/// The variables that the wrappers set and drop.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Variables {
    /// The wrapper that drops all variables, except those that later wrappers set.
    cleared: Option<&'static str>,
    /// The names with their new values, or with the wrapper that drops them. A later entry
    /// overrides an earlier one.
    changed: Vec<(String, Result<String, &'static str>)>,
}

impl Variables {
    /// Records that a wrapper drops all variables.
    pub fn clear(&mut self, by: &'static str) {
        self.cleared = Some(by);
        self.changed.clear();
    }

    pub fn drop(&mut self, name: String, by: &'static str) {
        self.changed.push((name, Err(by)));
    }

    pub fn set(&mut self, name: String, value: String) {
        self.changed.push((name, Ok(value)));
    }

    /// Adds the changes of an inner wrapper.
    pub fn then(&mut self, inner: Variables) {
        if inner.cleared.is_some() {
            *self = inner;
        } else {
            self.changed.extend(inner.changed);
        }
    }

    fn change(&self, name: &str) -> Option<&Result<String, &'static str>> {
        let mut latest = self.changed.iter().rev();
        latest.find(|(n, _)| n == name).map(|(_, change)| change)
    }

    /// Returns the value that the program sees for a variable that has `value` here.
    pub fn seen(&self, name: &str, value: Option<OsString>) -> Option<OsString> {
        match self.change(name) {
            Some(change) => change.as_ref().ok().map(OsString::from),
            None => value.filter(|_| self.cleared.is_none()),
        }
    }

    /// Returns the reason why a variable of ours does not reach the program, or `None` if it does.
    pub fn overridden_value(&self, name: &str) -> Option<String> {
        let dropped = |by: &str| format!("{by}, which drops {name}");
        match self.change(name) {
            Some(Ok(value)) => Some(format!("{name}={value}")),
            Some(Err(by)) => Some(dropped(by)),
            None => self.cleared.map(dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_wrapper_decides_about_a_variable() {
        let mut variables = Variables::default();
        variables.set("A".into(), "1".into());
        variables.drop("B".into(), "env -u");
        assert_eq!(variables.seen("A", None), Some("1".into()));
        assert_eq!(variables.seen("B", Some("2".into())), None);
        assert_eq!(variables.overridden_value("C"), None);
        let mut inner = Variables::default();
        inner.clear("env -i");
        inner.set("B".into(), "3".into());
        variables.then(inner);
        assert_eq!(
            variables.overridden_value("A").unwrap(),
            "env -i, which drops A"
        );
        assert_eq!(variables.overridden_value("B").unwrap(), "B=3");
        assert_eq!(variables.seen("C", Some("4".into())), None);
    }
}
