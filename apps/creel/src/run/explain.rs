//! A plan in words, and as configuration to paste.

use super::{plan::Plan, rules::Knob};
use clap::ValueEnum;
use std::fmt::Write;

/// Where the settings are to be pasted.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Target {
    /// Lines for a shell
    Env,
    /// Arguments of `docker run`
    Docker,
    /// The `env` of a container in a pod's manifest
    K8s,
    /// Lines of a unit's [Service] section
    Systemd,
}

/// Each decision and its reason, a line each.
pub fn explain(plan: &Plan) -> String {
    let mut text = String::new();
    let mut line = |label: &str, what: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{label:9} {what}");
    };
    let path = plan.program.path.display();
    line("program:", format!("{path}: {}", plan.program.because));
    line("usable:", workers(plan));
    match &plan.mask {
        Some(mask) => line("mask:", format!("{mask}, as asked for")),
        None => line("mask:", "left as it is".into()),
    }
    for setting in &plan.settings {
        match (&setting.knob, &setting.kept) {
            (Knob::Env(name, _), Some(own)) => {
                line(
                    "kept:",
                    format!("{name}={}: you have set it", own.display()),
                );
            }
            (Knob::Env(name, value), None) => {
                line("set:", format!("{name}={value}: {}", setting.why));
            }
            (Knob::Arg(argument), _) => line("set:", format!("{argument}: {}", setting.why)),
        }
    }
    for note in &plan.notes {
        line("note:", note.clone());
    }
    text
}

fn workers(plan: &Plan) -> String {
    let s = if plan.workers == 1 { "" } else { "s" };
    format!(
        "{} worker{s}, bound by {}",
        plan.workers,
        plan.budget.bound_by()
    )
}

/// The settings in the target's own form.
pub fn export(plan: &Plan, target: Target) -> String {
    let mut variables = Vec::new();
    let mut arguments = Vec::new();
    for knob in plan.turned() {
        match knob {
            Knob::Env(name, value) => variables.push((*name, value.as_str())),
            Knob::Arg(argument) => arguments.push(argument.as_str()),
        }
    }
    let mask = plan.mask.as_ref().map(ToString::to_string);
    let mut lines: Vec<String> = match target {
        Target::Env => each(&variables, |name, value| {
            format!("export {name}={}", quote(value))
        }),
        Target::Docker => each(&variables, |name, value| {
            format!("-e {}", quote(&format!("{name}={value}")))
        }),
        Target::K8s => each(&variables, |name, value| {
            format!("- name: {name}\n  value: {value:?}")
        }),
        Target::Systemd => each(&variables, |name, value| {
            format!("Environment=\"{name}={value}\"")
        }),
    };
    match (target, mask) {
        (_, None) => {}
        (Target::Env, Some(mask)) => lines.push(format!("taskset -cp {mask} $$")),
        (Target::Docker, Some(mask)) => lines.push(format!("--cpuset-cpus={mask}")),
        (Target::K8s, Some(mask)) => lines.push(format!(
            "# CPUs {mask}: a pod cannot ask for these; give it whole CPUs and the static CPU manager"
        )),
        (Target::Systemd, Some(mask)) => lines.push(format!("CPUAffinity={mask}")),
    }
    let argument = |a: &str| format!("# and give the program this argument first: {a}");
    lines.extend(arguments.into_iter().map(argument));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn each(variables: &[(&str, &str)], line: impl Fn(&str, &str) -> String) -> Vec<String> {
    variables
        .iter()
        .map(|(name, value)| line(name, value))
        .collect()
}

/// A shell word; the values hold no NUL, so quoting cannot fail.
fn quote(value: &str) -> String {
    shlex::try_quote(value).map_or_else(|_| value.to_owned(), |quoted| quoted.into_owned())
}
