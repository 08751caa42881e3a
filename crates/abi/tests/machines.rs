//! Compares the number of workers in C, Python, Go, Node and Haskell with that of `creel-topology`,
//! for captured machines and for limits that we write here. A language that is not installed is
//! skipped with a message.

use creel_topology::{Budget, CpuSet, Machine};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// The folder of a machine, the affinity mask, and the expected number of workers. The mask is an
/// empty text if the row has none.
type Row = (String, String, usize);

/// Unpacks the captured machines. They are not part of the project. We look for them in the folder
/// that `CREEL_SHARED` names, or in `../shared` next to the project.
fn captured(into: &Path) -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = env::var_os("CREEL_SHARED").map_or(beside, PathBuf::from);
    let archive = shared.join("machines/machines.tar.xz");
    let mut tar = Command::new("tar");
    let unpacked = tar.arg("-xJf").arg(archive).arg("-C").arg(into).output();
    if !unpacked.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: CREEL_SHARED or ../shared has no machines/machines.tar.xz");
        return Vec::new();
    }
    let machines = fs::read_dir(into.join("machines")).unwrap().flatten();
    let folders = machines.map(|entry| entry.path());
    folders.filter(|path| path.is_dir()).collect()
}

/// Writes machines of 8 CPUs with limits of control groups.
fn written(into: &Path) -> Vec<PathBuf> {
    const V2: &str = "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const V1: &str = "1 0 0:1 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      2 0 0:1 / /set rw - cgroup cgroup rw,cpuset\n";
    let smt = "sys/devices/system/cpu/cpu0/topology/core_cpus_list";
    let trees: [&[(&str, &str)]; 9] = [
        &[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/a/cpu.max", "250000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max\n"),
        ],
        &[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-5\n"),
            ("sys/fs/cgroup/a/b/cpuset.cpus.effective", "0,2,4\n"),
        ],
        &[
            ("proc/self/cgroup", "4:cpu,cpuacct:/a\n3:cpuset:/s\n"),
            ("proc/self/mountinfo", V1),
            ("cpu/a/cpu.cfs_quota_us", "350000\n"),
            ("cpu/a/cpu.cfs_period_us", "100000\n"),
            ("set/s/cpuset.cpus", "1-6\n"),
        ],
        &[
            ("proc/self/cgroup", "4:cpu,cpuacct:/a\n"),
            ("proc/self/mountinfo", V1),
            ("cpu/a/cpu.cfs_quota_us", "-1\n"),
        ],
        &[
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/a/pids.max", "12\n"),
            ("sys/fs/cgroup/a/pids.current", "7\n"),
        ],
        // The mount begins two levels above the namespace, so the names in between are hidden.
        &[
            ("proc/self/cgroup", "0::/\n"),
            (
                "proc/self/mountinfo",
                "1 0 0:1 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("proc/self/stat", "42 (test) R 1\n"),
            ("sys/fs/cgroup/a/cpu.max", "300000 100000\n"),
            ("sys/fs/cgroup/a/b/cgroup.procs", "7\n42\n"),
            ("sys/fs/cgroup/c/d/cgroup.procs", "9\n"),
            ("sys/fs/cgroup/c/d/cpu.max", "100000 100000\n"),
        ],
        // Something else is mounted over the first mount, so the group is missing there.
        &[
            ("proc/self/cgroup", "0::/a/b\n"),
            (
                "proc/self/mountinfo",
                "1 0 0:1 / /over\\040mounted rw - cgroup2 cgroup2 rw\n\
                 2 0 0:1 /a /shown rw - cgroup2 cgroup2 rw\n",
            ),
            ("over mounted/cpu.max", "100000 100000\n"),
            ("shown/b/cpu.max", "200000 100000\n"),
        ],
        &[(
            "proc/self/limits",
            "Max processes             3                    3     processes\n",
        )],
        &[
            (smt, "0-1\n"),
            (
                "sys/devices/system/cpu/cpu2/topology/thread_siblings",
                "0c\n",
            ),
        ],
    ];
    let write = |(number, files): (usize, &&[(&str, &str)])| {
        let root = into.join(format!("written{number}"));
        let online = [("sys/devices/system/cpu/online", "0-7\n")];
        for (name, text) in online.iter().chain(files.iter()) {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    };
    trees.iter().enumerate().map(write).collect()
}

/// Returns several rows for each machine: one without a mask, and others with masks. Each row has
/// the number of workers that we expect.
fn rows(folder: &Path) -> Vec<Row> {
    let written = written(folder);
    let machines = [captured(folder), written.clone()].concat();
    let row = |root: &PathBuf, mask: &str| {
        let set: Option<CpuSet> = (!mask.is_empty()).then(|| mask.parse().unwrap());
        // CPUs that do not exist do not count, as in sched_setaffinity(2).
        let set = set.map(|set| match Machine::read_cores_from(root) {
            Ok(machine) => &set & machine.online(),
            Err(_) => set,
        });
        let workers = match &set {
            Some(set) if set.is_empty() => 0,
            _ => Budget::of(&Machine::detect_cores_in(root, set.as_ref())).workers(),
        };
        (root.display().to_string(), mask.to_string(), workers)
    };
    let masks = ["", "0", "0-2", "1,3-6", "2-300", "300-400"];
    let mut rows: Vec<Row> = Vec::new();
    for root in &machines {
        rows.extend(masks.map(|mask| row(root, mask)));
    }
    // This machine has 8 CPUs and no limits. An invalid mask is an error, which is 0.
    let root = written[3].display().to_string();
    let fixed = [("6-100", 2), ("8", 0), ("0,8", 1), ("3-1", 0), ("all", 0)];
    rows.extend(fixed.map(|(mask, workers)| (root.clone(), mask.into(), workers)));
    rows.extend(["", "0"].map(|mask| (format!("{root}/none"), mask.into(), 0)));
    rows
}

/// Writes the rows as lines of fields that are separated by tabs.
fn table(rows: &[Row], folder: &Path) -> PathBuf {
    let line = |(root, mask, workers): &Row| format!("{root}\t{mask}\t{workers}\n");
    let text: String = rows.iter().map(line).collect();
    let path = folder.join("table");
    fs::write(&path, text).unwrap();
    path
}

/// Returns the newest file that cargo has built and whose name has this beginning and ending.
fn built(beginning: &str, ending: &str) -> PathBuf {
    let own = env::current_exe().unwrap();
    let found = fs::read_dir(own.parent().unwrap()).unwrap().flatten();
    let ours = found.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with(beginning) && name.ends_with(ending)
    });
    let newest = ours.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    newest.expect("cargo must have built it").path()
}

