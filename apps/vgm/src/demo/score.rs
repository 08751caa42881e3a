//! A small composer. From a key, one chord per bar and two motifs, it creates five parts and drums.
//!
//! The form is A A B A, with four bars each. A motif is a sequence of scale degrees above the root
//! of the current chord, so it follows the harmony. On strong beats, we move it to a note of the
//! chord. In the first two A, the motif ends a third lower the second time, as an answer. The last
//! bar returns to the root.

/// The description of a piece.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// The title.
    pub title: &'static str,
    /// The number of beats per minute. A beat has four steps.
    pub beats_a_minute: u64,
    /// The root of the key as a MIDI note number.
    pub root: i32,
    /// The seven notes of the scale, in semitones above the root.
    pub scale: [i32; 7],
    /// The degree of the chord of each bar, where 0 is the root. The first row is for A, the second
    /// for B.
    pub chords: [[i32; 4]; 2],
    /// The motifs of A and B as steps and degrees. [`REST`] is silence. Each lasts two bars.
    pub motifs: [&'static [(u32, i32)]; 2],
    /// The rhythm of the bass in a bar, by steps: 1 is the root, 5 the fifth, 8 the octave, 0
    /// nothing.
    pub bass: [u8; STEPS],
    /// The drums in a bar, by steps: `k` (bass drum), `s` (snare), `h` (hi-hat) or a space.
    pub drums: &'static str,
}

/// The number of steps in a bar.
pub const STEPS: usize = 16;
/// The number of bars in a piece.
pub const BARS: usize = 16;
/// The degree that stands for silence.
pub const REST: i32 = i32::MIN;

/// The natural minor scale.
pub const MINOR: [i32; 7] = [0, 2, 3, 5, 7, 8, 10];
/// The major scale.
pub const MAJOR: [i32; 7] = [0, 2, 4, 5, 7, 9, 11];
/// The Dorian scale.
pub const DORIAN: [i32; 7] = [0, 2, 3, 5, 7, 9, 10];
/// The Mixolydian scale.
pub const MIXOLYDIAN: [i32; 7] = [0, 2, 4, 5, 7, 9, 10];

/// The part that plays a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The melody.
    Lead,
    /// The melody again, three steps later and softer.
    Echo,
    /// Broken chords.
    Arpeggio,
    /// Chords of three notes. The number of the note is 0, 1 or 2.
    Chord(u8),
    /// The bass.
    Bass,
    /// The drums: note 0 is the bass drum, 1 the snare, 2 the hi-hat.
    Drums,
}

/// A note of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The step at which the note begins, counted from the start of the piece.
    pub step: u64,
    /// The length in steps.
    pub steps: u64,
    /// The part that plays the note.
    pub role: Role,
    /// The MIDI number, or the number of the drum.
    pub key: i32,
}

