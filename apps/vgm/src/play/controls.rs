//! What the parts see of each other at any time, without waiting: the interface's switches and the
//! sink's gauges. A word each; none commands another.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use creel::channel::bounded;

use super::{Command, Repeat};
use crate::render::TEMPO;

/// What of the voices somebody looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MeterMode {
    /// Nothing: nothing is made for it.
    #[default]
    Off,
    /// Their levels and notes.
    Levels,
    /// Their waves, too.
    Waves,
}

/// Switches and gauges. All may be read and written from any thread; nothing blocks.
pub struct PlayerControls {
    sample_rate: u32,
    paused: AtomicBool,
    /// The bits of an f32.
    volume: AtomicU32,
    /// Blocks of earlier generations are not played. Written by the renderer.
    generation: AtomicU64,
    /// The block that went to the device last, and the song's frame after it. Written by the sink.
    serial: AtomicU64,
    frame: AtomicU64,
    underruns: AtomicU64,
    underrun_us: AtomicU64,
    /// The same of the device's own doing.
    stalls: AtomicU64,
    stall_us: AtomicU64,
    /// What the device holds that was not played yet, in frames.
    queued: AtomicU64,
    device_lost: AtomicBool,
    /// Whether a long way through a song is being gone. Written by the renderer.
    seeking: AtomicBool,
    failure: OnceLock<io::Error>,
    ended: AtomicBool,
    /// Whether all of the queue went to the device. Written by the renderer.
    drained: AtomicBool,
    /// Songs that could not be played.
    failed: AtomicU64,
    /// Which voices of the song under way are heard, a bit each.
    voice_mask: AtomicU64,
    played: AtomicU64,
    /// From the last command to the first sound of its doing that went to the device.
    command_latency_us: AtomicU64,
    meter_mode: AtomicU8,
    /// What was commanded last of what lasts.
    forever: AtomicBool,
    repeat: AtomicU8,
    shuffled: AtomicBool,
    tempo: AtomicU32,
    pitch: AtomicU32,
    /// Ends a paused sink's sleep.
    wake: bounded::Sender<()>,
    woken: bounded::Receiver<()>,
}

