//! The command line of TrackIOps.

// These macros panic if the reader is gone or the disk is full. Use `output` instead.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod analyze;
mod anonymize;
mod argv;
mod compare;
mod config;
mod counts;
mod doctor;
mod drawing;
mod exit_status;
mod export;
mod files;
mod flamegraph;
mod help_headings;
mod histogram;
mod import;
mod input_file;
#[cfg(test)]
mod interface;
mod live_socket;
mod mark;
mod metrics;
mod mounts;
mod notes;
mod outcome;
mod output_flags;
mod pages;
mod query;
mod question_flags;
mod read_memory_flag;
mod record;
mod report;
mod report_flags;
mod requests;
mod serve;
mod stalls;
mod status;
mod store;
mod store_flag;
mod tenant_rules;
mod tenants;
mod top;
mod umask_flag;
mod volume;
mod watch;
mod why;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use trackiops_process::output::{say, write_stderr};
use trackiops_process::{signals, stderr_queue};
use trackiops_render::visible::visible;

use crate::exit_status::ExitStatus;

/// The template of `--help`. A test compares its lists with the commands.
const HELP: &str = "\
{about-with-newline}\n\
{usage-heading} {usage}\n\
\n\
Record:\n\
\x20 record         Record file I/O into a store until stopped\n\
\x20 doctor         Show what this kernel offers, and what is missing\n\
\x20 status         Show how the running recorder does\n\
\x20 metrics        Serve what the recorder counts to Prometheus, or push it to OpenTelemetry\n\
\x20 config         Show or check the configuration\n\
\x20 mark           Note something about a moment\n\
\n\
Ask:\n\
\x20 query          Ask what files, directories, mounts or tenants did\n\
\x20 files          List files, and how often they were used\n\
\x20 requests       List the slowest requests one by one\n\
\x20 histogram      Show how latencies are distributed\n\
\x20 mounts         List mounts\n\
\x20 stalls         List server stalls\n\
\x20 marks          List what `mark` noted\n\
\x20 top            Show the busiest files on a screen, now or at any time\n\
\x20 watch          Follow a running recorder, window by window\n\
\x20 serve          Serve a page and an API to a browser or a script\n\
\n\
Explain:\n\
\x20 why            Say what was slow, who suffered and what caused it\n\
\x20 report         Write a report: incident, bill, placement, carbon, noisy neighbours\n\
\x20 flamegraph     Draw directories by what was done below them\n\
\x20 analyze        Analyze single requests or a capture\n\
\n\
Exchange:\n\
\x20 import         Import packet captures, nfsdump text or CSV\n\
\x20 export         Write a range as Parquet, Arrow, CSV or trace events\n\
\x20 compare        Compare a store with a packet capture of the same traffic\n\
\x20 anonymize-key  Make a key for `--anonymize`\n\
\x20 deanonymize    Put names back into what `export --anonymize` wrote\n\
\n\
Look after:\n\
\x20 store          Check or copy a store, or rebuild its catalog\n\
\x20 volume         Show how much disk a store takes, or will take\n\
\x20 tenants        Try rules that name tenants\n\
\x20 completions    Print completions for a shell\n\
\x20 man            Print the man page of a command\n\
\n\
Options:\n\
{options}{after-help}";

