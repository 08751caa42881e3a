//! A plan as configuration to paste. What the target expands or unquotes is escaped for it.

use super::plan::Plan;
use clap::ValueEnum;

/// Where the settings are to be pasted.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Target {
    /// Lines for a shell
    Env,
    /// Arguments of `docker run`, on one line
    Docker,
    /// The `env` of a container in a pod's manifest
    K8s,
    /// Lines of a unit's [Service] section
    Systemd,
}

/// The settings in the target's own form; empty where nothing is to be set.
pub fn export(plan: &Plan, target: Target) -> String {
    let variables = plan
        .variables()
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
    let variable = |(name, value): (&str, String)| match target {
        Target::Env => format!("export {name}={}", quoted(&value)),
        Target::Docker => format!("-e {}", quoted(&format!("{name}={value}"))),
        Target::K8s => format!("- name: {name}\n  value: {}", in_yaml(&value)),
        Target::Systemd => format!("Environment=\"{name}={}\"", in_unit(&value)),
    };
    let mask = |mask: &_| match target {
        Target::Env => format!("taskset -cp {mask} $$ > /dev/null"),
        Target::Docker => format!("--cpuset-cpus={mask}"),
        Target::K8s => format!(
            "# CPUs {mask}: a pod cannot ask for these; give it whole CPUs and the static CPU manager"
        ),
        Target::Systemd => format!("CPUAffinity={mask}"),
    };
    let lines: Vec<String> = variables
        .map(variable)
        .chain(plan.mask.as_ref().map(mask))
        .collect();
    let separator = match target {
        // A line end would end the command that these are pasted into.
        Target::Docker => " ",
        _ => "\n",
    };
    let end = if lines.is_empty() { "" } else { "\n" };
    lines.join(separator) + end
}

/// A word for a shell, without quotes where it needs none: `$(creel run --export docker …)` is
/// split at blanks and not unquoted.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./+@%".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    // The values hold no NUL, so quoting cannot fail.
    shlex::try_quote(value).map_or_else(|_| value.to_owned(), |quoted| quoted.into_owned())
}

/// A JSON string is one of YAML's; Kubernetes puts variables for `$(NAME)`.
fn in_yaml(value: &str) -> String {
    serde_json::Value::from(value.replace("$(", "$$(")).to_string()
}

/// systemd expands specifiers, and reads backslashes and quotes; a setting ends with its line.
fn in_unit(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('\n', "\\n")
}