impl PlayerControls {
    pub(super) fn new(sample_rate: u32) -> Self {
        let (wake, woken) = bounded::channel(1);
        PlayerControls {
            sample_rate,
            paused: AtomicBool::new(false),
            volume: AtomicU32::new(1.0f32.to_bits()),
            generation: AtomicU64::new(0),
            serial: AtomicU64::new(0),
            frame: AtomicU64::new(0),
            underruns: AtomicU64::new(0),
            underrun_us: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            stall_us: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            device_lost: AtomicBool::new(false),
            seeking: AtomicBool::new(false),
            failure: OnceLock::new(),
            ended: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            voice_mask: AtomicU64::new(u64::MAX),
            played: AtomicU64::new(0),
            command_latency_us: AtomicU64::new(0),
            meter_mode: AtomicU8::new(0),
            forever: AtomicBool::new(false),
            repeat: AtomicU8::new(0),
            shuffled: AtomicBool::new(false),
            tempo: AtomicU32::new(TEMPO),
            pitch: AtomicU32::new(TEMPO),
            wake,
            woken,
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
        self.wake();
    }

    /// Lets a paused sink look again.
    fn wake(&self) {
        // One that is there already is as good.
        let _ = self.wake.try_send(());
    }

    /// Waits until something has changed for a paused sink.
    pub(super) async fn woken(&self) {
        let _ = self.woken.recv().await;
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
        let held = self.queued.load(Relaxed);
        self.frame.load(Relaxed).saturating_sub(held)
    }

    /// Frames given to the device so far.
    pub fn played(&self) -> u64 {
        self.played.load(Relaxed)
    }

    /// How often the device ran dry although nobody asked for silence, and for how long in all, in
    /// microseconds.
    pub fn underruns(&self) -> (u64, u64) {
        (self.underruns.load(Relaxed), self.underrun_us.load(Relaxed))
    }

    /// The same where sound was at hand and the device took none: a sound server that stands still, say.
    pub fn device_stalls(&self) -> (u64, u64) {
        (self.stalls.load(Relaxed), self.stall_us.load(Relaxed))
    }

    /// What the device holds, in milliseconds.
    pub fn queued_ms(&self) -> u64 {
        self.queued.load(Relaxed) * 1000 / u64::from(self.sample_rate)
    }

    /// Whether the device is gone and is being waited for.
    pub fn is_device_lost(&self) -> bool {
        self.device_lost.load(Relaxed)
    }

    /// Whether there is no sound because the place that was sought is far away.
    pub fn is_seeking(&self) -> bool {
        self.seeking.load(Relaxed)
    }

    /// How long it took from the last command that changes the sound until its first sound went to the
    /// device, in microseconds.
    pub fn command_latency_us(&self) -> u64 {
        self.command_latency_us.load(Relaxed)
    }

    /// Says what is looked at.
    pub fn set_meter_mode(&self, seeing: MeterMode) {
        self.meter_mode.store(seeing as u8, Relaxed);
    }

    pub(super) fn meter_mode(&self) -> MeterMode {
        match self.meter_mode.load(Relaxed) {
            0 => MeterMode::Off,
            1 => MeterMode::Levels,
            _ => MeterMode::Waves,
        }
    }

    /// Whether loops are played for ever.
    pub fn loops_forever(&self) -> bool {
        self.forever.load(Relaxed)
    }

    /// What comes after the last song.
    pub fn repeat(&self) -> Repeat {
        match self.repeat.load(Relaxed) {
            0 => Repeat::Off,
            1 => Repeat::All,
            _ => Repeat::One,
        }
    }

    /// Whether the order is a random one.
    pub fn is_shuffled(&self) -> bool {
        self.shuffled.load(Relaxed)
    }

    /// How fast songs go by, in thousandths of their own tempo.
    pub fn tempo(&self) -> u32 {
        self.tempo.load(Relaxed)
    }

    /// How high they sound, in thousandths of their own frequencies.
    pub fn pitch(&self) -> u32 {
        self.pitch.load(Relaxed)
    }

    /// Takes down what a command changes for good.
    pub(super) fn apply(&self, command: Command) {
        match command {
            Command::LoopForever(forever) => self.forever.store(forever, Relaxed),
            Command::Repeat(repeat) => self.repeat.store(repeat as u8, Relaxed),
            Command::Shuffle(shuffled) => self.shuffled.store(shuffled, Relaxed),
            Command::Tempo(tempo) => self.tempo.store(tempo, Relaxed),
            Command::Pitch(pitch) => self.pitch.store(pitch, Relaxed),
            _ => {}
        }
    }

    pub(super) fn set_command_latency(&self, us: u64) {
        self.command_latency_us.store(us, Relaxed);
    }

    /// Whether the queue is at its end, and all of it went to the device.
    pub fn is_drained(&self) -> bool {
        self.drained.load(Relaxed)
    }

    pub(super) fn set_drained(&self, played_out: bool) {
        self.drained.store(played_out, Relaxed);
    }

    /// How many songs could not be played.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    pub(super) fn add_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// Which voices of the song under way are heard, a bit each; at once, in a pause, too.
    pub fn voice_mask(&self) -> u64 {
        self.voice_mask.load(Relaxed)
    }

    pub(super) fn set_voice_mask(&self, voices: u64) {
        self.voice_mask.store(voices, Relaxed);
    }

    /// Whether the renderer has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Why the sound has ended before its time, if it has.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    pub(super) fn fail(&self, error: io::Error) {
        // The first is what the others follow from.
        let _ = self.failure.set(error);
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
        self.wake();
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Begins another generation.
    pub(super) fn next_generation(&self) -> u64 {
        let generation = self.generation.fetch_add(1, Relaxed) + 1;
        self.wake();
        generation
    }

    /// The song's frame that follows what has gone to the device.
    pub(super) fn next_frame(&self) -> u64 {
        self.frame.load(Relaxed)
    }

    /// Blocks from `serial` on will follow what is at `frame` of a song.
    pub(super) fn set_position(&self, serial: u64, frame: u64) {
        self.serial.store(serial, Relaxed);
        self.frame.store(frame, Relaxed);
    }

    pub(super) fn set_queued(&self, frames: usize) {
        self.queued.store(frames as u64, Relaxed);
    }

    pub(super) fn add_played(&self, frames: usize) {
        self.played.fetch_add(frames as u64, Relaxed);
    }

    pub(super) fn add_underrun(&self, us: u64, is_stall: bool) {
        let (count, time) = match is_stall {
            true => (&self.stalls, &self.stall_us),
            false => (&self.underruns, &self.underrun_us),
        };
        count.fetch_add(1, Relaxed);
        time.fetch_add(us, Relaxed);
    }

    pub(super) fn set_seeking(&self, seeking: bool) {
        self.seeking.store(seeking, Relaxed);
    }

    pub(super) fn set_device_lost(&self, lost: bool) {
        self.device_lost.store(lost, Relaxed);
    }
}