/// Runs a command, and compares the number on each line of its output with the number of the row.
/// Returns without a check if the program is not installed.
fn compare(command: &mut Command, rows: &[Row]) {
    let Ok(out) = command.output() else {
        eprintln!(
            "skipped: {} is not installed",
            command.get_program().display()
        );
        return;
    };
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {errors}");
    let text = String::from_utf8(out.stdout).unwrap();
    let found: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), rows.len());
    for (row, found) in rows.iter().zip(found) {
        assert_eq!(row.2, found, "{} with the mask {:?}", row.0, row.1);
    }
}

fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages")
}

/// Reads the table and prints the number of the C library for each line.
const C: &str = r#"
#include <creel.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words)
{
    char line[4096];
    FILE *table = fopen(words[count - 1], "r");
    while (table != NULL && fgets(line, sizeof line, table) != NULL) {
        char *mask = strchr(line, '\t'), *end;
        *mask++ = '\0';
        end = strchr(mask, '\t');
        *end = '\0';
        printf("%u\n", creel_workers_in(line, *mask == '\0' ? NULL : mask));
    }
    return 0;
}
"#;

const PYTHON: &str = "
import sys
from creel._library import library
for line in open(sys.argv[1], encoding='utf-8'):
    root, mask, _ = line.split('\\t')
    print(library.creel_workers_in(root.encode(), mask.encode() or None))
