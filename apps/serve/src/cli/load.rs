//! `creel-serve load`: sends an open load and reports the results.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel_console::plot::{Chart, Series};
use creel_console::{
    Align, Common, Document, Exit, Failure, Format, Interrupt, Table, output, with_causes,
};
use creel_serve::load::{self, Arrivals, Latency, LoadError, Mix, Moment, Plan, Report, Step};
use creel_topology::{Budget, Machine};
use serde::Serialize;

use super::stop_requested;
use super::time::Time;

const EXAMPLES: &str = "\
Examples:
  creel-serve load http://127.0.0.1:8080 --rate 1000
          Ask for a thousand signatures per second for ten seconds
  creel-serve load http://127.0.0.1:8080 --rate 500,1000,2000,4000 --request check --svg load.svg
          Check passwords at rising rates, and draw a plot over time";

/// Send an open load: requests leave at planned times and do not wait for answers
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Load {
    /// Send requests to this service, as http://HOST:PORT
    #[arg(value_name = "URL", value_parser = address)]
    to: SocketAddr,
    /// Send R requests per second. Several rates run one after the other, each for --step
    #[arg(
        long,
        value_name = "R,…",
        default_value = "1000",
        value_delimiter = ',',
        value_parser = rate,
        help_heading = "Load"
    )]
    rate: Vec<f64>,
    /// Change the rate linearly from each value to the next, instead of in steps
    #[arg(long, help_heading = "Load")]
    ramp: bool,
    /// Keep each rate for TIME. With --ramp, TIME is the duration of the change from one rate to
    /// the next
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        help_heading = "Load"
    )]
    step: Time,
    /// Send these requests: sign, digest, password, check (a password) or health. Mix several with
    /// weights, for example sign=9,check=1
    #[arg(
        long,
        value_name = "MIX",
        default_value = "sign",
        help_heading = "Load"
    )]
    request: Mix,
    /// Choose the times at which requests leave
    #[arg(
        long,
        value_name = "HOW",
        default_value = "poisson",
        help_heading = "Load"
    )]
    arrivals: How,
    /// Use up to N connections. With too few, requests leave late, which the report shows
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Load")]
    connections: usize,
    /// Count a request as timed out if its answer takes longer than TIME
    #[arg(long, value_name = "TIME", default_value = "5s", help_heading = "Load")]
    timeout: Time,
    /// Limit the service's work on a request to TIME, with the header x-timeout-ms [default: the
    /// --deadline of the service]
    #[arg(long, alias = "patience", value_name = "TIME", help_heading = "Load")]
    request_timeout: Option<Time>,
    /// Pad each message to at least BYTES bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 64,
        help_heading = "Load"
    )]
    size: usize,
    /// Seed the random numbers with N. The same seed gives the same requests
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,
    /// Use N workers to send the load
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = creel_console::knobs::jobs,
        help_heading = "Load"
    )]
    jobs: usize,
    /// Check that the body of each answer is correct, and exit with 1 if one is not
    #[arg(long, help_heading = "Output")]
    check: bool,
    /// Write the names of all acknowledged records to FILE, one per line. Needs --check
    #[arg(long, value_name = "FILE", requires = "check", help_heading = "Output")]
    acknowledged: Option<PathBuf>,
    /// Draw rates and latencies over time to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    /// At random times, like the requests of many independent clients
    Poisson,
    /// At equal intervals
    Constant,
}

/// Parses the URL of a service and resolves its host.
fn address(url: &str) -> Result<SocketAddr, String> {
    if url.starts_with("https://") {
        return Err("only http:// is supported: start the service without TLS for a load".into());
    }
    let address = url
        .strip_prefix("http://")
        .unwrap_or(url)
        .trim_end_matches('/');
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| error.to_string())?;
    found
        .next()
        .ok_or_else(|| "the host has no address: check its name, or use an IP address".into())
}

/// Parses a rate in requests per second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1e6).contains(&rate) => Ok(rate),
        _ => Err("expected a number of requests per second, up to 1000000".into()),
    }
}

