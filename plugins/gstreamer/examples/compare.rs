//! Compares the CPU time per buffer of `creel-udpsrc` with that of `ts-udpsrc`.
//!
//! ```text
//! cargo run --release --example compare -- --ts FOLDER > report.csv
//! ```
//!
//! `FOLDER` contains threadshare's `libgstthreadshare.so`. Without `--ts`, only our elements are
//! measured. `--streams 100,500,1000`, `--waits 0,20`, `--rounds 2` and `--seconds 5` set the size.
//!
//! Each measurement is a process of its own with one source and one fakesink per stream, all in one
//! context. This process sends 50 packets of 160 bytes per second to each of them. The elements
//! take turns within a round, so that a change of the machine's speed concerns all of them.

use gst::prelude::*;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PACKETS_PER_SECOND: u32 = 50;
const BYTES: usize = 160;
/// The time over which an idle process is measured.
const IDLE: Duration = Duration::from_secs(2);

struct Options {
    ts: Option<String>,
    streams: Vec<u16>,
    waits: Vec<u32>,
    rounds: u32,
    seconds: u64,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [command, elements, streams, wait, port] = &args[..]
        && command == "receive"
    {
        return receive(elements, streams.parse()?, wait.parse()?, port.parse()?);
    }
    compare(&options(&args)?)
}

fn options(args: &[String]) -> Result<Options> {
    let mut options = Options {
        ts: None,
        streams: vec![100, 500, 1_000],
        waits: vec![0, 20],
        rounds: 2,
        seconds: 5,
    };
    for pair in args.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} needs a value", pair[0]).into());
        };
        match name.as_str() {
            "--ts" => options.ts = Some(value.clone()),
            "--streams" => {
                options.streams = value
                    .split(',')
                    .map(str::parse)
                    .collect::<std::result::Result<_, _>>()?;
            }
            "--waits" => {
                options.waits = value
                    .split(',')
                    .map(str::parse)
                    .collect::<std::result::Result<_, _>>()?;
            }
            "--rounds" => options.rounds = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

fn compare(options: &Options) -> Result<()> {
    println!(
        "round,elements,streams,wait_ms,sent,received,cpu_us_per_buffer,idle_cpu_percent,rss_mb"
    );
    let elements = if options.ts.is_some() {
        &["creel", "ts"][..]
    } else {
        &["creel"]
    };
    for round in 0..options.rounds {
        for &streams in &options.streams {
            for &wait in &options.waits {
                // The order changes from round to round, so that each kind of element is sometimes
                // measured first.
                let mut order = elements.to_vec();
                order.rotate_left(round as usize % elements.len());
                for elements in order {
                    let row = measure(options, elements, streams, wait)?;
                    println!("{round},{elements},{streams},{wait},{row}");
                    std::io::stdout().flush()?;
                }
            }
        }
    }
    Ok(())
}

/// A child process that receives. It is killed if the measurement fails.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(options: &Options, elements: &str, streams: u16, wait: u32) -> Result<String> {
    let port = 20_000_u16;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("receive").args([
        elements,
        &streams.to_string(),
        &wait.to_string(),
        &port.to_string(),
    ]);
    if let Some(ts) = &options.ts {
        command.env("GST_PLUGIN_PATH", ts);
    }
    let mut child = Receiver(
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?,
    );
    let mut stdin: ChildStdin = child.0.stdin.take().ok_or("the child has an input")?;
    let mut lines = BufReader::new(child.0.stdout.take().ok_or("the child has an output")?).lines();
    let mut line = move || -> Result<String> {
        Ok(lines
            .next()
            .ok_or("the receiver ended early: see its messages above")??)
    };
    // The child prints this line when it is ready. It has then measured its CPU time while idle.
    let idle = line()?;
    let sent = send(port, streams, options.seconds)?;
    writeln!(stdin, "done")?;
    let (received, memory) = (line()?, line()?);
    Ok(format!("{sent},{received},{idle},{memory}"))
}

/// Sends packets to all streams, spread over each period.
fn send(port: u16, streams: u16, seconds: u64) -> Result<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let begin = Instant::now();
    let gap = Duration::from_secs(1) / (PACKETS_PER_SECOND * u32::from(streams));
    let mut sent = 0_u32;
    let total = PACKETS_PER_SECOND * u32::from(streams) * seconds as u32;
    while sent < total {
        while sent < total && begin.elapsed() >= gap * sent {
            let to = ("127.0.0.1", port + (sent % u32::from(streams)) as u16);
            socket.send_to(&[0; BYTES], to)?;
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(sent.into())
}

/// Receives in this process, and prints the measurements.
fn receive(elements: &str, streams: u16, wait: u32, port: u16) -> Result<()> {
    gst::init()?;
    gstcreel::register()?;
    let pipeline = gst::Pipeline::new();
    let mut sinks = Vec::new();
    for stream in 0..streams {
        let source = gst::ElementFactory::make(&format!("{elements}-udpsrc"))
            .property("address", "127.0.0.1")
            .property("port", i32::from(port + stream))
            .property("context", "compare")
            .property("context-wait", wait)
            .build()?;
        let sink = gst::ElementFactory::make("fakesink")
            .property("sync", false)
            .property("async", false)
            .build()?;
        pipeline.add_many([&source, &sink])?;
        source.link(&sink)?;
        sinks.push(sink);
    }
    pipeline.set_state(gst::State::Playing)?;
    std::thread::sleep(Duration::from_millis(500));
    let before = cpu_time()?;
    std::thread::sleep(IDLE);
    let idle = cpu_time()? - before;
    println!("{:.2}", 100.0 * idle.as_secs_f64() / IDLE.as_secs_f64());
    let before = cpu_time()?;
    std::io::stdin().read_line(&mut String::new())?;
    std::thread::sleep(Duration::from_millis(100));
    let used = cpu_time()? - before;
    let rendered = |sink: &gst::Element| {
        let stats = sink.property::<gst::Structure>("stats");
        stats.get::<u64>("rendered").unwrap_or(0)
    };
    let received: u64 = sinks.iter().map(rendered).sum();
    println!(
        "{received},{:.3}",
        used.as_secs_f64() * 1e6 / received.max(1) as f64
    );
    println!("{:.1}", memory_mb()?);
    pipeline.set_state(gst::State::Null)?;
    Ok(())
}

/// Returns the CPU time of this process. Source: proc(5), `/proc/[pid]/stat`.
fn cpu_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = text.rsplit_once(')').ok_or("the file has another format")?;
    // The fields after the name begin with number 3, and we need 14 and 15.
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<std::result::Result<u64, _>>()?;
    // Linux reports 100 ticks per second to programs.
    Ok(Duration::from_millis(ticks * 10))
}

/// Returns the resident memory of this process in MB.
fn memory_mb() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line
        .and_then(|line| line.trim().strip_suffix("kB"))
        .ok_or("the file has another format")?;
    Ok(kb.trim().parse::<f64>()? / 1_000.0)
}
