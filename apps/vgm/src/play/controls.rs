//! The state that the parts of the player share: switches of the interface, and gauges of the
//! renderer and the sink. Each value that changes often is an atomic, so no part waits for another.
//! All atomics use `Relaxed`, because no value publishes other data.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use creel::channel::bounded;

use super::{Command, Repeat};
use crate::render::TEMPO;

/// The measurements of the voices that the interface needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MeterMode {
    /// No measurements, so the renderer does no extra work.
    #[default]
    Off,
    /// Levels and notes.
    Levels,
    /// Levels, notes and waves.
    Waves,
}

/// The switches and gauges of the player. You can use them from any thread, and no call blocks.
pub struct PlayerControls {
    sample_rate: u32,
    paused: AtomicBool,
    /// The volume as a factor, stored as the bits of an `f32`.
    volume: AtomicU32,
    /// The current generation. The sink drops blocks of earlier ones. The renderer writes this.
    generation: AtomicU64,
    /// The last block that went to the device. The sink writes this. Before the first block and
    /// while the player is paused, the renderer may write it too.
    serial: AtomicU64,
    /// The frame of the song after that block. The writers are the same.
    frame: AtomicU64,
    underruns: AtomicU64,
    underrun_us: AtomicU64,
    /// The number of gaps that the device caused.
    stalls: AtomicU64,
    stall_us: AtomicU64,
    /// The number of frames that the device has not played yet.
    queued: AtomicU64,
    device_lost: AtomicBool,
    /// Whether a long seek is in progress. The renderer writes this.
    seeking: AtomicBool,
    failure: OnceLock<io::Error>,
    ended: AtomicBool,
    /// Whether the whole queue went to the device. The renderer writes this.
    drained: AtomicBool,
    /// The number of songs that could not be played.
    failed: AtomicU64,
    /// The unmuted voices of the current song, one bit per voice.
    voice_mask: AtomicU64,
    played: AtomicU64,
    /// The time from the last command until its first sound went to the device.
    command_latency_us: AtomicU64,
    meter_mode: AtomicU8,
    /// This field and the next four are the settings that commands have changed for all songs:
    /// endless loops, repeat mode, random order, tempo and pitch.
    forever: AtomicBool,
    repeat: AtomicU8,
    shuffled: AtomicBool,
    tempo: AtomicU32,
    pitch: AtomicU32,
    /// Wakes the sink while it is paused or waits for the device.
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

    /// Returns the number of frames per second.
    pub fn sample_rate(&self) -> u32 {
        self.sample_rate
    }

    /// Returns whether the player is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Relaxed)
    }

    /// Pauses or resumes the player.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
        self.wake();
    }

    /// Makes the sink check the controls again.
    fn wake(&self) {
        // If the channel is full, a wake-up is already pending.
        let _ = self.wake.try_send(());
    }

    /// Waits until a change of the controls concerns the sink.
    pub(super) async fn woken(&self) {
        let _ = self.woken.recv().await;
    }

    /// Returns the volume as a factor. The default is 1.
    pub fn volume(&self) -> f32 {
        f32::from_bits(self.volume.load(Relaxed))
    }

    /// Sets the volume, limited to the range from 0 to 4.
    pub fn set_volume(&self, volume: f32) {
        self.volume.store(volume.clamp(0.0, 4.0).to_bits(), Relaxed);
    }

    /// Returns the serial number of the last block that went to the device.
    pub fn serial(&self) -> u64 {
        self.serial.load(Relaxed)
    }

    /// Returns the frame of the song that is audible now. This is the position of the sound that
    /// went to the device, minus the sound that the device has not played yet. We count that sound
    /// at the original tempo, so the result is off by a part of the buffer at other tempos.
    pub fn frame(&self) -> u64 {
        let held = self.queued.load(Relaxed);
        self.frame.load(Relaxed).saturating_sub(held)
    }

    /// Returns the number of frames that went to the device so far.
    pub fn played(&self) -> u64 {
        self.played.load(Relaxed)
    }

    /// Returns the number of underruns and their total duration in microseconds. An underrun is a
    /// time in which the device ran out of sound although no command asked for silence.
    pub fn underruns(&self) -> (u64, u64) {
        (self.underruns.load(Relaxed), self.underrun_us.load(Relaxed))
    }

    /// Returns the number of gaps that the device caused, and their total duration in microseconds.
    /// In such a gap there was sound, but the device accepted none, for example because a sound
    /// server stalled.
    pub fn device_stalls(&self) -> (u64, u64) {
        (self.stalls.load(Relaxed), self.stall_us.load(Relaxed))
    }

    /// Returns the duration of the sound in the buffer of the device, in milliseconds.
    pub fn queued_ms(&self) -> u64 {
        self.queued.load(Relaxed) * 1000 / u64::from(self.sample_rate)
    }

    /// Returns whether the device has disappeared and the sink is looking for it.
    pub fn is_device_lost(&self) -> bool {
        self.device_lost.load(Relaxed)
    }

    /// Returns whether the player is silent because a long seek is in progress.
    pub fn is_seeking(&self) -> bool {
        self.seeking.load(Relaxed)
    }

    /// Returns the time from the last command that changed the sound until its first sound went to
    /// the device, in microseconds.
    pub fn command_latency_us(&self) -> u64 {
        self.command_latency_us.load(Relaxed)
    }

    /// Sets the measurements that the renderer makes for the interface.
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

    /// Returns whether loops are endless.
    pub fn loops_forever(&self) -> bool {
        self.forever.load(Relaxed)
    }

    /// Returns the repeat mode.
    pub fn repeat(&self) -> Repeat {
        match self.repeat.load(Relaxed) {
            0 => Repeat::Off,
            1 => Repeat::All,
            _ => Repeat::One,
        }
    }

    /// Returns whether the order is random.
    pub fn is_shuffled(&self) -> bool {
        self.shuffled.load(Relaxed)
    }

    /// Returns the tempo, in thousandths of the tempo of the song.
    pub fn tempo(&self) -> u32 {
        self.tempo.load(Relaxed)
    }

    /// Returns the pitch, in thousandths of the frequencies of the song.
    pub fn pitch(&self) -> u32 {
        self.pitch.load(Relaxed)
    }

    /// Stores the setting of a command that has a lasting effect.
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

    /// Returns whether the queue has ended and all of its sound went to the device.
    pub fn is_drained(&self) -> bool {
        self.drained.load(Relaxed)
    }

    pub(super) fn set_drained(&self, played_out: bool) {
        self.drained.store(played_out, Relaxed);
    }

    /// Returns the number of songs that could not be played.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    pub(super) fn add_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// Returns the unmuted voices of the current song, one bit per voice. The renderer changes them
    /// when it executes a command, even while the player is paused.
    pub fn voice_mask(&self) -> u64 {
        self.voice_mask.load(Relaxed)
    }

    pub(super) fn set_voice_mask(&self, voices: u64) {
        self.voice_mask.store(voices, Relaxed);
    }

    /// Returns whether the renderer has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Returns the error that ended the sound early, if any.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    pub(super) fn fail(&self, error: io::Error) {
        // We keep the first error, because later ones are consequences of it.
        let _ = self.failure.set(error);
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
        self.wake();
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Starts a new generation, and returns its number.
    pub(super) fn next_generation(&self) -> u64 {
        let generation = self.generation.fetch_add(1, Relaxed) + 1;
        self.wake();
        generation
    }

    /// Returns the frame of the song that follows the sound of the device.
    pub(super) fn next_frame(&self) -> u64 {
        self.frame.load(Relaxed)
    }

    /// Sets the last block, and the frame of the song after it.
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
