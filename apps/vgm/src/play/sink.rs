//! The sink: gives blocks to the device when it has room, and counts the gaps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use creel::channel::{TryRecvError, ring};
use creel::time::sleep;

use super::device::{Device, Open};
use super::{Block, Desk, Inbox};

/// How soon a full device is asked again, and a paused sink looks whether to go on.
const AGAIN: Duration = Duration::from_millis(4);
const PAUSED: Duration = Duration::from_millis(20);
/// How soon a device that was lost is looked for again.
const LOOK_FOR: Duration = Duration::from_secs(1);

/// Gives the sound to the device.
pub struct Sink {
    blocks: ring::Receiver<Box<Block>>,
    back: ring::Sender<Inbox>,
    desk: Arc<Desk>,
    open: Open,
}

impl Sink {
    pub(super) fn new(
        blocks: ring::Receiver<Box<Block>>,
        back: ring::Sender<Inbox>,
        desk: Arc<Desk>,
        open: Open,
    ) -> Self {
        Sink {
            blocks,
            back,
            desk,
            open,
        }
    }

    /// Plays what comes until the renderer has ended, then lets the device finish.
    ///
    /// A device that is lost is opened again every second; the sound goes on where it was.
    pub async fn run(mut self, mut device: Box<dyn Device>) {
        // The turn of the sound that the device has, while it must not run dry.
        let mut sounding: Option<u64> = None;
        let mut scaled = Vec::new();
        loop {
            let mut block = match self.blocks.try_recv() {
                Ok(block) => block,
                Err(TryRecvError::Closed) => break,
                Err(TryRecvError::Empty) => {
                    let begin = Instant::now();
                    let held = self.seconds(device.held());
                    let Ok(block) = self.blocks.recv().await else {
                        break;
                    };
                    let dry = begin.elapsed().saturating_sub(held);
                    if sounding == Some(block.turn) && !dry.is_zero() && device.held() == 0 {
                        self.desk.add_gap(dry.as_micros() as u64);
                    }
                    block
                }
            };
            if !block.frames.is_empty() {
                sounding = Some(block.turn);
            }
            let mut at = 0;
            while at < block.frames.len() && block.turn == self.desk.turn() {
                if self.desk.is_paused() {
                    sounding = None;
                    self.desk.set_held(device.held());
                    sleep(PAUSED).await;
                    continue;
                }
                scale(&block.frames[at..], self.desk.volume(), &mut scaled);
                match device.write(&scaled) {
                    Ok(0) => {
                        self.desk.set_held(device.held());
                        sleep(AGAIN).await;
                    }
                    Ok(frames) => {
                        at += frames;
                        self.desk.add_played(frames);
                        self.desk.set_place(block.serial, block.first + at as u64);
                        self.desk.set_held(device.held());
                    }
                    Err(_) => {
                        sounding = None;
                        match self.reopen().await {
                            Some(found) => device = found,
                            None => return,
                        }
                    }
                }
            }
            block.frames.clear();
            // The renderer that does not take it has ended, and the next receive says so.
            let _ = self.back.send(Inbox::Empty(block)).await;
        }
        while device.held() > 0 && device.write(&[]).is_ok() {
            sleep(AGAIN).await;
        }
        device.finish();
    }

    /// Waits for the device to come back; none if the renderer has ended.
    async fn reopen(&mut self) -> Option<Box<dyn Device>> {
        self.desk.set_lost(true);
        loop {
            if let Ok(device) = (self.open)() {
                self.desk.set_lost(false);
                return Some(device);
            }
            let until = Instant::now() + LOOK_FOR;
            while Instant::now() < until {
                if self.desk.is_ended() {
                    return None;
                }
                sleep(PAUSED).await;
            }
        }
    }

    fn seconds(&self, frames: usize) -> Duration {
        Duration::from_secs_f64(frames as f64 / f64::from(self.desk.sample_rate()))
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
