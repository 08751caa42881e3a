//! `creel-vgm units`: what a run would render, for those who spread it over machines.

use anyhow::anyhow;
use clap::Args;
use creel_console::{Common, Exit, Format, output, report};
use creel_vgm::batch::{Intent, Plan, Preview, Unit, escaped};
use creel_vgm::format::TICKS_PER_SECOND;
use serde::Serialize;

use super::render::Render;
use super::report_skipped_folders;
use super::stderr::escape_control;

/// List what `render` with the same flags would do, a JSON line a file (or CSV)
///
/// All songs are read, so lengths are what they will be. Those that take longest come first.
///
/// Exit codes: as `render` would end, but for what only rendering shows.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm units -r music -o out
  creel-vgm units -r music -o out --stems chip --skip-done | jq -r 'select(.action == \"render\").output'
  creel-vgm units album.zip -o out --format csv")]
pub struct Units {
    #[command(flatten)]
    render: Render,
}

/// One file.
#[derive(Serialize)]
struct UnitRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<u32>,
    song: String,
    output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    song_escaped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_escaped: Option<String>,
    /// What would be done: render, skip, fail.
    action: &'static str,
    /// At 44,100 Hz, loops counted and the fade not.
    samples: u64,
    seconds: f64,
    /// Of the file.
    frames: u64,
    /// An estimate of one job's time.
    cost_ns: u64,
    /// Whether the sound file is there already.
    exists: bool,
    chips_missing: JsonOrTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Names as JSON has them, or as a field of a table does.
#[derive(Serialize)]
#[serde(untagged)]
enum JsonOrTable {
    List(Vec<&'static str>),
    Words(String),
}

impl UnitRow {
    /// The same as a row of a table, in which all rows have the same fields.
    fn row(self) -> UnitRow {
        let chips_missing = match self.chips_missing {
            JsonOrTable::List(names) => JsonOrTable::Words(names.join(" ")),
            words => words,
        };
        UnitRow {
            schema: None,
            song_escaped: None,
            output_escaped: None,
            chips_missing,
            warnings: None,
            error: Some(self.error.unwrap_or_default()),
            ..self
        }
    }
}

impl Units {
    /// Prints all units; what would fail is told on stderr, too.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        self.render.preview(common, |plan, previews| {
            report_skipped_folders(&plan.unsearched_folders, &plan.empty_folders);
            let lines = previews.iter().map(|(unit, preview)| line(unit, preview));
            match common.format {
                Format::Csv => output::csv(lines.map(UnitRow::row))?,
                Format::Text | Format::Json => {
                    for line in lines {
                        output::json_line(&line)?;
                    }
                }
            }
            Ok(report_failures(plan, &previews))
        })
    }
}

/// Tells what would fail; gives the exit code of such a run.
fn report_failures(plan: &Plan, previews: &[(&Unit, Preview)]) -> Exit {
    let refused = plan.refused.iter();
    let refused = refused.map(|(path, error)| (path.display().to_string(), error));
    let failed = previews.iter();
    let failed = failed.filter_map(|(unit, preview)| match &preview.intent {
        Intent::Fail(error) => Some((unit.name(), error)),
        Intent::Render | Intent::Keep => None,
    });
    let failures: Vec<_> = refused.chain(failed).collect();
    for (name, error) in &failures {
        let error = escape_control(&error.to_string());
        report("creel-vgm", &anyhow!("{}: {error}", escape_control(name)));
    }
    let fails = |(_, preview): &(&Unit, Preview)| matches!(preview.intent, Intent::Fail(_));
    let is_bad_data = failures.iter().all(|(_, error)| error.is_bad_data());
    if failures.is_empty() {
        Exit::Done
    } else if is_bad_data && previews.iter().all(fails) {
        Exit::BadData
    } else {
        Exit::SomeFailed
    }
}

fn line(unit: &Unit, preview: &Preview) -> UnitRow {
    let (action, error) = match &preview.intent {
        Intent::Render => ("render", None),
        Intent::Keep => ("skip", None),
        Intent::Fail(error) => ("fail", Some(error.to_string())),
    };
    UnitRow {
        schema: Some(1),
        song: unit.name(),
        output: unit.output.display().to_string(),
        song_escaped: unit.input.escaped(),
        output_escaped: escaped(&unit.output),
        action,
        samples: preview.ticks,
        seconds: preview.ticks as f64 / f64::from(TICKS_PER_SECOND),
        frames: preview.frames,
        cost_ns: preview.cost_ns,
        exists: unit.output.exists(),
        chips_missing: JsonOrTable::List(preview.remarks.chips_missing.clone()),
        warnings: Some(preview.remarks.warnings.clone()),
        error,
    }
}
