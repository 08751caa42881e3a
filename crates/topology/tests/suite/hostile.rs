//! Fuzzes the trees that a machine is read from. Containers, emulators and old kernels show files
//! that are missing, empty, huge or unreadable, or that contradict each other. None of them may
//! keep a program from starting.
//!
//! For each tree, the tests check three properties:
//!
//! - `Machine::detect_in` returns a machine.
//! - The allowed PUs of the machine are those of the thread's mask, if there is one.
//! - The budget has at least one worker, and every policy can place workers on the allowed PUs.
//!
//! `CREEL_FUZZ` sets the number of mutations. If `CREEL_FUZZ_PROGRAM` is a command line, each tree
//! also becomes the `/sys` and `/proc` of a mount namespace (this needs root). The test checks that
//! the command succeeds in this namespace. If it prints a number of workers, the number must be at
//! least one. For example: `CREEL_FUZZ_PROGRAM="creel run --explain -- echo started"`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use creel_topology::{Budget, CpuSet, Machine, Placement, Rounding, place};

use crate::captured;
use crate::mutation::{files, mutated, whole};
use crate::support::{CPU, Dice, Fixture, set};

const POLICIES: [Placement; 8] = [
    Placement::Unpinned,
    Placement::Cores,
    Placement::Pus,
    Placement::Close,
    Placement::Spread,
    Placement::PerCache,
    Placement::PerNode,
    Placement::FastCores,
];

/// The maximum CPU time of the reads of one tree. A machine with 256 PUs takes about 50 ms. On a
/// busy machine, the wall time can be a hundred times longer.
const READ_MAX: Duration = Duration::from_secs(5);

/// Returns the CPU time of this thread, or zero if the system does not report it.
fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Checks the properties for one tree. The number of the check chooses the placements.
fn check(root: &Path, mask: Option<&CpuSet>, number: usize, change: &str) {
    let begin = cpu_time();
    for machine in [
        Machine::detect_in(root, mask),
        Machine::detect_cores_in(root, mask),
    ] {
        assert!(!machine.allowed().is_empty(), "{change}");
        assert!(machine.allowed().is_subset(machine.online()), "{change}");
        if let Some(mask) = mask {
            assert_eq!(machine.allowed(), mask, "{change}");
        }
        for rounding in [Rounding::Floor, Rounding::Ceil] {
            let budget = Budget::rounded(&machine, rounding);
            assert!(budget.workers() >= 1, "{change}");
            assert!(budget.bound_by().workers >= 1, "{change}");
        }
        // Some placements compare each core with each other core. Trying all placements for each
        // tree would take longer than reading the tree.
        let placed = usize::from(machine.online().len() <= 2048) * 2;
        let policies = POLICIES.iter().cycle().skip(number % POLICIES.len());
        for policy in policies.take(placed) {
            let layout = place(&machine, machine.allowed(), 3, policy);
            let layout = layout.unwrap_or_else(|error| panic!("{change}: {policy}: {error}"));
            let allowed = |pus: &CpuSet| !pus.is_empty() && pus.is_subset(machine.allowed());
            assert!(layout.assigned().iter().all(allowed), "{change}: {policy}");
        }
        let kinds = machine
            .kinds()
            .iter()
            .map(|kind| kind.pus.len())
            .sum::<usize>();
        assert!(kinds <= machine.online().len(), "{change}");
        assert!(
            machine.notes().iter().all(|note| note.lines().count() == 1),
            "{change}"
        );
    }
    let took = cpu_time().saturating_sub(begin);
    assert!(took < READ_MAX, "{change}: {took:?}");
}

/// Returns a random set of at most eight PUs.
fn some_pus(dice: &mut Dice) -> CpuSet {
    let bound = [2, 8, 64, 1024][dice.below(4)];
    (0..1 + dice.below(8)).map(|_| dice.below(bound)).collect()
}

/// Returns a text that contradicts the other files, or is not a text at all.
fn contradiction(dice: &mut Dice) -> Vec<u8> {
    match dice.below(9) {
        0 => Vec::new(),
        1 => b"\n".to_vec(),
        2 => some_pus(dice).to_string().into_bytes(),
        3 => format!("{:x}", dice.below(1 << 20)).into_bytes(),
        4 => b"0-16383\n".to_vec(),
        5 => b"max 0\n".to_vec(),
        6 => format!("-{}\n", dice.below(1 << 30)).into_bytes(),
        7 => "18446744073709551615 1\n"
            .repeat(dice.below(20_000))
            .into_bytes(),
        _ => (0..dice.below(64)).map(|_| dice.below(256) as u8).collect(),
    }
}

