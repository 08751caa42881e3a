//! The conditions that results depend on, apart from the program: the processor, the kernel and its
//! settings, the compiler, the commit and the versions of the peers.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use creel_topology::{Budget, Machine};
use serde::{Deserialize, Serialize};

/// The machine and the build. A field is "unknown" if the system does not report it, because
/// docs/schema.md promises this value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// The date of the run in UTC.
    pub date: String,
    /// The model of the processor.
    pub cpu: String,
    /// The sizes of the caches, because processors in clouds can have the same name and different
    /// caches. Empty in old reports.
    #[serde(default)]
    pub caches: String,
    /// The PUs that the process may use.
    pub allowed: String,
    /// The limit that determines the number of workers.
    pub quota: String,
    /// Whether the processor reports that it belongs to a virtual machine.
    pub virtual_machine: bool,
    /// The kernel's name and release.
    pub kernel: String,
    /// The cpufreq governor, which chooses the frequency of the processor.
    pub governor: String,
    /// Whether the processor may exceed its base frequency: `on` or `off`.
    pub turbo: String,
    /// The memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// The soft limits of the process.
    pub limits: Limits,
    /// The version of rustc that built this program.
    pub compiler: String,
    /// The target and the profile of the build.
    pub target: String,
    /// The commit of the build, with `-dirty` after it if files had changed since the commit.
    pub commit: String,
}

/// The soft limits of a process, as the system prints them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limits {
    /// The number of open files.
    pub files: String,
    /// The number of processes and threads of the user.
    pub processes: String,
    /// The size of the main thread's stack in bytes.
    pub stack: String,
    /// The size of locked memory, which is never paged out, in bytes.
    pub locked: String,
}

/// The value of a field in a report if the system does not report it.
const UNKNOWN: &str = "unknown";

/// Returns a value of [`Host`] for people. It replaces [`UNKNOWN`] by a sentence.
pub fn shown(value: &str) -> &str {
    match value {
        UNKNOWN => "unknown, because the system does not report it",
        value => value,
    }
}

impl Host {
    /// Reads the facts about this machine and this build.
    pub fn detect(machine: &Machine, budget: &Budget) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let meminfo = read("/proc/meminfo");
        Host {
            date: today(),
            cpu: or_unknown(&field(&cpuinfo, "model name")),
            caches: caches(),
            allowed: machine.allowed().to_string(),
            quota: budget.bound_by().to_string(),
            virtual_machine: field(&cpuinfo, "flags").contains(" hypervisor"),
            kernel: kernel(),
            governor: or_unknown(
                read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim(),
            ),
            turbo: turbo().into(),
            memory_bytes: kib(&field(&meminfo, "MemTotal")),
            limits: Limits::parse(&read("/proc/self/limits")),
            compiler: env!("CREEL_BENCH_COMPILER").into(),
            target: env!("CREEL_BENCH_TARGET").into(),
            commit: env!("CREEL_BENCH_COMMIT").into(),
        }
    }

    /// Returns the processor and the number of its PUs, in a form that suits the name of a folder.
    pub fn slug(&self, machine: &Machine) -> String {
        let words = self.cpu.split(|c: char| !c.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty() && *word != "R" && *word != "TM");
        let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
        format!("{}-{}-pus", words.join("-"), machine.online().len())
    }

    /// Returns a summary in one line.
    pub fn line(&self) -> String {
        let memory = self.memory_bytes.map_or("unknown memory".into(), |bytes| {
            format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
        });
        let guest = if self.virtual_machine {
            " (virtual)"
        } else {
            ""
        };
        let speed = if self.governor == UNKNOWN && self.turbo == UNKNOWN {
            "governor and turbo unknown, because the system does not report them".into()
        } else {
            format!("governor {}, turbo {}", self.governor, self.turbo)
        };
        format!(
            "{}{guest}, {memory}, {}, {speed}; {}, commit {}",
            self.cpu, self.kernel, self.compiler, self.commit
        )
    }
}

impl Limits {
    /// Parses /proc/self/limits. Each line has a name in words and then the soft limit.
    ///
    /// Source: proc(5).
    fn parse(limits: &str) -> Self {
        let soft = |name: &str| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name));
            or_unknown(
                line.and_then(|line| line.split_whitespace().next())
                    .unwrap_or(""),
            )
        };
        Limits {
            files: soft("Max open files"),
            processes: soft("Max processes"),
            stack: soft("Max stack size"),
            locked: soft("Max locked memory"),
        }
    }
}

