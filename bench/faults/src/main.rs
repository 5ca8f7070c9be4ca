//! Damages stores and checks that no answer is wrong without a note; fails and kills a recorder's system calls; and cuts the power of its
//! disk. See `bench/README.md`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests, which it shares, fail by panicking"
)]

mod calls;
mod cuts;
mod damage;
mod kept;
mod mutants;
mod oracle;
mod pool;
mod recorder;
mod states;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: recorder::Failing = recorder::Failing;

#[derive(Parser)]
#[command(about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Damages stores, one mutant for each number from 0 on
    Mutate {
        /// How many mutants
        #[arg(long, default_value_t = 100_000)]
        mutants: u64,
        /// Another seed makes other mutants
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// This mutant alone
        #[arg(long)]
        mutant: Option<u64>,
        /// How many processes do it at once
        #[arg(long, default_value_t = 2)]
        jobs: u64,
        /// Keep each mutant that fails here
        #[arg(long)]
        keep: Option<PathBuf>,
    },
    /// Fails system calls of a recorder, and kills it at them
    Calls(calls::Args),
    /// Cuts the power of a recorder's disk: as root, where the kernel has dm-log-writes and loop
    Cuts(cuts::Args),
    /// Is failed and killed: a process of `calls`
    #[command(hide = true)]
    Record { dir: PathBuf },
    /// Makes every so manyth mutant: a process of `mutate`
    #[command(hide = true)]
    Mutants {
        from: u64,
        to: u64,
        step: u64,
        seed: u64,
        keep: Option<PathBuf>,
    },
    /// Is killed while it merges: a process of `mutate`
    #[command(hide = true)]
    Merging { store: PathBuf },
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Mutate {
            mutants,
            seed,
            mutant,
            jobs,
            keep,
        } => {
            let numbers = mutant.map_or(0..mutants, |number| number..number + 1);
            pool::mutate(numbers, seed, jobs, keep.as_deref())
        }
        Command::Mutants {
            from,
            to,
            step,
            seed,
            keep,
        } => {
            mutants::note_panics();
            let numbers = (from..to).step_by(step as usize);
            mutants::Workshop::new(seed)?.work(numbers, keep.as_deref())
        }
        Command::Calls(args) => {
            mutants::note_panics();
            calls::calls(&args)
        }
        Command::Cuts(args) => cuts::cuts(&args),
        Command::Record { dir } => recorder::run(&dir),
        Command::Merging { store } => states::merge(&store),
    }
}

/// A directory in memory, if such a file system exists.
fn scratch() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
}
