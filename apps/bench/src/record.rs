//! Records: folders that keep the reports of a run, together with the machine and all versions.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use creel_console::AtomicFile;
use creel_topology::{Budget, Machine};

use crate::host::{self, shown};
use crate::report::Report;

/// Writes the record `FOLDER/DATE-HOST` and returns its path. A second record of the same day gets
/// a number.
///
/// # Errors
///
/// Returns an error if the report is empty, or if a file cannot be written.
pub fn write(
    folder: &Path,
    report: &Report,
    machine: &Machine,
    budget: &Budget,
) -> anyhow::Result<PathBuf> {
    let Some(first) = report.sections.first() else {
        bail!("cannot write a record, because nothing was measured");
    };
    let name = format!("{}-{}", first.host.date, first.host.slug(machine));
    let numbered = |number: usize| match number {
        1 => folder.join(&name),
        number => folder.join(format!("{name}-{number}")),
    };
    let cannot_create = |folder: &Path| format!("cannot create the folder {}", folder.display());
    fs::create_dir_all(folder).with_context(|| cannot_create(folder))?;
    let mut number = 1;
    let folder = loop {
        let folder = numbered(number);
        match fs::create_dir(&folder) {
            Ok(()) => break folder,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error).context(cannot_create(&folder)),
        }
    };
    for name in ["report.html", "report.md", "report.json"] {
        report.write(&folder.join(name), machine, budget)?;
    }
    let about = about(report);
    AtomicFile::write(&folder.join("README.md"), about.as_bytes())?;
    Ok(folder)
}

/// Returns the text of the record's page. It has everything that you need to repeat the run: the
/// machine, the commit, the versions and the command.
fn about(report: &Report) -> String {
    let mut out = String::new();
    let Some(section) = report.sections.first() else {
        return out;
    };
    let host = &section.host;
    let command = std::env::args().skip(1);
    let command: Vec<String> = command.map(|word| crate::readme::quoted(&word)).collect();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "# {}, {}\n\n\
         `creel-bench {}`, commit {}. Open `report.html` in a browser, or compare another run with \
         `report.json` using `creel-bench --compare`.\n\n",
        host.date,
        host.cpu,
        command.join(" "),
        report.commits(),
    );
    let _ = writeln!(out, "| | |\n|---|---|");
    let limits = &host.limits;
    let memory = host.memory_bytes.map_or("unknown".into(), |bytes| {
        format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
    });
    let mut facts = vec![
        ("usable PUs", host.allowed.clone()),
        ("bound by", host.quota.clone()),
        (
            "virtual machine",
            if host.virtual_machine {
                "yes"
            } else {
                "not known"
            }
            .into(),
        ),
        ("kernel", host.kernel.clone()),
        (
            "governor, turbo",
            format!("{}, {}", shown(&host.governor), shown(&host.turbo)),
        ),
        ("memory", memory),
        (
            "limits",
            format!(
                "{} files, {} processes, stack {}, locked {}",
                limits.files, limits.processes, limits.stack, limits.locked
            ),
        ),
        ("compiler", format!("{}, {}", host.compiler, host.target)),
    ];
    if section.quick {
        facts.push(("length", "short samples, few rounds".into()));
    }
    if let Some(floor) = report.noise_floor() {
        facts.push(("noise", format!("{:.1} %", (floor - 1.0) * 100.0)));
    }
    for (name, value) in facts {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    for (name, version) in host::versions() {
        let _ = writeln!(out, "| {name} | {version} |");
    }
    for section in &report.sections {
        if let Some(disturbance) = section.disturbance {
            let _ = writeln!(
                out,
                "| {}: others, host | {:.1} %, {:.1} % |",
                section.workload,
                disturbance.others * 100.0,
                disturbance.stolen * 100.0
            );
        }
    }
    out
}
