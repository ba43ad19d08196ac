//! Reading the command line.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::commands::Command;
use crate::output;

/// Sums gradients inside the network.
#[derive(Debug, Parser)]
#[command(
    name = "tributary",
    version,
    after_help = "Start with: tributary demo",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The command line, or the exit status where there is nothing to run: help was asked for, or it is wrong.
pub fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Help that nobody reads any more is no failure.
            let _ = error.print();
            ExitCode::from(error.exit_code() as u8)
        }
        _ => {
            output::note(&format!("tributary: {}", one_line(&error.to_string())));
            ExitCode::from(2)
        }
    })
}

/// What clap says over several paragraphs, without the usage that follows: one line, like every other error.
fn one_line(text: &str) -> String {
    let said = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    format!("{said} (--help shows what can be given)")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_argument_is_one_line() {
        let error = Cli::try_parse_from(["tributary", "demo", "--workers", "65"]).unwrap_err();
        let line = one_line(&error.to_string());
        assert!(
            line.contains("65 is not in 1..=64") && !line.contains('\n'),
            "{line}"
        );
        let missing =
            "error: the following were not provided:\n  --rank <R>\n\nUsage: x\n\nFor more information";
        assert_eq!(
            one_line(missing),
            "the following were not provided: --rank <R> (--help shows what can be given)"
        );
    }
}