";

const NODE: &str = "
const { topo } = require(process.argv[1]);
for (const line of require('node:fs').readFileSync(process.argv[2], 'utf8').trim().split('\\n')) {
  console.log(topo({ root: line.split('\\t')[0] }).budget.workers);
}
";

fn c(rows: &[Row], folder: &TempDir) {
    let (source, program) = (folder.path().join("count.c"), folder.path().join("count"));
    fs::write(&source, C).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut cc = Command::new("cc");
    cc.arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-I")
        .arg(include);
    cc.arg(built("libcreel_abi", ".a"))
        .args(["-lpthread", "-ldl", "-lm"]);
    match cc.output() {
        Ok(out) => assert!(out.status.success(), "{out:?}"),
        Err(_) => return eprintln!("skipped: cc is not installed"),
    }
    compare(Command::new(program).arg(table(rows, folder.path())), rows);
}

/// Compiles the C source of the package for Haskell with sanitizers.
fn haskell(rows: &[Row], folder: &TempDir) {
    let (source, program) = (
        folder.path().join("haskell.c"),
        folder.path().join("haskell"),
    );
    let call = C.replace("creel_workers_in", "creel_hs_workers_in");
    let call = call.replace("NULL : mask", "\"\" : mask");
    let declared = "unsigned creel_hs_workers_in(const char *root, const char *mask);";
    fs::write(&source, call.replace("#include <creel.h>", declared)).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-g"]);
    cc.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    cc.arg(packages().join("haskell/cbits/budget.c"));
    match cc.arg(source).arg("-o").arg(&program).output() {
        Ok(out) => assert!(out.status.success(), "{out:?}"),
        Err(_) => return eprintln!("skipped: cc is not installed"),
    }
    compare(Command::new(program).arg(table(rows, folder.path())), rows);
}

fn python(rows: &[Row], folder: &TempDir) {
    let library = folder.path().join("libcreel.so.1");
    fs::copy(built("libcreel_abi", ".so"), library).unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).arg(table(rows, folder.path()));
    python.env("PYTHONPATH", packages().join("python"));
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    compare(python.env("LD_LIBRARY_PATH", folder.path()), rows);
}

fn go(rows: &[Row], folder: &TempDir) {
    let mut go = Command::new("go");
    go.args(["test", "-count=1", "."])
        .current_dir(packages().join("go"));
    go.env("CREEL_EXPECTED_TABLE", table(rows, folder.path()));
    go.env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .env("GOTOOLCHAIN", "local");
    match go.output() {
        Ok(out) => assert!(out.status.success(), "{out:?}"),
        Err(_) => eprintln!("skipped: go is not installed"),
    }
}

fn node(rows: &[Row], folder: &TempDir) {
    let own = env::current_exe().unwrap();
    let tool = own.parent().unwrap().join("../creel");
    if !tool.exists() {
        return eprintln!(
            "skipped: creel-cli has not been built, which the package for Node contains"
        );
    }
    let mut build = Command::new(packages().join("npm/build"));
    assert!(
        build
            .arg(tool)
            .arg(folder.path())
            .status()
            .unwrap()
            .success()
    );
    // The package for Node runs `creel`, which has no option for the mask and returns an error for
    // a machine that lists no CPU. Therefore we leave out such rows.
    let plain = rows
        .iter()
        .filter(|row| row.1.is_empty() && Machine::read_cores_from(row.0.as_ref()).is_ok());
    let plain: Vec<Row> = plain.cloned().collect();
    let mut node = Command::new("node");
    node.args(["-e", NODE]).arg(folder.path().join("creel"));
    compare(node.arg(table(&plain, folder.path())), &plain);
}

#[test]
fn all_languages_agree_on_captured_machines() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(folder.path());
    assert!(rows.len() >= 36 && rows.iter().any(|row| row.2 == 2));
    c(&rows, &folder);
    python(&rows, &folder);
    go(&rows, &folder);
    node(&rows, &folder);
    haskell(&rows, &folder);
}
