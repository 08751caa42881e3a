//! `wrk` as the client, if it is installed. It is an independent program that measures in its own
//! way.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

/// The results that wrk has printed at the end of a run.
#[derive(Debug, PartialEq)]
pub struct WrkReport {
    pub requests: f64,
    pub per_second: f64,
    pub wait_p50_us: f64,
    pub wait_p99_us: f64,
}

/// Returns whether wrk is installed.
pub fn is_installed() -> bool {
    Command::new("wrk").arg("--version").output().is_ok()
}

/// Runs wrk on one thread. The time is rounded up to whole seconds.
pub fn run(address: SocketAddr, connections: usize, sample: Duration) -> anyhow::Result<WrkReport> {
    let seconds = sample.as_secs_f64().ceil().max(1.0);
    let output = Command::new("wrk")
        .args(["-t1", "--latency", "--timeout", "10"])
        .arg(format!("-c{connections}"))
        .arg(format!("-d{seconds}"))
        .arg(format!("http://{address}/"))
        .output()
        .context("cannot start wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk failed: {}", output.status);
    parse(&text).with_context(|| format!("cannot parse the output of wrk: {text}"))
}

/// Parses the output of wrk. Returns `None` if a value is missing, or if wrk reports errors.
fn parse(text: &str) -> Option<WrkReport> {
    let after = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.map(str::trim)
    };
    if after("Socket errors:").is_some() || after("Non-2xx or 3xx responses:").is_some() {
        return None;
    }
    let requests = text.lines().find(|line| line.contains(" requests in "))?;
    Some(WrkReport {
        requests: requests.split_whitespace().next()?.parse().ok()?,
        per_second: after("Requests/sec:")?.parse().ok()?,
        wait_p50_us: microseconds(after("50%")?)?,
        wait_p99_us: microseconds(after("99%")?)?,
    })
}

/// Parses a time such as `1.25ms` to microseconds.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)];
    units.iter().find_map(|(unit, us)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(number * us)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Running 2s test @ http://127.0.0.1:1/
  1 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   278.90us  120.11us   3.02ms   90.53%
    Req/Sec   181.21k     5.40k  188.50k    75.00%
  Latency Distribution
     50%  262.00us
     75%  290.00us
     90%  380.00us
     99%    1.25ms
  360510 requests in 2.00s, 44.00MB read
Requests/sec: 180166.61
Transfer/sec:     21.99MB
";

    #[test]
    fn wrk_output_is_parsed() {
        let report = WrkReport {
            requests: 360_510.0,
            per_second: 180_166.61,
            wait_p50_us: 262.0,
            wait_p99_us: 1_250.0,
        };
        assert_eq!(parse(TEXT), Some(report));
        let broken = format!("{TEXT}  Socket errors: connect 0, read 3, write 0, timeout 0\n");
        assert_eq!(parse(&broken), None);
        assert_eq!(parse("wrk: nothing of the kind"), None);
    }
}
