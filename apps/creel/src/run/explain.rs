//! A plan in words, as JSON or CSV, and as configuration to paste.

use super::{knob::Turn, plan::Plan};
use clap::ValueEnum;
use creel_console::document::{BudgetFields, SCHEMA};
use serde::Serialize;
use std::{ffi::OsString, fmt::Write};

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
        match &setting.kept {
            Some(kept) => line("kept:", format!("{kept}: you have set it")),
            None => line("set:", format!("{}: {}", shown(&setting.knob), setting.why)),
        }
    }
    for note in &plan.notes {
        line("note:", note.clone());
    }
    text
}

fn shown(knob: &super::knob::Knob) -> String {
    match knob.turn {
        Turn::Argument => knob.value.clone(),
        Turn::Variable => format!("{}={}", knob.name, knob.value),
        Turn::Option { .. } => format!("{} gets {}", knob.name, knob.value),
    }
}

fn workers(plan: &Plan) -> String {
    let Some(budget) = &plan.budget else {
        return "not known".into();
    };
    let s = if plan.workers() == 1 { "" } else { "s" };
    format!(
        "{} worker{s}, bound by {}",
        plan.workers(),
        budget.bound_by()
    )
}

/// The plan for programs.
#[derive(Serialize)]
pub struct Document {
    schema: u32,
    program: String,
    because: String,
    budget: Option<BudgetFields>,
    /// The narrowed mask as a Linux list; null where it is left as it is.
    mask: Option<String>,
    command: Vec<String>,
    settings: Vec<SettingFields>,
    notes: Vec<String>,
}

/// One setting; also a row of the CSV.
#[derive(Serialize)]
pub struct SettingFields {
    /// `variable`, `option` (among others in a variable) or `argument`.
    kind: &'static str,
    name: &'static str,
    value: String,
    /// Null where it is turned; else where the user has turned it already.
    kept: Option<String>,
    why: String,
}

impl Document {
    pub fn new(plan: &Plan, command: &[OsString]) -> Self {
        let words = plan.command(command);
        Self {
            schema: SCHEMA,
            program: plan.program.path.display().to_string(),
            because: plan.program.because.clone(),
            budget: plan.budget.as_ref().map(BudgetFields::from),
            mask: plan.mask.as_ref().map(ToString::to_string),
            command: words.iter().map(|w| w.to_string_lossy().into()).collect(),
            settings: rows(plan).collect(),
            notes: plan.notes.clone(),
        }
    }
}

/// The first line of the CSV: the names of [`SettingFields`].
pub const HEADER: &str = "kind,name,value,kept,why\n";

/// A row a setting.
pub fn rows(plan: &Plan) -> impl Iterator<Item = SettingFields> {
    plan.settings.iter().map(|setting| SettingFields {
        kind: match setting.knob.turn {
            Turn::Variable => "variable",
            Turn::Option { .. } => "option",
            Turn::Argument => "argument",
        },
        name: setting.knob.name,
        value: setting.knob.value.clone(),
        kept: setting.kept.clone(),
        why: setting.why.clone(),
    })
}

/// The settings in the target's own form; empty where nothing is to be set.
pub fn export(plan: &Plan, target: Target) -> String {
    let variables: Vec<(&str, String)> = plan
        .variables()
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        .collect();
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
            // systemd expands specifiers, and reads backslashes and quotes.
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('%', "%%");
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
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn each(variables: &[(&str, String)], line: impl Fn(&str, &str) -> String) -> Vec<String> {
    variables
        .iter()
        .map(|(name, value)| line(name, value))
        .collect()
}

/// A shell word; the values hold no NUL, so quoting cannot fail.
fn quote(value: &str) -> String {
    shlex::try_quote(value).map_or_else(|_| value.to_owned(), |quoted| quoted.into_owned())
}
