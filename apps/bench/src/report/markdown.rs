//! The Markdown format of a report, for a repository or an issue.

use std::fmt::Write;

use super::{Report, findings, table};

/// Returns the whole report.
pub fn page(report: &Report) -> String {
    let mut out = String::from("# Creel compared with other libraries on this machine\n\n");
    // Writing to a String cannot fail.
    for line in findings::about(report) {
        let _ = writeln!(out, "{line}\n");
    }
    for section in &report.sections {
        let _ = writeln!(out, "## {}\n", section.workload);
        for finding in findings::of(section) {
            let _ = writeln!(out, "- {finding}");
        }
        for case in section.cases() {
            let _ = writeln!(
                out,
                "\n<details><summary>{}: {}</summary>\n\n{}\n</details>",
                case.name,
                case.unit(),
                // A page can be scrolled, so it has room for all metrics.
                table(&case, usize::MAX).markdown()
            );
        }
        out.push('\n');
    }
    out
}
