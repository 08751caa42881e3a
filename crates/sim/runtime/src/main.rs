//! Measures how the runtime scales on a simulated machine.

mod cases;
mod clock;
mod curves;

use cases::CASES;
use creel_sim::{Arena, Machine, NAMES, Sim, Waited, profile};
use curves::{CURVES, Curve, HUGE_TREE};
use std::process::ExitCode;

#[global_allocator]
static ARENA: Arena = Arena;

const HELP: &str = "\
Measure how the runtime scales on a simulated machine.

Usage: creel-scale [OPTIONS]

  --machine NAME  Simulate this machine. Default: epyc-2x96
  --from N        Begin with this number of workers. Default: 1
  --to N          End with this number of workers. Default: all PUs
  --only NAME     Measure only this curve, or with --here only this operation. The curve
                  huge-tree is measured only in this way, because it takes minutes
  --here FILE     Simulate the machine and the operations in this output of creel-here instead
  --profile       Print what the threads wait for: memory, wakes, the clock
  --list          List the machines and the curves
  --help          Print this text
";

struct Options {
    machine: String,
    from: usize,
    to: usize,
    only: Option<String>,
    here: Option<String>,
    profile: bool,
}

fn options() -> Result<Option<Options>, String> {
    let mut options = Options {
        machine: "epyc-2x96".into(),
        from: 1,
        to: usize::MAX,
        only: None,
        here: None,
        profile: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| match text.parse() {
            Ok(0) | Err(_) => Err(format!("{word} needs a number of workers, not {text}")),
            Ok(number) => Ok(number),
        };
        match word.as_str() {
            "--machine" => options.machine = value()?,
            "--from" => options.from = number(value()?)?,
            "--to" => options.to = number(value()?)?,
            "--profile" => options.profile = true,
            "--only" => options.only = Some(value()?),
            "--here" => options.here = Some(value()?),
            "--list" => {
                let curves: Vec<_> = CURVES.iter().map(|curve| curve.name).collect();
                println!(
                    "machines: {}\ncurves: {}",
                    NAMES.join(" "),
                    curves.join(" ")
                );
                return Ok(None);
            }
            "--help" => {
                print!("{HELP}");
                return Ok(None);
            }
            other => return Err(format!("unknown argument {other}, see --help")),
        }
    }
    Ok(Some(options))
}

/// Returns the numbers of workers: `from` and its doubles below `to`, and then `to`.
fn steps(from: usize, to: usize) -> Vec<usize> {
    let mut steps = Vec::new();
    let mut next = from;
    while next < to {
        steps.push(next);
        next *= 2;
    }
    steps.push(to);
    steps
}