/// Changes one file of the tree, and returns a function that restores it and a description.
fn change(dice: &mut Dice, root: &Path, path: &Path) -> (Box<dyn FnOnce()>, String) {
    let original = fs::read(path).unwrap();
    let restored = path.to_owned();
    let restore = move || {
        if restored.is_dir() && !restored.is_symlink() {
            fs::remove_dir_all(&restored).unwrap();
        } else if restored.symlink_metadata().is_ok() {
            fs::remove_file(&restored).unwrap();
        }
        fs::write(&restored, &original).unwrap();
    };
    let replace = || fs::remove_file(path).unwrap();
    let what = match dice.below(8) {
        0 => {
            replace();
            "missing"
        }
        1 => {
            // A file that links to itself fails with ELOOP.
            replace();
            symlink(path.file_name().unwrap(), path).unwrap();
            "looping"
        }
        2 => {
            replace();
            symlink("/dev/zero", path).unwrap();
            "endless"
        }
        3 => {
            replace();
            fs::create_dir(path).unwrap();
            "a folder"
        }
        4 => {
            replace();
            symlink("/proc/self/mem", path).unwrap();
            "unreadable"
        }
        5 => {
            let bytes = mutated(dice, &fs::read(path).unwrap());
            fs::write(path, bytes).unwrap();
            "mutated"
        }
        _ => {
            fs::write(path, contradiction(dice)).unwrap();
            "contradicting"
        }
    };
    let name = path.strip_prefix(root).unwrap().display();
    (Box::new(restore), format!("{name}: {what}"))
}

/// A shell in a mount namespace in which `/sys` and `/proc` show the files of a tree. It runs a
/// command for each line that it gets, so that the mounts are made only once.
struct Namespace {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

impl Namespace {
    /// Enters a tree, if `CREEL_FUZZ_PROGRAM` is set.
    fn enter(root: &Path) -> Option<Namespace> {
        let program = std::env::var_os("CREEL_FUZZ_PROGRAM")?;
        let script = "mount --bind \"$2/sys\" /sys && { ! [ -d \"$2/proc\" ] || \
                      mount --bind \"$2/proc\" /proc; } || exit 1\n\
                      while read -r _; do eval \"$1\" 2>&1 </dev/null; echo \"; end $?\"; done";
        let mut shell = Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh"])
            .arg(program)
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(shell.stdout.take().unwrap());
        Some(Namespace { shell, answers })
    }

