//! The sink: gives blocks to the device when it has room, and counts the gaps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use creel::channel::{Closed, TryRecvError, bounded};
use creel::time::{sleep, timeout};

use super::device::{Device, Open};
use super::realtime::raise_priority;
use super::{Block, Command, PlayerControls, RendererMessage};

/// How soon a full device is asked again: when it has played half of what it holds, within these
/// bounds.
const RETRY_MIN: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(8);
/// Shorter ones are what clocks differ by.
const UNDERRUN_MIN: Duration = Duration::from_millis(1);
/// How soon one that looks for its device looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// How soon a device that was lost is looked for again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// How much longer than it should a device may play what it has at the end.
const DRAIN_MARGIN: Duration = Duration::from_millis(500);

/// Gives the sound to the device.
pub struct Sink {
    blocks: bounded::Receiver<Box<Block>>,
    back: bounded::Sender<RendererMessage>,
    controls: Arc<PlayerControls>,
    open: Open,
    /// When the device was last opened again, or looked for.
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

    /// Plays what comes until the renderer has ended, then lets the device finish.
    ///
    /// A device that is lost is opened again every second; the sound goes on where it was. One that
    /// is alone on its thread may come before all others.
    pub async fn run(mut self, mut device: Box<dyn Device>, is_alone: bool) {
        let mut comes_first = false;
        // The turn of the sound that the device has, and until when it lasts.
        let mut sounding: Option<(u64, Instant)> = None;
        // Whether it had nothing left, and took nothing of what it was offered.
        let mut stands = false;
        let mut scaled = Vec::new();
        loop {
            let mut block = match self.blocks.try_recv() {
                Ok(block) => block,
                Err(TryRecvError::Closed) => break,
                Err(TryRecvError::Empty) => match self.next(device.as_mut()).await {
                    Ok(block) => block,
                    Err(Closed) => break,
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
                        // Another turn ends the wait: what is to be heard next is not this block.
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
                        // One that never holds anything has no clock, and can wait.
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
            // The renderer that does not take it has ended, and the next receive says so.
            let _ = self.back.send(RendererMessage::EmptyBlock(block)).await;
        }
        // Who quits does not wait for what the device has, and nobody for one that stands still.
        let until = Instant::now() + self.seconds(device.queued_frames()) + DRAIN_MARGIN;
        let waits = |device: &mut dyn Device| device.queued_frames() > 0 && Instant::now() < until;
        while self.controls.is_drained() && waits(device.as_mut()) && device.write(&[]).is_ok() {
            sleep(RETRY_MIN).await;
        }
        if let Err(error) = device.finish(self.controls.is_drained()) {
            self.controls.fail(error);
        }
    }

    /// Waits for the next block, and tells meanwhile what the device still holds.
    async fn next(&mut self, device: &mut dyn Device) -> Result<Box<Block>, Closed> {
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

    /// Waits for the device to come back; none if the renderer has ended.
    async fn reopen(&mut self) -> Option<Box<dyn Device>> {
        self.controls.set_device_lost(true);
        loop {
            // One that is lost as soon as it is opened is not opened without a pause.
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

/// However the sink ends, by a panic or a device that is gone for good: nobody waits for the blocks
/// that it had.
impl Drop for Sink {
    fn drop(&mut self) {
        // There is room for it, or so many commands that one of them ends the renderer's wait.
        let _ = self
            .back
            .try_send(RendererMessage::Command(Command::Quit, Instant::now()));
    }
}

/// Overwrites `out` with the frames, scaled.
fn scale(frames: &[[f32; 2]], volume: f32, out: &mut Vec<[f32; 2]>) {
    out.clear();
    out.extend(
        frames
            .iter()
            .map(|frame| frame.map(|sample| sample * volume)),
    );
}
