//! `creel-vgm chips`: the supported chips, and how we checked each of them.

use clap::Args;

use creel_console::{Align, Common, Exit, Format, Table, output};
use creel_vgm::chips::info::ChipInfo;
use creel_vgm::chips::registry::{CHIPS, PIECE_METHOD, RATIO_METHOD, SPECTRA_METHOD};
use serde::Serialize;

/// List the supported chips and how each of them was checked
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm chips
  creel-vgm chips --format csv")]
pub struct Chips {}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document {
    schema: u32,
    /// Explains how and when the ratios were measured.
    ratio_method: &'static str,
    /// Explains the words "spectra of random songs".
    spectra_method: &'static str,
    /// Explains the comparison by spectra, balance and onsets.
    piece_method: &'static str,
    chips: Vec<Row>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    name: &'static str,
    checked: &'static str,
    /// The speed as a multiple of the speed of libvgm, both on one thread.
    ratio: Option<f32>,
}

impl Chips {
    /// Prints all chips.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let rows = CHIPS.iter().copied().map(row);
        match common.format {
            Format::Json => output::json(&Document {
                schema: 1,
                ratio_method: RATIO_METHOD,
                spectra_method: SPECTRA_METHOD,
                piece_method: PIECE_METHOD,
                chips: rows.collect(),
            })?,
            Format::Csv => output::csv(rows)?,
            Format::Text => output::text(&format!(
                "{}\nvs. libvgm: {RATIO_METHOD}.\nSpectra of random songs: {SPECTRA_METHOD}.\n\
                 Spectra, balance and onsets: {PIECE_METHOD}.\n",
                table().text()
            ))?,
        }
        Ok(Exit::Done)
    }
}

fn row(chip: &ChipInfo) -> Row {
    Row {
        name: chip.name,
        checked: chip.verification,
        ratio: chip.ratio,
    }
}

fn table() -> Table {
    let mut table = Table::new(&[
        ("chip", Align::Left),
        ("checked by", Align::Left),
        ("vs. libvgm", Align::Right),
    ]);
    for chip in CHIPS {
        let ratio = chip
            .ratio
            .map_or("-".into(), |ratio| format!("{ratio:.1} ×"));
        table.row([chip.name.into(), chip.verification.into(), ratio]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-vgm-chips", schemars::schema_for!(Document));
    }
}
