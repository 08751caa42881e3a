//! Measures the costs of this machine, and the time of some operations of the runtime on it. Prints
//! both as `creel-scale --here` reads them.

#[path = "../../runtime/src/cases.rs"]
mod cases;
mod clock;
mod costs;

use std::process::ExitCode;

const HELP: &str = "\
Measure this machine for the simulator.

Usage: creel-here > here.txt

Prints the costs of single steps and the times of some operations of the runtime, on two PUs. Then
`creel-scale --here here.txt` simulates the same operations with these costs. Let the machine do
nothing else meanwhile.
";

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some() {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let machine = match creel_topology::Machine::detect() {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("creel-here: cannot read the topology: {error}");
            return ExitCode::FAILURE;
        }
    };
    let &[first, second, ..] = machine.pus() else {
        eprintln!("creel-here: this machine has only one PU, and two are needed");
        return ExitCode::FAILURE;
    };
    let both = [first, second].into_iter().collect();
    let cores = machine.cores_in(&both);
    println!(
        "topology package:1 l3:1 core:{cores} pu:{}",
        2 / cores.max(1)
    );
    for case in cases::CASES {
        eprintln!("{}: {}", case.name, case.what);
        println!("case {} {:.3}", case.name, (case.measure)(2));
    }
    // The costs come last, because measuring them pins this thread.
    for (name, ns) in costs::measure([first, second]) {
        println!("cost {name} {ns}");
    }
    ExitCode::SUCCESS
}
