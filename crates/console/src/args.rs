//! Parses the command line in the same way in every program.
//!
//! [`parse`] adds two subcommands, `completions SHELL` and `man`. You get both from the program
//! itself, for example for a package, and no program has to implement them.

use std::io::{self, Write};

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, ColorChoice, Command, Parser};
use clap_complete::Shell;

use crate::color;
use crate::exit::Exit;
use crate::output::Format;

/// The heading under which `--help` lists [`Common`].
const COMMON: &str = "Common options";

/// The flags that every program has. Flatten them into the program's own flags, as the last field,
/// because `--help` lists them in that order.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Print the data on stdout in this format
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        global = true,
        help_heading = COMMON
    )]
    pub format: Format,
    /// Use colour in the output. auto means only on a terminal, and only if the variable NO_COLOR
    /// is not set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        global = true,
        help_heading = COMMON
    )]
    pub color: ColorChoice,
    /// Print no progress and no notes. Errors are still printed
    #[arg(short, long, global = true, help_heading = COMMON)]
    pub quiet: bool,
}

/// The flag `--verbose`, for programs that have more detail to print. It is not in [`Common`],
/// because a flag without effect would be confusing.
#[derive(Args, Clone, Copy, Debug)]
pub struct Verbose {
    /// Print more detail
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = COMMON)]
    pub verbose: bool,
}

impl Common {
    /// Applies `--color`. Call it once, before the first output.
    pub fn apply(&self) {
        color::apply(self.color);
    }
}

/// Parses the command line of the process.
///
/// The function ends the process in two cases:
///
/// - If the user asks for the help, the version, `completions SHELL` or `man`, it prints the text
///   on stdout and exits with code 0.
/// - If the command line is wrong, it prints one error on stderr and exits with code 2.
pub fn parse<P: Parser>() -> P {
    let matches = with_manuals(P::command()).try_get_matches();
    let matches = matches.unwrap_or_else(|mut error| {
        // clap suggests to pass an unknown option after `--`. We remove the suggestion, because
        // some programs take the name of another program there.
        if error.kind() == ErrorKind::UnknownArgument {
            error.remove(ContextKind::Suggested);
        }
        error.exit()
    });
    let written = match matches.subcommand() {
        Some(("completions", sub)) => sub.get_one("shell").map(|shell| completions::<P>(*shell)),
        Some(("man", _)) => Some(man::<P>()),
        _ => None,
    };
    match written {
        // A closed pipe is not an error, because the reader has what it needs. Other failures are
        // errors, for example a full disk.
        Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to stdout: {error}");
            std::process::exit(Exit::SomeFailed.code().into())
        }
        Some(_) => std::process::exit(Exit::Done.code().into()),
        None => P::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()),
    }
}

pub(crate) fn with_manuals(command: Command) -> Command {
    let shell = clap::Arg::new("shell")
        .required(true)
        .value_name("SHELL")
        .help("Print the completion script for this shell")
        .value_parser(clap::value_parser!(Shell));
    let completions = Command::new("completions")
        .about("Print the completion script for a shell")
        .arg(shell);
    let man = Command::new("man").about("Print the manual page");
    // A program without subcommands of its own still requires its arguments. In such a program,
    // `man` after a flag is an ordinary argument, and a `help` subcommand next to `--help` is not
    // needed.
    let of_one_verb = !command.has_subcommands();
    let has_optional_verb = !command.is_subcommand_required_set();
    command
        .subcommand(completions.display_order(100))
        .subcommand(man.display_order(101))
        .disable_help_subcommand(of_one_verb)
        .subcommand_negates_reqs(has_optional_verb)
        .args_conflicts_with_subcommands(of_one_verb)
}

fn completions<P: Parser>(shell: Shell) -> io::Result<()> {
    let mut command = P::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()
}

/// Prints the manual page of the program, followed by one page per subcommand.
fn man<P: Parser>() -> io::Result<()> {
    let mut command = P::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        clap_mangen::Man::new(sub.clone()).render(&mut page)?;
    }
    let mut out = io::stdout().lock();
    out.write_all(&page)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches};

    #[derive(Parser, Debug)]
    #[command(name = "bench")]
    struct Flat {
        #[command(flatten)]
        common: Common,
        #[arg(required = true)]
        workloads: Vec<String>,
    }

    #[derive(Parser, Debug)]
    #[command(name = "tool")]
    struct Nested {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        verbose: Verbose,
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(clap::Subcommand, Debug, PartialEq)]
    enum Verb {
        Topo {
            #[arg(long)]
            root: Option<String>,
        },
    }

    fn matches<P: Parser>(line: &[&str]) -> Result<clap::ArgMatches, clap::Error> {
        with_manuals(P::command()).try_get_matches_from(line)
    }

    #[test]
    fn common_flags_may_precede_or_follow_the_verb() {
        for line in [["tool", "-q", "topo"], ["tool", "topo", "-q"]] {
            let nested = Nested::from_arg_matches(&matches::<Nested>(&line).unwrap()).unwrap();
            assert!(nested.common.quiet, "{line:?}");
            assert_eq!(nested.verb, Verb::Topo { root: None });
        }
        assert!(matches::<Nested>(&["tool", "-q"]).is_err(), "no verb");
        let nested = Nested::from_arg_matches(&matches::<Nested>(&["tool", "topo", "-v"]).unwrap());
        assert!(nested.unwrap().verbose.verbose);
        assert!(
            matches::<Nested>(&["tool", "topo", "-q", "-v"]).is_err(),
            "both"
        );
        assert!(
            matches::<Flat>(&["bench", "x", "-v"]).is_err(),
            "no such flag"
        );
    }

    #[test]
    fn positionals_may_be_named_like_manual_commands() {
        let flat = matches::<Flat>(&["bench", "iterate", "render", "--format", "csv"]).unwrap();
        let flat = Flat::from_arg_matches(&flat).unwrap();
        assert_eq!(flat.workloads, ["iterate", "render"]);
        assert_eq!(flat.common.format, Format::Csv);
        assert!(
            matches::<Flat>(&["bench"]).is_err(),
            "required arguments stay required"
        );
        assert_eq!(
            matches::<Flat>(&["bench", "man"])
                .unwrap()
                .subcommand_name(),
            Some("man")
        );
    }

    #[test]
    fn help_lists_man_and_completions() {
        for mut command in [
            with_manuals(Flat::command()),
            with_manuals(Nested::command()),
        ] {
            let help = command.render_help().to_string();
            assert!(
                help.contains("  completions  Print the completion script"),
                "{help}"
            );
            assert!(
                help.contains("  man          Print the manual page"),
                "{help}"
            );
            assert!(help.contains("Common options:"), "{help}");
        }
    }

    #[test]
    fn manual_commands_work_with_subcommands() {
        let nested = matches::<Nested>(&["tool", "topo", "--root", "x"]).unwrap();
        let verb = Nested::from_arg_matches(&nested).unwrap().verb;
        assert_eq!(
            verb,
            Verb::Topo {
                root: Some("x".into())
            }
        );
        let shell = matches::<Nested>(&["tool", "completions", "bash"]).unwrap();
        assert_eq!(shell.subcommand_name(), Some("completions"));
        assert!(matches::<Nested>(&["tool", "completions", "cmd"]).is_err());
    }
}
