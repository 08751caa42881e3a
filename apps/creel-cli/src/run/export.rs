//! Prints a plan of `creel run` as configuration that you can paste. We escape the characters that
//! the target would expand or unquote.

use super::plan::Plan;
use clap::ValueEnum;

/// The kind of file or command into which you paste the settings.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Target {
    /// `export` lines for a shell
    Env,
    /// Arguments of `docker run`, on one line
    Docker,
    /// Entries for the `env` of a container in the manifest of a pod
    K8s,
    /// Lines for the [Service] section of a unit
    Systemd,
    /// Lines for a Dockerfile
    Dockerfile,
}

/// Returns the settings in the format of the target. The text is empty if there are none.
pub fn export(plan: &Plan, target: Target) -> String {
    let variables = plan
        .variables()
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
    let variable = |(name, value): (&str, String)| match target {
        Target::Env => format!("export {name}={}", quoted(&value)),
        Target::Docker => format!("-e {}", quoted(&format!("{name}={value}"))),
        Target::K8s => format!("- name: {name}\n  value: {}", in_yaml(&value)),
        Target::Dockerfile => format!("ENV {name}=\"{}\"", in_dockerfile(&value)),
        Target::Systemd => format!("Environment=\"{name}={}\"", in_unit(&value)),
    };
    let mask = |mask: &_| match target {
        Target::Env => format!("taskset -cp {mask} $$ > /dev/null"),
        Target::Docker => format!("--cpuset-cpus={mask}"),
        Target::Dockerfile => format!(
            "# CPUs {mask}: an image cannot choose them; start the container with \
             --cpuset-cpus={mask}"
        ),
        Target::K8s => format!(
            "# CPUs {mask}: a pod cannot request these; give it whole CPUs and use the static CPU manager"
        ),
        Target::Systemd => format!("CPUAffinity={mask}"),
    };
    let lines: Vec<String> = variables
        .map(variable)
        .chain(plan.mask.as_ref().map(mask))
        .collect();
    let separator = match target {
        // A newline would end the command into which you paste the arguments.
        Target::Docker => " ",
        _ => "\n",
    };
    let end = if lines.is_empty() { "" } else { "\n" };
    lines.join(separator) + end
}

/// Returns a word for a shell, without quotes if it needs none. This matters because the shell
/// splits `$(creel run --export docker …)` at blanks and does not unquote it, unless the user passes
/// it to `eval`.
pub fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./+@%".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    // Quoting fails only for a NUL, and environment variables hold none.
    shlex::try_quote(value).map_or_else(|_| value.to_owned(), |quoted| quoted.into_owned())
}

/// Returns a YAML string. Each JSON string is a YAML string as well. Since Kubernetes expands
/// `$(NAME)`, we escape it.
fn in_yaml(value: &str) -> String {
    serde_json::Value::from(value.replace("$(", "$$(")).to_string()
}

/// Escapes a value for a Dockerfile, in which Docker expands `$NAME`.
fn in_dockerfile(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('$', "\\$")
        .replace('\n', "\\n")
}

/// Escapes a value for a systemd unit. systemd expands specifiers (`%h`), interprets backslashes
/// and quotes, and ends a setting at the end of the line.
fn in_unit(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('\n', "\\n")
}
