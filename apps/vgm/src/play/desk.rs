//! What the parts see of each other at any time, without waiting: the interface's switches and the
//! sink's gauges. A word each; none orders another.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Switches and gauges. All may be read and written from any thread; nothing blocks.
#[derive(Debug)]
pub struct Desk {
    sample_rate: u32,
    paused: AtomicBool,
    /// The bits of an f32.
    volume: AtomicU32,
    /// Blocks of earlier turns are not played. Written by the renderer.
    turn: AtomicU64,
    /// The block that went to the device last, and the song's frame after it. Written by the sink.
    serial: AtomicU64,
    frame: AtomicU64,
    gaps: AtomicU64,
    gap_us: AtomicU64,
    /// What the device holds that was not played yet, in frames.
    held: AtomicU64,
    lost: AtomicBool,
    ended: AtomicBool,
    played: AtomicU64,
}

impl Desk {
    pub(super) fn new(sample_rate: u32) -> Self {
        Desk {
            sample_rate,
            paused: AtomicBool::new(false),
            volume: AtomicU32::new(1.0f32.to_bits()),
            turn: AtomicU64::new(0),
            serial: AtomicU64::new(0),
            frame: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            gap_us: AtomicU64::new(0),
            held: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            played: AtomicU64::new(0),
        }
    }

    /// Frames a second.
    pub fn sample_rate(&self) -> u32 {
        self.sample_rate
    }

    /// Whether the sound is stopped.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Relaxed)
    }

    /// Stops the sound, or lets it go on.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }

    /// The factor that all sound is scaled by, 1 unless set.
    pub fn volume(&self) -> f32 {
        f32::from_bits(self.volume.load(Relaxed))
    }

    /// Sets that factor, within 0 to 4.
    pub fn set_volume(&self, volume: f32) {
        self.volume.store(volume.clamp(0.0, 4.0).to_bits(), Relaxed);
    }

    /// The block that went to the device last.
    pub fn serial(&self) -> u64 {
        self.serial.load(Relaxed)
    }

    /// The song's frame that is heard now: what has gone to the device, less what that one holds.
    pub fn frame(&self) -> u64 {
        let held = self.held.load(Relaxed);
        self.frame.load(Relaxed).saturating_sub(held)
    }

    /// Frames given to the device so far.
    pub fn played(&self) -> u64 {
        self.played.load(Relaxed)
    }

    /// How often the device ran dry although nobody asked for silence, and for how long in all, in
    /// microseconds.
    pub fn gaps(&self) -> (u64, u64) {
        (self.gaps.load(Relaxed), self.gap_us.load(Relaxed))
    }

    /// What the device holds, in milliseconds.
    pub fn held_ms(&self) -> u64 {
        self.held.load(Relaxed) * 1000 / u64::from(self.sample_rate)
    }

    /// Whether the device is gone and is being waited for.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    /// Whether the renderer has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Relaxed)
    }

    /// Begins another turn.
    pub(super) fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Relaxed) + 1
    }

    /// The song's frame that follows what has gone to the device.
    pub(super) fn next_frame(&self) -> u64 {
        self.frame.load(Relaxed)
    }

    /// Blocks from `serial` on will follow what is at `frame` of a song.
    pub(super) fn set_place(&self, serial: u64, frame: u64) {
        self.serial.store(serial, Relaxed);
        self.frame.store(frame, Relaxed);
    }

    pub(super) fn set_held(&self, frames: usize) {
        self.held.store(frames as u64, Relaxed);
    }

    pub(super) fn add_played(&self, frames: usize) {
        self.played.fetch_add(frames as u64, Relaxed);
    }

    pub(super) fn add_gap(&self, us: u64) {
        self.gaps.fetch_add(1, Relaxed);
        self.gap_us.fetch_add(us, Relaxed);
    }

    pub(super) fn set_lost(&self, lost: bool) {
        self.lost.store(lost, Relaxed);
    }
}