/// Record file I/O and answer questions about it: NFS, block devices, system calls
#[derive(Parser)]
#[command(version, max_term_width = 100, help_template = HELP)]
struct Cli {
    /// Show every note of an answer, not only the one that matters most
    #[arg(long, global = true, hide = true)]
    notes: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Record file I/O into a store until stopped
    Record(record::Args),
    /// Show or check the configuration
    Config(config::Args),
    /// Show what this kernel offers, and what is missing
    Doctor(doctor::Args),
    /// Follow a running recorder, window by window
    Watch(watch::Args),
    /// Show the busiest files on a screen, now or at any time
    Top(top::Args),
    /// Show how the running recorder does
    Status(status::Args),
    /// Serve what the recorder counts to Prometheus, or push it to OpenTelemetry
    Metrics(metrics::Args),
    /// Serve a page and an API to a browser or a script
    Serve(serve::Args),
    /// Say what was slow, who suffered and what caused it
    #[command(long_about = why::ABOUT)]
    Why(why::Args),
    /// Ask what files, directories, mounts or tenants did
    Query(query::Args),
    /// Show how latencies are distributed
    Histogram(histogram::Args),
    /// List files, and how often they were used
    Files(files::Args),
    /// List the slowest requests one by one
    Requests(requests::Args),
    /// Draw directories by what was done below them
    Flamegraph(flamegraph::Args),
    /// List server stalls
    Stalls(stalls::Args),
    /// Note something about a moment
    Mark(mark::Args),
    /// List what `mark` noted
    Marks(mark::ListArgs),
    /// List mounts
    Mounts(mounts::Args),
    /// Try rules that name tenants
    Tenants(tenants::Args),
    /// Write a range as Parquet, Arrow, CSV or trace events
    #[command(long_about = export::ABOUT)]
    Export(export::Args),
    /// Write a report: incident, bill, placement, carbon, noisy neighbours
    Report(report::Args),
    /// Analyze single requests or a capture
    Analyze(analyze::Args),
    /// Make a key for `--anonymize`
    AnonymizeKey(anonymize::KeyArgs),
    /// Put names back into what `export --anonymize` wrote
    Deanonymize(anonymize::Args),
    /// Compare a store with a packet capture of the same traffic
    #[command(long_about = compare::ABOUT)]
    Compare(compare::Args),
    /// Import packet captures, nfsdump text or CSV
    Import(import::Args),
    /// Check or copy a store, or rebuild its catalog
    Store(store::Args),
    /// Show how much disk a store takes, or will take
    Volume(volume::Args),
    /// Print completions for a shell
    Completions(pages::CompletionsArgs),
    /// Print the man page of a command
    Man(pages::ManArgs),
}

fn main() -> ExitCode {
    signals::ignore_file_size_limit();
    let cli = Cli::try_parse_from(argv::of_process()).unwrap_or_else(|error| refuse(&error));
    if cli.notes {
        notes::show_all();
    }
    let result = match cli.command {
        Command::Record(_) => record::run(config::Source::of_process(Cli::command)),
        Command::Compare(args) => compare::run(args),
        Command::Config(args) => config::run(args, Cli::command),
        Command::Doctor(args) => doctor::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Top(args) => top::run(args),
        Command::Status(args) => status::run(args),
        Command::Metrics(args) => metrics::run(args),
        Command::Serve(_) => serve::run(&config::Source::of_process(Cli::command)),
        Command::Why(args) => why::run(args),
        Command::Query(args) => query::run(args),
        Command::Histogram(args) => histogram::run(args),
        Command::Files(args) => files::run(args),
        Command::Requests(args) => requests::run(args),
        Command::Flamegraph(args) => flamegraph::run(args),
        Command::Stalls(args) => stalls::run(args),
        Command::Mark(args) => mark::run(args),
        Command::Marks(args) => mark::list(args),
        Command::Mounts(args) => mounts::run(args),
        Command::Tenants(args) => tenants::run(args),
        Command::Export(args) => export::run(args),
        Command::Report(args) => report::run(args),
        Command::Analyze(args) => analyze::run(args),
        Command::AnonymizeKey(args) => anonymize::make_key(args),
        Command::Deanonymize(args) => anonymize::run(args),
        Command::Import(args) => import::run(args),
        Command::Store(args) => store::run(args),
        Command::Volume(args) => volume::run(args),
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::Man(args) => pages::man(&args, Cli::command()),
    };
    let status = result.unwrap_or_else(|error| {
        say(format_args!("trackiops: {}", describe(&error)));
        ExitStatus::Error.into()
    });
    stderr_queue::finish();
    status
}