impl Piece {
    /// Returns all notes, ordered by time.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for bar in 0..BARS {
            self.melody(bar, &mut notes);
            self.accompany(bar, &mut notes);
            self.drum(bar, &mut notes);
        }
        notes.sort_by_key(|note| (note.step, note.role));
        notes
    }

    /// Returns the index of the section: 1 for B, which is the third section, and 0 for A.
    fn section(bar: usize) -> usize {
        usize::from(bar / 4 == 2)
    }

    fn chord(&self, bar: usize) -> i32 {
        if bar == BARS - 1 {
            return 0;
        }
        self.chords[Self::section(bar)][bar % 4]
    }

    /// Returns the MIDI number of a scale degree, which may be several octaves away.
    fn key(&self, degree: i32) -> i32 {
        self.root + 12 * degree.div_euclid(7) + self.scale[degree.rem_euclid(7) as usize]
    }

    /// Adds the notes of one bar of a two-bar motif, and an echo of each note. The motif's degrees
    /// are relative to the chord of the bar.
    fn melody(&self, bar: usize, notes: &mut Vec<Note>) {
        let first = bar - bar % 2;
        let mut at = 0;
        for (steps, degree) in self.motifs[Self::section(bar)] {
            let (start, length) = (at, u64::from(*steps));
            at += length;
            let (in_bar, step) = ((start / 16) as usize, first as u64 * 16 + start);
            if first + in_bar != bar || *degree == REST {
                continue;
            }
            // The answer is a third lower at its end.
            let answers = bar % 4 == 3 && bar < 8;
            let degree = self.chord(bar) % 7 + degree - if answers { 2 } else { 0 };
            let degree = self.settle(degree, bar, start % 8 == 0);
            let key = self.key(degree + 7);
            notes.push(Note {
                step,
                steps: length,
                role: Role::Lead,
                key,
            });
            notes.push(Note {
                step: step + 3,
                steps: length.min(3),
                role: Role::Echo,
                key,
            });
        }
    }

    /// Returns the note of the chord at a degree or next to it, if the beat is strong. Otherwise,
    /// it returns the degree unchanged.
    fn settle(&self, degree: i32, bar: usize, strong: bool) -> i32 {
        let above = (degree - self.chord(bar)).rem_euclid(7);
        match above {
            1 | 3 | 5 if strong => degree - 1,
            6 if strong => degree + 1,
            _ => degree,
        }
    }

    fn accompany(&self, bar: usize, notes: &mut Vec<Note>) {
        let chord = self.chord(bar);
        let start = (bar * STEPS) as u64;
        for (voice, third) in [0, 2, 4].into_iter().enumerate() {
            // We invert chords, so that the notes of successive chords are close together.
            let degree = chord + third - if chord + third > 6 { 7 } else { 0 };
            notes.push(Note {
                step: start,
                steps: 15,
                role: Role::Chord(voice as u8),
                key: self.key(degree),
            });
        }
        for step in (0..STEPS).filter(|step| step % 2 == 0) {
            let third = [0, 2, 4, 7, 4, 2, 4, 2][step / 2];
            notes.push(Note {
                step: start + step as u64,
                steps: 2,
                role: Role::Arpeggio,
                key: self.key(chord + third + 7),
            });
        }
        for (step, played) in self.bass.iter().enumerate() {
            let degree = match played {
                0 => continue,
                5 => chord + 4,
                8 => chord + 7,
                _ => chord,
            };
            notes.push(Note {
                step: start + step as u64,
                steps: 2,
                role: Role::Bass,
                key: self.key(degree) - 24,
            });
        }
    }

    /// Adds the drums of a bar. All bars are the same, except for a fill at the end of each
    /// section.
    fn drum(&self, bar: usize, notes: &mut Vec<Note>) {
        for (step, drum) in self.drums.bytes().enumerate() {
            let fill = bar % 4 == 3 && step >= 12;
            let key = match drum {
                _ if fill => 1,
                b'k' => 0,
                b's' => 1,
                b'h' => 2,
                _ => continue,
            };
            notes.push(Note {
                step: (bar * STEPS + step) as u64,
                steps: 1,
                role: Role::Drums,
                key,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::pieces::PIECES;

    #[test]
    fn motifs_last_two_bars_and_drums_one_bar() {
        for piece in PIECES {
            for motif in piece.motifs {
                let steps: u32 = motif.iter().map(|(steps, _)| steps).sum();
                assert_eq!(steps as usize, 2 * STEPS, "{}", piece.title);
            }
            assert_eq!(piece.drums.len(), STEPS, "{}", piece.title);
        }
    }

    #[test]
    fn strong_beats_of_the_melody_belong_to_the_chord() {
        for piece in PIECES {
            for note in piece.notes() {
                if note.role != Role::Lead || note.step % 8 != 0 {
                    continue;
                }
                let bar = (note.step / 16) as usize;
                let chord = [0, 2, 4].map(|third| piece.key(piece.chord(bar) + third) % 12);
                assert!(
                    chord.contains(&(note.key % 12)),
                    "{} bar {bar}",
                    piece.title
                );
            }
        }
    }
}
