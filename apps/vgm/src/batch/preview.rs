//! Previews of a run: the action that it would take on each song. We read the songs without
//! rendering them.
//!
//! Invariant: a preview matches [`Engine::run`], provided that the files do not change and the disk
//! has enough room.

use super::engine::{Engine, Warnings, load};
use super::{Cost, Plan, Unit};
use crate::chips::factory::render_cost_ns;
use crate::error::Error;
use crate::format::Song;
use crate::output;

/// The action that a run would take on a song.
#[derive(Debug)]
pub enum Intent {
    /// The song would be rendered.
    Render,
    /// The song would be skipped, because its file exists.
    Keep,
    /// The song would fail.
    Fail(Error),
}

/// The preview of a song.
#[derive(Debug)]
pub struct Preview {
    /// The action of the run.
    pub intent: Intent,
    /// The length with loops and without the fade, in samples at 44,100 Hz. It is 0 if the song
    /// cannot be read.
    pub ticks: u64,
    /// The number of frames of the file.
    pub frames: u64,
    /// The estimated rendering time in ns.
    pub cost_ns: u64,
    /// The warnings about the song.
    pub remarks: Warnings,
}

impl Engine<'_> {
    /// Previews all songs of a plan on the pool. The result is ordered by the estimated rendering
    /// time, longest first. Since the exact lengths are known here, the order may differ from that
    /// of the plan.
    pub fn preview<'p>(&self, plan: &'p Plan) -> Vec<(&'p Unit, Preview)> {
        let previews = self.pool.map(&plan.units, |unit| self.preview_unit(unit));
        let mut previews: Vec<_> = plan.units.iter().zip(previews).collect();
        previews.sort_by_key(|(_, preview)| std::cmp::Reverse(preview.cost_ns));
        previews
    }

    fn preview_unit(&self, unit: &Unit) -> Preview {
        let mut preview = Preview {
            intent: Intent::Render,
            ticks: 0,
            frames: 0,
            cost_ns: 0,
            remarks: Warnings::default(),
        };
        let kept = self.is_skipped(unit);
        // A run does not read a skipped song. We read it here, because the preview has its length.
        let looked = match kept {
            true => load(unit, false),
            false => self.ready(unit),
        };
        let looked = looked.and_then(|(song, remarks)| {
            let settings = unit.settings(self.settings);
            output::check(&song, &settings, self.layout)?;
            Ok((song, remarks))
        });
        match looked {
            Ok((song, remarks)) => {
                preview.ticks = song.ticks_with_loops(song.header.loops(self.settings.loops));
                preview.frames = self.settings.frames(&song).0;
                preview.cost_ns = preview.ticks.saturating_mul(unit.frame_ns(&song));
                preview.remarks = remarks;
            }
            Err(error) => preview.intent = Intent::Fail(error),
        }
        if kept {
            preview.intent = Intent::Keep;
        }
        preview
    }
}

impl Unit {
    /// Returns the estimated rendering time per frame in ns.
    fn frame_ns(&self, song: &Song) -> u64 {
        match self.stem {
            Some(stem) => render_cost_ns(stem.chip.chip),
            None => Cost::of(&song.header, 1).whole,
        }
    }
}
