//! What a figure depends on beside the program: the processor, the kernel and its settings, the
//! compiler, the revision, the peers' versions.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use creel_topology::{Budget, Machine};
use serde::{Deserialize, Serialize};

/// What the machine and the build tell; "not told" where they do not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The day of the run, UTC.
    pub date: String,
    /// The processor's model.
    pub cpu: String,
    /// Sizes of its caches, by which clouds' processors of one name differ; empty in old reports.
    #[serde(default)]
    pub caches: String,
    /// The PUs that may be used.
    pub allowed: String,
    /// The limit that binds the number of workers.
    pub quota: String,
    /// Whether the processor says that it is a guest's.
    pub virtual_machine: bool,
    /// Its release and version.
    pub kernel: String,
    /// Who sets the processor's frequency.
    pub governor: String,
    /// Whether it may exceed its base frequency.
    pub turbo: String,
    /// All of the machine's, in bytes.
    pub memory_bytes: Option<u64>,
    /// The process's soft limits.
    pub limits: Limits,
    /// That built this program.
    pub compiler: String,
    /// The processor it was built for, and how.
    pub target: String,
    /// What git said when it was built: a commit, with `-dirty` behind it where files differed.
    pub commit: String,
}

/// Soft limits of a process, as the system prints them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Open files.
    pub files: String,
    /// Processes and threads of the user.
    pub processes: String,
    /// Bytes of the first thread's stack.
    pub stack: String,
    /// Bytes that may be kept from being paged out.
    pub locked: String,
}

const UNKNOWN: &str = "not told";

impl Host {
    /// Of this machine, now.
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

    /// The processor and the number of its PUs, fit for a folder's name.
    pub fn slug(&self, machine: &Machine) -> String {
        let words = self.cpu.split(|c: char| !c.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty() && *word != "R" && *word != "TM");
        let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
        format!("{}-{}-pus", words.join("-"), machine.online().len())
    }

    /// In a line for people.
    pub fn line(&self) -> String {
        let memory = self.memory_bytes.map_or(UNKNOWN.into(), |bytes| {
            format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
        });
        let guest = if self.virtual_machine {
            " (virtual)"
        } else {
            ""
        };
        let speed = if self.governor == UNKNOWN && self.turbo == UNKNOWN {
            format!("governor and turbo {UNKNOWN}")
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
    /// Source: proc(5), /proc/self/limits: a name in words, then the soft limit.
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

/// The versions of programs that are peers, where they are installed: name and first line.
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

/// Whether PATH has a program of this name.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Of the first PU, as the kernel tells them: `L1d 32K, L1i 64K, L2 2048K, L3 480M`.
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
    fs::read_to_string(path).unwrap_or_default()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { UNKNOWN } else { text }.into()
}

/// The first value of a `name : value` file.
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

/// The date of a day after 1970-01-01.
///
/// Source: the rule of the Gregorian calendar, counted from 0000-03-01 so that a leap day is a
/// year's last.
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
    fn kernel_files_are_parsed() {
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
