//! A live pipeline: a source that ticks, a leaky channel, and a sink that sends datagrams.
//!
//! The program pauses the sink for a while. The channel then drops the oldest buffers, so that the
//! receiver hears the present and not the past. Run it with
//! `cargo run -p creel-media --example live`.

use creel::net::UdpSocket;
use creel::time::{Interval, interval};
use creel_media::SendQueue;
use creel_media::control::{Changes, Control, Flow, Trigger, Work};
use creel_media::leaky::{self, Leak, Receiver, Sender};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::sleep;
use std::time::Duration;

/// The length of one buffer.
const BUFFER: Duration = Duration::from_millis(10);
/// The number of buffers after which the source ends.
const BUFFERS: u32 = 60;
/// The number of buffers in the channel.
const CAPACITY: usize = 5;

/// Creates one numbered buffer per tick.
struct Source {
    ticks: Interval,
    number: u32,
    out: Sender<u32>,
}

impl Work for Source {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        if self.number == BUFFERS {
            return Poll::Ready(Err(Flow::EndOfStream));
        }
        ready!(self.ticks.poll_tick(cx));
        self.number += 1;
        // The channel drops its oldest buffer when it is full, so this never waits.
        let sent = self.out.try_send(self.number);
        Poll::Ready(sent.map_err(|_| Flow::Failed))
    }
}

/// Writes each buffer to the queue, which sends it.
struct Sink {
    buffers: Receiver<u32>,
    queue: Arc<SendQueue>,
    to: SocketAddr,
}

impl Work for Sink {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        match ready!(self.buffers.poll_recv(cx)) {
            Ok(number) => {
                self.queue.push(&number.to_be_bytes(), [self.to]);
                Poll::Ready(Ok(()))
            }
            Err(_) => {
                println!("the channel dropped {} buffers", self.buffers.leaked());
                Poll::Ready(Err(Flow::EndOfStream))
            }
        }
    }

    fn flush(&mut self) {
        self.buffers.flush();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = creel::Pool::builder().workers(1).build()?;
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    let queue = Arc::new(SendQueue::new(Arc::new(socket), 1_000));

    // Both tasks share one counter of state changes.
    let changes = Changes::default();
    let source = Arc::new(Control::started(changes.clone()));
    let sink = Arc::new(Control::started(changes));
    let (out, buffers) = leaky::channel(CAPACITY, Leak::Old);
    let sending = {
        let queue = Arc::clone(&queue);
        pool.spawn(async move { queue.run().await })
    };
    let sink_task = pool.spawn(sink.run(Sink {
        buffers,
        queue: Arc::clone(&queue),
        to: receiver.local_addr()?,
    }));
    let source_task = pool.spawn(source.run(Source {
        ticks: interval(BUFFER),
        number: 0,
        out,
    }));

    sleep(BUFFER * 10);
    println!("pausing the sink: {:?}", sink.trigger(Trigger::Pause)?);
    sleep(BUFFER * 20);
    println!("continuing: {:?}", sink.trigger(Trigger::Start)?);

    println!("the source: {:?}", pool.block_on(source_task)?);
    println!("the sink: {:?}", pool.block_on(sink_task)?);
    queue.close();
    pool.block_on(sending)?;

    receiver.set_nonblocking(true)?;
    let mut number = [0; 4];
    let mut numbers = Vec::new();
    while receiver.recv(&mut number).is_ok() {
        numbers.push(u32::from_be_bytes(number));
    }
    println!("received {} of {BUFFERS} buffers", numbers.len());
    let gap = numbers.windows(2).max_by_key(|pair| pair[1] - pair[0]);
    if let Some([last, next]) = gap {
        println!("the largest gap is between the buffers {last} and {next}");
    }
    Ok(())
}
