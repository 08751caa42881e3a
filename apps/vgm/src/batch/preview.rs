//! What a run would do to each of its songs, found out by reading them, without rendering.
//!
//! Invariant: it is what [`Engine::run`] does, as long as the files stay as they are and the disk
//! takes all.

use super::engine::{Engine, Warnings, load};
use super::{Cost, Plan, Unit};
use crate::chips::factory::render_cost_ns;
use crate::error::Error;
use crate::format::Song;
use crate::output;

/// What would be done to a song.
#[derive(Debug)]
pub enum Intent {
    /// It would be rendered.
    Render,
    /// It would be left alone, for its file exists.
    Keep,
    /// It would fail.
    Fail(Error),
}

/// A song of a plan, looked at.
#[derive(Debug)]
pub struct Preview {
    /// What would be done to it.
    pub intent: Intent,
    /// How long it would play, loops counted and its fade not, in samples at 44,100 Hz; 0 where it
    /// cannot be read.
    pub ticks: u64,
    /// How many frames its file would have.
    pub frames: u64,
    /// How long rendering it will take, about, in ns.
    pub cost_ns: u64,
    /// What would be said of it.
    pub remarks: Warnings,
}

impl Engine<'_> {
    /// Looks at all songs of a plan, on the pool; those come first that take longest, now that their
    /// lengths are known.
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
        // A song that is left alone is not read by a run, but how long it is counts here.
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
    /// About how long a frame of it takes to render, in ns.
    fn frame_ns(&self, song: &Song) -> u64 {
        match self.stem {
            Some(stem) => render_cost_ns(stem.chip.chip),
            None => Cost::of(&song.header, 1).whole,
        }
    }
}
