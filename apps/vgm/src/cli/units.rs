//! `creel-vgm units`: lists the files that a run would render, for example to distribute them over
//! several machines.

use anyhow::anyhow;
use clap::Args;
use creel_console::{Common, Exit, Format, output, report};
use creel_vgm::batch::{Intent, Plan, Preview, Unit, escaped};
use creel_vgm::format::TICKS_PER_SECOND;
use serde::Serialize;

use super::render::Render;
use super::report_skipped_folders;
use super::stderr::escape_control;

/// List the files that `render` with the same flags would write, without rendering
///
/// The output is one line of JSON per file, or CSV. The program reads all songs, so the lengths are
/// exact. Files that take longest to render are listed first.
///
/// Exit codes: the same as those of `render`, except for errors that only rendering can find.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm units -r music -o out
  creel-vgm units -r music -o out --stems chip --skip-done | jq -r 'select(.action == \"render\").output'
  creel-vgm units album.zip -o out --format csv")]
pub struct Units {
    #[command(flatten)]
    render: Render,
}

/// One file that a run would write.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnitRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<u32>,
    song: String,
    output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    song_escaped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_escaped: Option<String>,
    /// The action of the run: `render`, `skip` or `fail`.
    action: &'static str,
    /// The length in samples at 44,100 Hz, with loops and without the fade.
    samples: u64,
    seconds: f64,
    /// The number of frames of the file.
    frames: u64,
    /// An estimate of the rendering time with one job.
    cost_ns: u64,
    /// Whether the sound file already exists.
    exists: bool,
    chips_missing: JsonOrTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_played: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Names as a list in JSON, or as one field in a CSV table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum JsonOrTable {
    List(Vec<&'static str>),
    Words(String),
}

impl UnitRow {
    /// Converts the line to a row of a CSV table, in which all rows have the same fields.
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
            not_played: None,
            warnings: None,
            error: Some(self.error.unwrap_or_default()),
            ..self
        }
    }
}

impl Units {
    /// Prints all units. It also reports those that would fail on stderr.
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

/// Reports the songs that would fail, and returns the exit code that the run would have.
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
        not_played: Some(preview.remarks.not_played.clone()),
        warnings: Some(preview.remarks.warnings.clone()),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-vgm-units", schemars::schema_for!(UnitRow));
    }
}