/// Returns the versions of the peers: for installed programs the first line that they print, and
/// for crates the list that was built in.
pub fn versions() -> Vec<(String, String)> {
    const ASKED: [(&str, &str, &[&str]); 9] = [
        ("gcc", "gcc", &["--version"]),
        ("Go", "go", &["version"]),
        ("Java", "java", &["-version"]),
        ("GHC", "ghc", &["--version"]),
        (
            "Erlang/OTP",
            "erl",
            &[
                "-noshell",
                "-eval",
                "io:put_chars(erlang:system_info(otp_release)),halt().",
            ],
        ),
        ("Crystal", "crystal", &["--version"]),
        ("Python", "python3", &["--version"]),
        ("wrk", "wrk", &["-v"]),
        ("Redis", "redis-server", &["--version"]),
    ];
    let ask = |&(name, program, arguments): &(&str, &str, &[&str])| {
        let output = Command::new(program).args(arguments).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let first = text.lines().find(|line| !line.trim().is_empty())?;
        Some((name.to_owned(), first.trim().to_owned()))
    };
    let crates = ("crates".to_owned(), env!("CREEL_BENCH_CRATES").to_owned());
    ASKED.iter().filter_map(ask).chain([crates]).collect()
}

/// Returns whether PATH has a program with this name.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns the caches of the first PU, for example `L1d 32K, L1i 64K, L2 2048K, L3 480M`.
fn caches() -> String {
    let index = |index: usize| {
        let of = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
            read(&path).trim().to_owned()
        };
        let kind = match &*of("type") {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let (level, size) = (of("level"), of("size"));
        (!level.is_empty()).then(|| format!("L{level}{kind} {size}"))
    };
    let all: Vec<String> = (0..8).map_while(index).collect();
    all.join(", ")
}

fn read(path: &str) -> String {
    creel_console::system::text(path).unwrap_or_default()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { UNKNOWN } else { text }.into()
}

/// Returns the first value of a name in a file of `name : value` lines.
fn field(text: &str, name: &str) -> String {
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim_end().trim_start_matches([' ', '\t']))
    });
    value.unwrap_or_default().into()
}

fn kib(value: &str) -> Option<u64> {
    let kib: u64 = value.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn kernel() -> String {
    let part = |name: &str| read(&format!("/proc/sys/kernel/{name}"));
    let (system, release) = (part("ostype"), part("osrelease"));
    or_unknown(format!("{} {}", system.trim(), release.trim()).trim())
}

/// Returns whether turbo frequencies are allowed: `on`, `off`, or that it is not known.
///
/// Source: the kernel's documentation of intel_pstate (`no_turbo`) and of cpufreq (`boost`).
fn turbo() -> &'static str {
    let no_turbo = read("/sys/devices/system/cpu/intel_pstate/no_turbo");
    let boost = read("/sys/devices/system/cpu/cpufreq/boost");
    match (no_turbo.trim(), boost.trim()) {
        ("0", _) | ("", "1") => "on",
        ("1", _) | ("", "0") => "off",
        _ => UNKNOWN,
    }
}

fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |since| since.as_secs() / 86_400))
}

/// Converts a number of days since 1970-01-01 to a date.
///
/// The rule is that of the Gregorian calendar. We count from 0000-03-01, so that a leap day is the
/// last day of a year.
fn date(day: u64) -> String {
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_convert_to_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(11_017), "2000-03-01");
        assert_eq!(date(20_453), "2025-12-31");
    }

    #[test]
    fn limits_and_memory_sizes_in_proc_are_parsed() {
        let limits = "Limit   Soft Limit  Hard Limit  Units\n\
                      Max stack size            8388608              unlimited            bytes\n\
                      Max open files            1024                 4096                 files\n";
        let limits = Limits::parse(limits);
        assert_eq!((&*limits.stack, &*limits.files), ("8388608", "1024"));
        assert_eq!(limits.processes, UNKNOWN);
        assert_eq!(field("a\t: 1\nmodel name\t: X  Y\n", "model name"), "X  Y");
        assert_eq!(kib("4 kB"), Some(4096));
    }
}
