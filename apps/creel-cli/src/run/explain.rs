//! Prints a plan of `creel run` as text, JSON or CSV.

use super::{knob::KnobKind, plan::Plan};
use creel_console::document::{BudgetFields, SCHEMA};
use creel_console::{Format, output};
use serde::Serialize;
use std::{ffi::OsString, fmt::Write};

/// Prints a plan to stderr, because stdout belongs to the program.
pub fn to_stderr(plan: &Plan, command: &[OsString], format: Format) -> serde_json::Result<()> {
    match format {
        Format::Json => {
            let json = serde_json::to_string(&Document::new(plan, command))?;
            output::note(&format!("{json}\n"));
        }
        Format::Text | Format::Csv => output::note(&explain(plan)),
    }
    Ok(())
}

/// Returns all decisions and their reasons, one per line.
pub fn explain(plan: &Plan) -> String {
    let mut text = String::new();
    let mut line = |label: &str, what: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{label:9} {what}");
    };
    let path = plan.program.path.display();
    line("program:", format!("{path}: {}", plan.program.because));
    line("usable:", workers(plan));
    match &plan.mask {
        Some(mask) if Some(mask) == plan.program.cpus.as_ref() => {
            line("mask:", format!("{mask}, to which a wrapper narrows it"));
        }
        Some(mask) => line("mask:", format!("{mask}, as you have asked for")),
        None => line("mask:", "unchanged".into()),
    }
    for setting in &plan.settings {
        match &setting.kept {
            Some(kept) if kept.starts_with(setting.knob.name) => {
                line("kept:", format!("{kept}: you have set it"));
            }
            Some(kept) => line(
                "kept:",
                format!(
                    "{kept}: you have set it, so creel does not set {}",
                    setting.knob.name
                ),
            ),
            None => line("set:", format!("{}: {}", shown(&setting.knob), setting.why)),
        }
    }
    for note in &plan.notes {
        line("note:", note.clone());
    }
    text
}

fn shown(knob: &super::knob::Knob) -> String {
    match knob.kind {
        KnobKind::Argument => knob.value.clone(),
        KnobKind::Variable => format!("{}={}", knob.name, knob.value),
        KnobKind::Option { .. } => format!("{} gets {}", knob.name, knob.value),
    }
}

fn workers(plan: &Plan) -> String {
    let Some(budget) = &plan.budget else {
        return "unknown".into();
    };
    let s = if plan.workers() == 1 { "" } else { "s" };
    format!(
        "{} worker{s}, bound by {}",
        plan.workers(),
        budget.bound_by()
    )
}

/// The plan as a JSON document.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    schema: u32,
    program: String,
    because: String,
    budget: Option<BudgetFields>,
    /// The narrowed mask as a Linux list, or null if the mask does not change.
    mask: Option<String>,
    command: Vec<String>,
    settings: Vec<SettingFields>,
    notes: Vec<String>,
}

/// One setting. It is also a row of the CSV.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettingFields {
    /// Either `variable`, `option` (one of several options in a variable) or `argument`.
    kind: &'static str,
    name: &'static str,
    value: String,
    /// The setting that the user has made already, or null if we make the setting.
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

/// The first line of the CSV, which names the fields of [`SettingFields`].
pub const HEADER: &str = "kind,name,value,kept,why\n";

/// Returns one CSV row per setting.
pub fn rows(plan: &Plan) -> impl Iterator<Item = SettingFields> {
    plan.settings.iter().map(|setting| SettingFields {
        kind: match setting.knob.kind {
            KnobKind::Variable => "variable",
            KnobKind::Option { .. } => "option",
            KnobKind::Argument => "argument",
        },
        name: setting.knob.name,
        value: setting.knob.value.clone(),
        kept: setting.kept.clone(),
        why: setting.why.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-run", schemars::schema_for!(Document));
    }
}