    /// Checks that the command succeeds, and that it starts at least one worker.
    fn check(&mut self, change: &str) {
        let input = self.shell.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
        let mut answer = Vec::new();
        let end = loop {
            let before = answer.len();
            let count = self.answers.read_until(b'\n', &mut answer).unwrap();
            let line = String::from_utf8_lossy(&answer[before..]).into_owned();
            assert!(count > 0, "{change}: the shell has ended");
            if let Some((_, code)) = line.split_once("; end ") {
                break code.trim().to_owned();
            }
        };
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(end, "0", "{change}: {answer}");
        if let Some((before, _)) = answer.split_once(" worker") {
            let number = before.rsplit([' ', '\n']).next().unwrap_or_default();
            let workers = number.parse::<usize>().ok();
            assert!(workers.is_some_and(|n| n >= 1), "{change}: {answer}");
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A tree with the paths of its files.
struct Tree {
    root: PathBuf,
    paths: Vec<PathBuf>,
    /// The files of the process and the lists of PUs. A change to one of these has more effect than
    /// a change to one of the many files of a PU.
    rare: Vec<PathBuf>,
}

impl Tree {
    fn open(root: &Path) -> Tree {
        let mut paths = Vec::new();
        files(root, &mut paths);
        paths.sort();
        let is_rare = |path: &&PathBuf| !path.to_string_lossy().contains("/cpu/cpu");
        Tree {
            root: root.to_owned(),
            rare: paths.iter().filter(is_rare).cloned().collect(),
            paths,
        }
    }

    /// Changes one to three files, checks the properties, and restores the files, again and again.
    fn fuzz(&self, dice: &mut Dice, mutations: usize) {
        let mut namespace = Namespace::enter(&self.root);
        let whole = Machine::detect_in(&self.root, None);
        for number in 0..mutations {
            let mut chosen: Vec<&PathBuf> = Vec::new();
            for _ in 0..1 + dice.below(3) {
                let is_rare = dice.below(2) == 0 && !self.rare.is_empty();
                let among = if is_rare { &self.rare } else { &self.paths };
                let path = &among[dice.below(among.len())];
                if !chosen.contains(&path) {
                    chosen.push(path);
                }
            }
            let changes = chosen.iter().map(|path| change(dice, &self.root, path));
            let (restore, what): (Vec<_>, Vec<_>) = changes.collect();
            let mask = match dice.below(3) {
                0 => None,
                1 => Some(some_pus(dice)),
                _ => Some(whole.allowed().clone()),
            };
            let what = format!("{} with the mask {mask:?}: {what:?}", self.root.display());
            match &mut namespace {
                Some(namespace) => namespace.check(&what),
                None => check(&self.root, mask.as_ref(), number, &what),
            }
            restore.into_iter().for_each(|restore| restore());
        }
    }
}

fn mutations() -> usize {
    let given = std::env::var("CREEL_FUZZ").ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

#[test]
fn hostile_trees_always_give_a_worker() {
    let mut dice = Dice::new("hostile_trees_always_give_a_worker");
    let fixture = whole();
    Tree::open(fixture.root()).fuzz(&mut dice, mutations());
}

#[test]
fn hostile_captured_machines_always_give_a_worker() {
    let Some(machines) = captured::unpacked() else {
        return;
    };
    let mut dice = Dice::new("hostile_captured_machines_always_give_a_worker");
    let mut roots: Vec<PathBuf> = fs::read_dir(machines.path().join("machines"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    roots.sort();
    let trees: Vec<Tree> = roots.iter().map(|root| Tree::open(root)).collect();
    // We read a machine more often if it has few files, so that each machine takes about the same
    // time.
    let speeds = trees
        .iter()
        .map(|tree| 1.0 / (20.0 + tree.paths.len() as f64));
    let all: f64 = speeds.clone().sum();
    let share = |speed: f64| (mutations() as f64 * speed / all).ceil() as usize;
    let shares: Vec<usize> = speeds.map(share).collect();
    // Each tree has its own random number generator, so that the mutations do not depend on the
    // order of the threads.
    let tasks = trees
        .iter()
        .zip(&shares)
        .map(|(tree, &share)| (tree, share, dice.split()));
    let tasks = Mutex::new(tasks.collect::<Vec<_>>());
    let next = || tasks.lock().unwrap().pop();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((tree, share, mut dice)) = next() {
                    tree.fuzz(&mut dice, share);
                }
            });
        }
    });
    let total: usize = shares.iter().sum();
    eprintln!("{total} mutations of {} captured machines", trees.len());
}

#[test]
fn a_tree_without_files_gives_the_pus_of_the_mask() {
    let mask = set("3,5-6");
    for root in [Path::new("no/such/folder"), Fixture::new().root()] {
        let machine = Machine::detect_in(root, Some(&mask));
        assert_eq!(machine.allowed(), &mask);
        assert_eq!(Budget::of(&machine).workers(), 3);
        // The list of online CPUs is missing, and so is /proc.
        assert_eq!(machine.notes().len(), 2, "{:?}", machine.notes());
        check(root, None, 0, "an empty tree without a mask");
    }
}

#[test]
fn the_mask_outranks_the_list_of_online_pus() {
    // lxcfs shows other PUs than those on which the container may run.
    let fixture = Fixture::online("0").topology("core_cpus_list", &["0-1", "2-3"]);
    for (mask, workers) in [("1", 1), ("2", 1), ("1-3", 2), ("1-5", 4), ("0-5", 4)] {
        let machine = Machine::detect_in(fixture.root(), Some(&set(mask)));
        assert_eq!(machine.allowed().to_string(), mask);
        assert_eq!(Budget::of(&machine).workers(), workers, "{mask}");
        let note = &machine.notes()[0];
        assert!(note.contains("online") && note.contains(mask), "{note}");
    }
}

#[test]
fn the_mask_outranks_a_cpuset_that_contradicts_it() {
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 / /cg rw - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/a\n")
        .file("cg/a/cpuset.cpus.effective", "0-1\n");
    for mask in ["4-6", "1-4"] {
        let machine = Machine::detect_in(fixture.root(), Some(&set(mask)));
        assert_eq!(machine.allowed().to_string(), mask);
        assert_eq!(Budget::of(&machine).workers(), set(mask).len());
        let note = &machine.notes()[0];
        assert!(note.contains("cg/a/cpuset.cpus.effective"), "{note}");
    }
    let narrower = Machine::detect_in(fixture.root(), Some(&set("1")));
    assert_eq!(narrower.notes(), [""; 0]);
}

#[test]
fn a_cpuset_outside_the_machine_is_ignored() {
    let fixture = Fixture::online("0-3")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 / /cg rw - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/a/b\n")
        .file("cg/a/cpuset.cpus.effective", "1-2\n")
        .file("cg/a/b/cpuset.cpus.effective", "8-9\n");
    let machine = fixture.machine();
    assert_eq!(machine.allowed().to_string(), "1-2");
    assert_eq!(machine.notes().len(), 1, "{:?}", machine.notes());
}

#[test]
fn isolated_pus_are_noted() {
    let fixture = Fixture::online("0-7")
        .file(&format!("{CPU}/isolated"), "4-7\n")
        .file("proc/self/status", "");
    let notes = |mask: &str| {
        Machine::detect_in(fixture.root(), Some(&set(mask)))
            .notes()
            .to_vec()
    };
    let both = notes("2-5");
    assert!(both.len() == 1 && both[0].contains("4-5"), "{both:?}");
    assert_eq!(notes("0-3").len(), 0);
}

#[test]
fn control_groups_outside_of_the_mount_are_noted() {
    let fixture = |group: &str, root: &str| {
        Fixture::online("0-7")
            .file(
                "proc/self/mountinfo",
                &format!("31 23 0:26 {root} /cg rw - cgroup2 cgroup rw\n"),
            )
            .file("proc/self/cgroup", &format!("0::{group}\n"))
            .file("cg/a/cpu.max", "100000 100000\n")
            .machine()
    };
    assert_eq!(fixture("/a", "/").notes(), [""; 0]);
    for (group, root) in [("/other/a", "/docker"), ("/../a", "/"), ("/gone", "/")] {
        let machine = fixture(group, root);
        let [note] = machine.notes() else {
            panic!("{group} {root}: {:?}", machine.notes());
        };
        assert!(note.contains(group) && note.contains("limits"), "{note}");
    }
}

#[test]
fn a_mount_that_shows_the_group_is_preferred() {
    // The first mount shows more ancestors, but something else is mounted over it.
    let fixture = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 / /over rw - cgroup2 cgroup rw\n32 23 0:26 /a /cg rw - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/a/b\n")
        .file("cg/b/cpu.max", "200000 100000\n");
    assert_eq!(fixture.budget().workers(), 2);
    assert_eq!(fixture.machine().notes(), [""; 0]);
}

#[test]
fn a_missing_list_of_groups_is_noted() {
    let mounted = Fixture::online("0-7")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 / /cg rw - cgroup2 cgroup rw\n",
        )
        .file("cg/cpu.max", "200000 100000\n");
    let without_proc = Fixture::online("0-7").file("sys/fs/cgroup/cgroup.procs", "1\n");
    for fixture in [mounted, without_proc] {
        let machine = fixture.machine();
        let [note] = machine.notes() else {
            panic!("{:?}", machine.notes());
        };
        assert!(note.contains("limits of control groups"), "{note}");
    }
}

/// The environment variable with the folder that [`limits_that_this_user_may_not_read_are_noted`]
/// reads as another user.
const UNREADABLE: &str = "CREEL_TEST_UNREADABLE";

#[test]
fn limits_that_this_user_may_not_read_are_noted() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};

    if let Some(root) = std::env::var_os(UNREADABLE) {
        let machine = Machine::detect_in(Path::new(&root), Some(&set("0-3")));
        println!("notes: {:?}", machine.notes());
        return;
    }
    let fixture = Fixture::online("0-3")
        .file(
            "proc/self/mountinfo",
            "31 23 0:26 / /cg rw - cgroup2 cgroup rw\n",
        )
        .file("proc/self/cgroup", "0::/a\n")
        .file("cg/a/cpu.max", "100000 100000\n");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(fixture.root(), 0o755);
    mode(&fixture.root().join("cg/a/cpu.max"), 0o000);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "--nocapture"])
        .arg("hostile::limits_that_this_user_may_not_read_are_noted")
        .env(UNREADABLE, fixture.root());
    // Root may read everything, so it becomes another user.
    if fs::read(fixture.root().join("cg/a/cpu.max")).is_ok() {
        child.uid(65_534);
    }
    let Ok(output) = child.output() else {
        eprintln!("skipped: this test cannot become another user");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("cg/a/cpu.max") && text.contains("denied"),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
