//! Parsing the command line, the same way in every program.
//!
//! [`parse`] adds two hidden subcommands, `completions SHELL` and `man`, so that packagers get
//! both from the program itself and no program writes them twice.

use std::io::{self, Write};

use clap::error::{ContextKind, ErrorKind};
use clap::{ArgAction, Args, ColorChoice, Command, Parser};
use clap_complete::Shell;

use crate::color;
use crate::exit::Exit;
use crate::output::Format;

/// The flags that every program has; flatten it into the program's own.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The form of the data on stdout
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        global = true
    )]
    pub format: Format,
    /// Colour: auto obeys NO_COLOR
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true)]
    pub color: ColorChoice,
    /// No progress, no notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// More detail; twice for still more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

impl Common {
    /// Puts `--color` into effect; call it once, before the first output.
    pub fn apply(&self) {
        color::apply(self.color);
    }
}

/// Parses the process's command line, or ends the process: with the help, the version,
/// `completions SHELL` or `man` on stdout and code 0, or with one clear error and code 2.
pub fn parse<P: Parser>() -> P {
    let matches = with_manuals(P::command()).try_get_matches();
    let matches = matches.unwrap_or_else(|mut error| {
        // That an unknown option be passed after `--` is no help where a program's name goes there.
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
        // A closed pipe is no error; a full disk is.
        Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: {error}");
            std::process::exit(Exit::SomeFailed.code().into())
        }
        Some(_) => std::process::exit(Exit::Done.code().into()),
        None => P::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()),
    }
}

fn with_manuals(command: Command) -> Command {
    let shell = clap::Arg::new("shell")
        .required(true)
        .value_parser(clap::value_parser!(Shell));
    let completions = Command::new("completions")
        .about("Print a shell's completions")
        .arg(shell);
    let man = Command::new("man").about("Print the manual page");
    // A program of one verb keeps what it requires, and takes `man` as a positional after a flag.
    let of_one_verb = !command.has_subcommands();
    command
        .subcommand(completions.hide(true))
        .subcommand(man.hide(true))
        .subcommand_negates_reqs(true)
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

/// The page, and after it one for each subcommand.
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
    use clap::FromArgMatches;

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
    }

    #[test]
    fn positionals_may_be_named_like_manual_commands() {
        let flat = matches::<Flat>(&["bench", "iterate", "render", "--format", "csv"]).unwrap();
        let flat = Flat::from_arg_matches(&flat).unwrap();
        assert_eq!(flat.workloads, ["iterate", "render"]);
        assert_eq!(flat.common.format, Format::Csv);
        assert!(
            matches::<Flat>(&["bench"]).is_err(),
            "what is required stays required"
        );
        assert_eq!(
            matches::<Flat>(&["bench", "man"])
                .unwrap()
                .subcommand_name(),
            Some("man")
        );
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