/// The body of the JSON report.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Body<'a> {
    steps: &'a [Step],
    moments: &'a [Moment],
    is_offered: bool,
    cpu_wait_share: Option<f64>,
}

impl Load {
    /// Runs the load and prints its report. Fails if an answer was wrong or missing, or if the load
    /// was late.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        if self.ramp && self.rate.len() < 2 {
            anyhow::bail!(Failure::new(
                Exit::Usage,
                "--ramp needs at least two rates, for example --rate 100,1000"
            ));
        }
        if !self.ramp && self.rate.contains(&0.0) {
            anyhow::bail!(Failure::new(
                Exit::Usage,
                "with --rate 0 no request would be sent: use a rate above 0, or --ramp"
            ));
        }
        if self.connections == 0 {
            anyhow::bail!(Failure::new(
                Exit::Usage,
                "with --connections 0 no request would be sent: use 1 or more"
            ));
        }
        let interrupt = Interrupt::install()?;
        let report = load::run(self.plan(), stop_requested(interrupt.clone())).map_err(
            |error| match error {
                LoadError::Pool(_) => Failure::new(Exit::Usage, with_causes(error)),
                LoadError::Service(_) => Failure::new(Exit::TryAgain, with_causes(error)),
            },
        )?;
        self.print(common, &report)?;
        interrupt.check()?;
        if report.wrong() > 0 {
            anyhow::bail!(Failure::new(
                Exit::SomeFailed,
                format!(
                    "{} answers with status 200 had a wrong body (see the column wrong): the \
                     service computes wrong results",
                    report.wrong()
                )
            ));
        }
        if report.failed() > 0 {
            let why = format!(
                "{} requests were not answered with status 200 or 503 (see the columns other and \
                 late): look for the reason in the log of the service",
                report.failed()
            );
            anyhow::bail!(Failure::new(Exit::SomeFailed, why));
        }
        if report.has_no_success() {
            let why = "no request was answered with status 200: if all were refused with 503, use \
                       a lower --rate";
            anyhow::bail!(Failure::new(Exit::SomeFailed, why));
        }
        if !report.is_offered() {
            let share = report.cpu_wait_share.unwrap_or_default();
            let starved = format!(
                "the load generator itself waited for a CPU {:.0} % of the time. The service or other \
                 programs kept the CPUs busy. Run it on another machine, or on CPUs of its own \
                 (taskset)",
                100.0 * share
            );
            let why = match report.is_crowded() {
                _ if report.is_starved() => &*starved,
                true => {
                    "all connections waited for answers. The service is too slow for this load, \
                         or it needs more --connections"
                }
                false => "the load generator was too slow. Use more --jobs",
            };
            let why = format!("less than 99 % of the requests left in time, because {why}");
            anyhow::bail!(Failure::new(Exit::TryAgain, why));
        }
        Ok(Exit::Done)
    }

    /// Returns the plan of the load.
    fn plan(&self) -> Plan {
        Plan {
            to: self.to,
            mix: self.request.clone(),
            rates: self.rate.clone(),
            step: self.step.0,
            is_ramp: self.ramp,
            arrivals: match self.arrivals {
                How::Poisson => Arrivals::Poisson,
                How::Constant => Arrivals::Constant,
            },
            connections: self.connections,
            timeout: self.timeout.0,
            request_timeout: self.request_timeout.map(|time| time.0),
            check: self.check,
            size: self.size,
            seed: self.seed,
            workers: self.jobs,
        }
    }

    /// Writes the files that were asked for, and prints the report.
    fn print(&self, common: &Common, report: &Report) -> anyhow::Result<()> {
        if let Some(path) = &self.acknowledged {
            let lines: String = report
                .acknowledged
                .iter()
                .map(|id| format!("{id}\n"))
                .collect();
            fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let charts = charts(&report.moments);
        if let Some(path) = &self.svg {
            // The charts are stacked in one picture.
            let all: String = charts.iter().map(Chart::svg).collect();
            fs::write(path, stacked(&all))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        match common.format {
            Format::Text => {
                let mut text = table(&report.steps).text();
                for chart in &charts {
                    text += &format!("\n{}", chart.text(72, 12));
                }
                output::text(&text)?;
            }
            Format::Json => {
                let machine = Machine::detect()?;
                let (steps, moments) = (&report.steps, &report.moments);
                let body = Body {
                    steps,
                    moments,
                    is_offered: report.is_offered(),
                    cpu_wait_share: report.cpu_wait_share,
                };
                output::json(&Document::new(&machine, &Budget::of(&machine), body))?;
            }
            Format::Csv => output::csv(&report.moments)?,
        }
        Ok(())
    }
}

/// Puts two drawings of 720 × 420 into one, below each other.
fn stacked(drawings: &str) -> String {
    let mut parts = drawings
        .split_inclusive("</svg>")
        .filter(|part| part.contains("<svg"))
        // Without a size of its own, an inner picture would fill the outer one and be centred.
        .map(|part| part.replacen("<svg", "<svg width=\"720\" height=\"420\"", 1));
    let (first, second) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"840\" viewBox=\"0 0 720 840\">\n\
         {first}\n<g transform=\"translate(0 420)\">\n{second}\n</g>\n</svg>\n"
    )
}