/// Exits with clap's message. It quotes arguments, which a script may have taken from file names. So control characters are made visible
/// before clap sees them: afterwards, a line end in a name would look like clap's own.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit()
    }
    let args = argv::of_process().into_iter();
    let args = args.map(|arg| visible(&arg.to_string_lossy()).into_owned());
    match Cli::try_parse_from(args) {
        Err(error) => write_stderr(error),
        Ok(_) => error.to_string().lines().for_each(say),
    }
    std::process::exit(error.exit_code())
}

/// The error, and its causes that its text does not already contain.
fn describe(error: &anyhow::Error) -> String {
    error
        .chain()
        .fold(String::new(), |text, cause| match cause.to_string() {
            cause if text.is_empty() => cause,
            cause if text.contains(&cause) => text,
            cause => format!("{text}: {cause}"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::builder::StyledStr;

    /// The lines of `-h` about flags, on a terminal of 100 columns.
    fn flags(help: &StyledStr) -> Vec<String> {
        let help = help.to_string();
        let lines = help.lines().filter(|line| line.starts_with("  "));
        lines.map(str::to_owned).collect()
    }

    /// All commands and their subcommands.
    fn below(command: &clap::Command) -> Vec<clap::Command> {
        let all = command.get_subcommands();
        all.flat_map(|command| [vec![command.clone()], below(command)].concat())
            .collect()
    }

    #[test]
    fn commands_with_many_flags_group_them_and_give_examples() {
        let mut cli = Cli::command().term_width(100);
        cli.build();
        let mut seen = Vec::new();
        for mut command in below(&cli) {
            let named = command.get_arguments().filter(|arg| {
                let is_shown = !arg.is_hide_set() && !arg.is_hide_short_help_set();
                arg.get_long().is_some() && is_shown
            });
            let asked: Vec<_> = named
                .filter(|arg| arg.get_long() != Some("help"))
                .cloned()
                .collect();
            if asked.len() <= 5 {
                continue;
            }
            let name = command.get_name().to_owned();
            for arg in &asked {
                assert!(arg.get_help_heading().is_some(), "{name}: {arg}");
            }
            let short = command.render_help();
            let (flags, examples): (Vec<_>, Vec<_>) = flags(&short)
                .into_iter()
                .partition(|line| !line.starts_with("  trackiops"));
            assert_eq!(examples.len(), 3, "{name}: {examples:#?}");
            // Each flag has one line, and so has -h.
            let lines = asked.len() + command.get_positionals().count() + 1;
            assert_eq!(flags.len(), lines, "{name}: {flags:#?}");
            for line in flags.iter().chain(&examples) {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
            seen.push(name);
        }
        assert_eq!(
            seen,
            [
                "record",
                "doctor",
                "watch",
                "top",
                "metrics",
                "serve",
                "why",
                "query",
                "histogram",
                "files",
                "requests",
                "flamegraph",
                "stalls",
                "marks",
                "mounts",
                "test",
                "export",
                "incident",
                "billing",
                "noisy",
                "slow",
                "placement",
                "carbon",
                "sequentiality",
                "sizes",
                "latency",
                "rates",
                "burst",
                "cube",
                "outstanding",
                "reuse",
                "contention",
                "files",
                "operations",
                "paths",
                "xids",
                "compare",
                "pcap",
                "account",
                "volume"
            ]
        );
    }

    #[test]
    fn the_help_lists_every_command_once() {
        let mut listed: Vec<_> = HELP.lines().filter(|line| line.starts_with("  ")).collect();
        listed.sort_unstable();
        let commands = Cli::command();
        let commands = commands.get_subcommands();
        let mut expected: Vec<_> = commands
            .map(|command| {
                let about = command.get_about().map(ToString::to_string);
                format!("  {:<14} {}", command.get_name(), about.unwrap_or_default())
            })
            .collect();
        expected.sort_unstable();
        assert_eq!(listed, expected);
    }

    #[test]
    fn the_flags_of_all_commands_go_together() {
        Cli::command().debug_assert();
    }
}