fn print(curve: &Curve, machine: &Machine, steps: &[usize], with_profile: bool) {
    println!("\n{}: {}", curve.name, curve.what);
    println!("bound: {}", curve.bound_is);
    println!(
        "{:>8} {:>12} {:>12} {:>7}",
        "workers", curve.unit, "bound", "ratio"
    );
    let mut rows = Vec::new();
    for &workers in steps {
        let (value, waited) = match with_profile {
            true => profile(|| (curve.measure)(machine, workers)),
            false => ((curve.measure)(machine, workers), Vec::new()),
        };
        let bound = (curve.bound)(machine, workers);
        rows.push((workers, value));
        println!(
            "{workers:>8} {value:>12.2} {bound:>12.2} {:>7.2}",
            value / bound
        );
        print_waits(&waited);
    }
    let most = rows
        .iter()
        .map(|row| row.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    for (workers, value) in rows {
        let length = (value / most * 50.0).round() as usize;
        println!("{workers:>8} |{}", "#".repeat(length));
    }
}

/// Prints the positions in the source where the threads wait longest.
fn print_waits(waited: &[Waited]) {
    for waited in waited.iter().take(16) {
        let (us, caller_us) = (waited.ns as f64 / 1e3, waited.first_ns as f64 / 1e3);
        let file = waited.at.file().rsplit("/src/").next().unwrap_or_default();
        println!(
            "{us:>21.1} us, {caller_us:>9.1} us in the caller, {} steps on {} lines at {file}:{}",
            waited.steps,
            waited.lines,
            waited.at.line()
        );
    }
}

/// The operations that consist mostly of ordinary instructions, and rarely wait for another core.
const ORDINARY: [&str; 4] = ["spawn-join", "hop", "channel", "chain"];

/// Returns the machine with the time of the ordinary instructions between two atomic accesses. We
/// choose this time so that the highest and the lowest ratio of the operations in [`ORDINARY`] are
/// equally far from 1. We assume that a simulated time is a linear function of it.
fn calibrated(mut machine: Machine, text: &str) -> Machine {
    const PROBE_PS: u64 = 1_000;
    let mut times = Vec::new();
    for case in CASES.iter().filter(|case| ORDINARY.contains(&case.name)) {
        let measured = text.lines().find_map(|line| {
            let time = line.strip_prefix("case ")?.strip_prefix(case.name)?;
            time.strip_prefix(' ')?.parse::<f64>().ok()
        });
        let Some(measured) = measured else { continue };
        let [without, with] = [0, PROBE_PS].map(|ps| {
            machine.costs.code_ps = ps;
            Sim::new(&machine).run(|| (case.measure)(2))
        });
        times.push((without / measured, (with - without) / measured));
    }
    // The highest and the lowest ratio are equally far from 1 if their product is 1.
    let is_too_short = |ps: u64| {
        let ratio = |(without, more): &(f64, f64)| without + more * ps as f64 / PROBE_PS as f64;
        let ratios = times.iter().map(ratio);
        let (least, most) = (
            ratios.clone().fold(f64::MAX, f64::min),
            ratios.fold(0.0, f64::max),
        );
        least * most < 1.0
    };
    let steps = (0..10_000).step_by(10);
    machine.costs.code_ps = steps.take_while(|ps| is_too_short(*ps)).last().unwrap_or(0);
    machine
}

/// Prints the measured and the simulated time of each operation in an output of `creel-here`.
fn compare(file: &str, with_profile: bool, only: Option<&str>) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let machine = Machine::measured(&text)?;
    if let Some(only) = only
        && !CASES.iter().any(|case| case.name == only)
    {
        let names = CASES.map(|case| case.name).join(", ");
        return Err(format!("unknown operation {only}, use one of {names}"));
    }
    let machine = calibrated(machine, &text);
    println!("machine: {} ({})", machine.name, machine.topology);
    println!(
        "ordinary instructions: {} ps per atomic access",
        machine.costs.code_ps
    );
    println!(
        "{:>16} {:>12} {:>12} {:>7}",
        "operation", "measured us", "simulated us", "ratio"
    );
    for words in text.lines().map(|line| line.split(' ').collect::<Vec<_>>()) {
        let &["case", name, measured] = words.as_slice() else {
            continue;
        };
        let case = CASES.iter().find(|case| case.name == name);
        let case = case.ok_or(format!("unknown operation {name}"))?;
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let measured: f64 = measured
            .parse()
            .map_err(|_| format!("{measured} is not a time"))?;
        let simulate = || Sim::new(&machine).run(|| (case.measure)(2));
        let (simulated, waited) = match with_profile {
            true => profile(simulate),
            false => (simulate(), Vec::new()),
        };
        let ratio = simulated / measured;
        println!(
            "{name:>16} {measured:>12.3} {simulated:>12.3} {ratio:>7.2}  {}",
            case.what
        );
        print_waits(&waited);
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("creel-scale: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(file) = &options.here {
        return match compare(file, options.profile, options.only.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("creel-scale: {file}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(machine) = Machine::named(&options.machine) else {
        let names = NAMES.join(", ");
        eprintln!(
            "creel-scale: unknown machine {}, use one of {names}",
            options.machine
        );
        return ExitCode::from(2);
    };
    let is_asked = |curve: &&Curve| match &options.only {
        Some(only) => only == curve.name,
        None => curve.name != HUGE_TREE,
    };
    if let Some(only) = &options.only
        && !CURVES.iter().any(|curve| curve.name == only)
    {
        let names: Vec<_> = CURVES.iter().map(|curve| curve.name).collect();
        let names = names.join(", ");
        eprintln!("creel-scale: unknown curve {only}, use one of {names}");
        return ExitCode::from(2);
    }
    let steps = steps(options.from, options.to.min(curves::pus(&machine)));
    println!("machine: {} ({})", machine.name, machine.topology);
    for curve in CURVES.iter().filter(is_asked) {
        print(curve, &machine, &steps, options.profile);
    }
    ExitCode::SUCCESS
}
