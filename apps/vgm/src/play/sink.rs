//! The sink. It passes blocks to the device when the device has room, and counts gaps in the sound.

use std::sync::Arc;
use std::time::{Duration, Instant};

use creel::channel::{RecvError, TryRecvError, bounded};
use creel::time::{sleep, timeout};

use super::device::{Device, Open};
use super::realtime::raise_priority;
use super::{Block, Command, PlayerControls, RendererMessage};

/// The minimum time before we offer sound to a full device again. Within the two limits, we wait
/// until it has played half of its buffer.
const RETRY_MIN: Duration = Duration::from_millis(2);
/// The maximum time before we offer sound to a full device again.
const RETRY_MAX: Duration = Duration::from_millis(8);
/// The minimum duration of a counted gap. Shorter ones can come from differences between clocks.
const UNDERRUN_MIN: Duration = Duration::from_millis(1);
/// The time between two checks whether the player has ended, while the device is lost.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// The time between two attempts to open a lost device.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// The extra time that a device may take to play its buffer at the end.
const DRAIN_MARGIN: Duration = Duration::from_millis(500);

/// The sink of a player.
pub struct Sink {
    blocks: bounded::Receiver<Box<Block>>,
    back: bounded::Sender<RendererMessage>,
    controls: Arc<PlayerControls>,
    open: Open,
    /// The time of the last attempt to open the device again.
    opened: Option<Instant>,
}

impl Sink {
    pub(super) fn new(
        blocks: bounded::Receiver<Box<Block>>,
        back: bounded::Sender<RendererMessage>,
        controls: Arc<PlayerControls>,
        open: Open,
    ) -> Self {
        Sink {
            blocks,
            back,
            controls,
            open,
            opened: None,
        }
    }

    /// Plays blocks until the renderer has ended, and then lets the device finish.
    ///
    /// If the device is lost, it tries to open the device again every second. The sound then
    /// continues where it was. If the device cannot come back, it ends with a
    /// [failure](PlayerControls::failure). With `is_alone`, the sink is the only task on its
    /// thread, so the thread may get a real-time priority.
    pub async fn run(mut self, mut device: Box<dyn Device>, is_alone: bool) {
        let mut comes_first = false;
        // The generation of the sound in the device, and the time at which this sound ends.
        let mut sounding: Option<(u64, Instant)> = None;
        // Whether the device was empty and still accepted no sound.
        let mut stands = false;
        let mut scaled = Vec::new();
        loop {
            let mut block = match self.blocks.try_recv() {
                Ok(block) => block,
                Err(TryRecvError::Closed) => break,
                Err(TryRecvError::Empty) => match self.next(device.as_mut()).await {
                    Ok(block) => block,
                    Err(RecvError) => break,
                },
            };
            let mut at = 0;
            while at < block.frames.len() && block.generation == self.controls.generation() {
                if self.controls.is_paused() {
                    (sounding, stands) = (None, false);
                    self.controls.set_queued(device.queued_frames());
                    self.controls.woken().await;
                    continue;
                }
                let gap = match sounding.filter(|sounding| sounding.0 == block.generation) {
                    Some((_, until)) if device.queued_frames() == 0 => until.elapsed(),
                    _ => Duration::ZERO,
                };
                scale(&block.frames[at..], self.controls.volume(), &mut scaled);
                match device.write(&scaled) {
                    Ok(0) => {
                        let held = device.queued_frames();
                        stands |= gap > UNDERRUN_MIN;
                        self.controls.set_queued(held);
                        let again = (self.seconds(held) / 2).clamp(RETRY_MIN, RETRY_MAX);
                        // A new generation ends the wait, because this block is then obsolete.
                        let _ = timeout(again, self.controls.woken()).await;
                    }
                    Ok(frames) => {
                        at += frames;
                        self.controls.add_played(frames);
                        let of_song = at as u64 * u64::from(block.tempo) / 1000;
                        self.controls
                            .set_position(block.serial, block.first + of_song);
                        if gap > UNDERRUN_MIN {
                            self.controls.add_underrun(gap.as_micros() as u64, stands);
                        }
                        stands = false;
                        let held = device.queued_frames();
                        self.controls.set_queued(held);
                        // A device without a buffer has no clock, so it does not need the priority.
                        if held > 0 && !comes_first {
                            raise_priority(is_alone);
                            comes_first = true;
                        }
                        let until = Instant::now() + self.seconds(held);
                        sounding = (held > 0).then_some((block.generation, until));
                        if let Some(commanded_at) = block.commanded_at.take() {
                            self.controls
                                .set_command_latency(commanded_at.elapsed().as_micros() as u64);
                        }
                    }
                    Err(error) if device.is_permanently_lost() => return self.controls.fail(error),
                    Err(_) => {
                        (sounding, stands) = (None, false);
                        match self.reopen().await {
                            Some(found) => device = found,
                            None => return,
                        }
                    }
                }
            }
            block.frames.clear();
            // If the renderer has ended, the next receive reports it.
            let _ = self.back.send(RendererMessage::EmptyBlock(block)).await;
        }
        // We wait for the buffer of the device only if the queue has ended, and not for a device
        // that stalls.
        let until = Instant::now() + self.seconds(device.queued_frames()) + DRAIN_MARGIN;
        let waits = |device: &mut dyn Device| device.queued_frames() > 0 && Instant::now() < until;
        while self.controls.is_drained() && waits(device.as_mut()) && device.write(&[]).is_ok() {
            sleep(RETRY_MIN).await;
        }
        if let Err(error) = device.finish(self.controls.is_drained()) {
            self.controls.fail(error);
        }
    }

    /// Waits for the next block. While it waits, it keeps the gauge of the device's buffer up to
    /// date.
    async fn next(&mut self, device: &mut dyn Device) -> Result<Box<Block>, RecvError> {
        loop {
            let held = device.queued_frames();
            self.controls.set_queued(held);
            let block = self.blocks.recv();
            if held == 0 {
                return block.await;
            }
            if let Ok(block) = timeout(self.seconds(held).min(RETRY_MAX), block).await {
                return block;
            }
        }
    }

    /// Waits for the device to come back. Returns `None` if the renderer has ended.
    async fn reopen(&mut self) -> Option<Box<dyn Device>> {
        self.controls.set_device_lost(true);
        loop {
            // We also wait if the device was lost right after it was opened.
            while self
                .opened
                .is_some_and(|opened| opened.elapsed() < REOPEN_INTERVAL)
            {
                if self.controls.is_ended() {
                    return None;
                }
                sleep(POLL_INTERVAL).await;
            }
            self.opened = Some(Instant::now());
            if let Ok(device) = (self.open)() {
                self.controls.set_device_lost(false);
                return Some(device);
            }
        }
    }

    fn seconds(&self, frames: usize) -> Duration {
        Duration::from_secs_f64(frames as f64 / f64::from(self.controls.sample_rate()))
    }
}

/// Ends the renderer when the sink ends, for example after a panic or because the device is gone
/// for good. Otherwise, the renderer would wait for the blocks of the sink forever.
impl Drop for Sink {
    fn drop(&mut self) {
        // If the channel is full, one of its messages wakes the renderer, which then finds that the
        // sink is gone.
        let _ = self
            .back
            .try_send(RendererMessage::Command(Command::Quit, Instant::now()));
    }
}

/// Overwrites `out` with the scaled frames.
fn scale(frames: &[[f32; 2]], volume: f32, out: &mut Vec<[f32; 2]>) {
    out.clear();
    out.extend(
        frames
            .iter()
            .map(|frame| frame.map(|sample| sample * volume)),
    );
}
