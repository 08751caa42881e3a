//! Performs notes to create a song. An orchestra receives the start and the end of each note.

use super::score::{BARS, Note, Piece, STEPS};
use super::writer::{Writer, tick_of_step};
use crate::format::Gd3;

/// One or several chips with a voice for each part.
pub trait Orchestra {
    /// Returns the name of a machine with these chips.
    fn system(&self) -> &'static str;
    /// Creates an empty song for the chips, and sets up their sounds and samples.
    fn begin(&self) -> Writer;
    /// Starts a note.
    fn on(&self, out: &mut Writer, note: &Note);
    /// Ends a note.
    fn off(&self, out: &mut Writer, note: &Note);
}

/// Performs a piece with an orchestra. The whole song loops.
pub fn perform(piece: &Piece, orchestra: &dyn Orchestra) -> Vec<u8> {
    let end = (BARS * STEPS) as u64;
    let mut events = Vec::new();
    for note in piece.notes().iter().filter(|note| note.step < end) {
        events.push((note.step, true, *note));
        events.push(((note.step + note.steps).min(end), false, *note));
    }
    // If one note ends when the next begins, the end comes first.
    events.sort_by_key(|(step, on, note)| (*step, *on, note.role));
    let mut out = orchestra.begin();
    out.loop_here();
    let steps_a_minute = 4 * piece.beats_a_minute;
    for (step, on, note) in events {
        out.wait_until(tick_of_step(step, steps_a_minute));
        if on {
            orchestra.on(&mut out, &note);
        } else {
            orchestra.off(&mut out, &note);
        }
    }
    out.wait_until(tick_of_step(end, steps_a_minute));
    out.finish(&Gd3 {
        track: piece.title.into(),
        game: "Creel".into(),
        system: orchestra.system().into(),
        author: "The Creel project".into(),
        notes: "Composed by code; MIT OR Apache-2.0.".into(),
        ..Gd3::default()
    })
}

/// Returns the frequency of a MIDI note in Hz.
pub fn hz(key: i32) -> f64 {
    440.0 * libm::exp2(f64::from(key - 69) / 12.0)
}