/// Returns the percentiles of a latency as three cells of a table, in milliseconds.
fn ms(latency: Option<Latency>) -> [String; 3] {
    let Some(Latency {
        p50_us,
        p99_us,
        p999_us,
        ..
    }) = latency
    else {
        return ["-"; 3].map(str::to_owned);
    };
    [p50_us, p99_us, p999_us].map(|us| format!("{:.1}", us as f64 / 1000.0))
}

/// Returns the table of all steps.
fn table(steps: &[Step]) -> Table {
    let columns = [
        "planned/s",
        "offered",
        "good/s",
        "503",
        "other",
        "wrong",
        "late",
        "p50",
        "p99",
        "p99.9 ms",
        "p50",
        "p99",
        "p99.9 uncorrected",
    ];
    let mut table = Table::new(&columns.map(|title| (title, Align::Right)));
    for step in steps {
        let share = format!(
            "{:.1} %{}",
            step.offered_share * 100.0,
            if step.is_offered() { "" } else { " !" }
        );
        let ([p50, p99, p999], [left_p50, left_p99, left_p999]) =
            (ms(step.corrected), ms(step.uncorrected));
        table.row([
            format!("{:.0}", step.rate_per_second),
            share,
            format!("{:.0}", step.goodput_per_second),
            step.refused.to_string(),
            (step.other + step.errors).to_string(),
            step.wrong.to_string(),
            step.timeouts.to_string(),
            p50,
            p99,
            p999,
            left_p50,
            left_p99,
            left_p999,
        ]);
    }
    table
}

/// Returns the charts of the results over time.
fn charts(moments: &[Moment]) -> [Chart; 2] {
    let series = |name: &str, of: &dyn Fn(&Moment) -> f64| Series {
        name: name.into(),
        points: moments
            .iter()
            .map(|moment| (moment.at_s, of(moment)))
            .collect(),
    };
    let ms = |us: Option<u64>| us.map_or(f64::NAN, |us| us as f64 / 1000.0);
    let chart = |title: &str, y_label: &str, series| Chart {
        title: title.into(),
        x_label: "s".into(),
        y_label: y_label.into(),
        series,
    };
    let rates = vec![
        series("planned", &|moment| moment.due_per_second),
        series("good", &|moment| moment.goodput_per_second),
        series("503", &|moment| moment.refused_per_second),
        series("failed", &|moment| moment.failed_per_second),
    ];
    let times = vec![
        series("p50", &|moment| ms(moment.p50_us)),
        series("p99", &|moment| ms(moment.p99_us)),
    ];
    [
        chart("Answers", "per second", rates),
        chart("Corrected latency", "ms", times),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_url_of_a_service_is_plain_http() {
        let found = address("http://127.0.0.1:80/").map(|address| address.to_string());
        assert_eq!(found.as_deref(), Ok("127.0.0.1:80"));
        assert!(address("https://127.0.0.1:443").is_err_and(|why| why.contains("http://")));
    }

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-serve-load",
            schemars::schema_for!(creel_console::Document<Body<'_>>),
        );
    }
}
