//! `trackiops anonymize-key` and `trackiops deanonymize`: creates keys for `export --anonymize`, and reverses it.

use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use rustix::rand::{GetRandomFlags, getrandom};
use trackiops_process::output::{FilePermissions, Output, PartialFile};
use trackiops_render::formats::{Reader, Writer};
use trackiops_render::pseudonym::{self, Key, Pseudonyms, Way};
use trackiops_render::suffix::{EXPORTS, format_of};
use trackiops_schemas::regular_file::open_regular;

use crate::read_memory_flag::ReadMemoryFlag;
use crate::umask_flag::UmaskFlag;

/// A key file contains one line.
const MOST_KEY_BYTES: u64 = 4096;
/// Permission bits of everyone except the owner.
const OTHERS: u32 = 0o077;

/// What `trackiops anonymize-key` takes.
#[derive(clap::Args)]
pub struct KeyArgs {
    /// The file to make, readable by its owner alone. Keep it: nothing else leads from tokens back to names
    file: PathBuf,
}

/// What `trackiops deanonymize` takes.
#[derive(clap::Args)]
pub struct Args {
    /// The key file with which the export was made
    #[arg(long, value_name = "KEYFILE")]
    key: PathBuf,
    /// What `trackiops export --anonymize` wrote: Parquet, Arrow or CSV, all of its columns or some
    input: PathBuf,
    /// The file to write, in the same format
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    access: UmaskFlag,
    #[command(flatten)]
    memory: ReadMemoryFlag,
}

/// Makes a key file.
pub fn make_key(args: KeyArgs) -> anyhow::Result<ExitCode> {
    let shown = args.file.display();
    if args.file.symlink_metadata().is_ok() {
        bail!(
            "{shown} is there already, and a key that is overwritten is lost with all names that it leads to; name another file"
        );
    }
    let mut random = [0; Key::BYTES];
    let mut filled = 0;
    while filled < random.len() {
        filled += getrandom(&mut random[filled..], GetRandomFlags::empty())
            .context("the system has no random numbers; nothing is written")?;
    }
    let write = || -> std::io::Result<()> {
        // Only its owner may read a key.
        let mut partial = PartialFile::create(&args.file, FilePermissions::default())?;
        let mut file = partial.file()?;
        file.write_all(Key::new(&random).to_text().as_bytes())?;
        file.sync_all()?;
        partial.put_in_free_place()
    };
    write().with_context(|| format!("cannot write {shown}; check its directory"))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a key file. Refuses it if anyone but its owner may read it.
pub fn read_key(path: &Path) -> anyhow::Result<Key> {
    let shown = path.display();
    let cannot = || format!("cannot read the key {shown}; `trackiops anonymize-key` makes one");
    let file = open_regular(path).with_context(cannot)?;
    let mode = file.metadata().with_context(cannot)?.permissions().mode();
    if mode & OTHERS != 0 {
        bail!(
            "others than its owner may use the key {shown} (its mode is {:04o}), and whoever has it can undo the anonymization: \
             chmod 600 {shown}",
            mode & 0o7777
        );
    }
    let mut text = String::new();
    let read = file.take(MOST_KEY_BYTES).read_to_string(&mut text);
    read.with_context(cannot)?;
    Key::parse(&text).with_context(|| format!("the key {shown} cannot be used"))
}

/// Restores the names.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.memory.apply();
    let key = read_key(&args.key)?;
    let output = Output::new(Some(args.output.clone()), args.access)?;
    let Output::File(output, access) = output else {
        bail!(
            "--output: name a file; stdout or a pipe could not be taken back if the key turned out wrong"
        );
    };
    let mut reader = Reader::open(&args.input, &pseudonym::known_schemas())?;
    let kind = reader.kind();
    let what = format!("{}, which is {}", args.input.display(), kind.extension());
    format_of(Some(&args.output), EXPORTS, Some((kind, &what)), kind)?;
    let cannot = || format!("cannot write {}", output.display());
    let mut partial = PartialFile::create(&output, access).with_context(cannot)?;
    let out = BufWriter::new(partial.file().with_context(cannot)?);
    let mut writer = Writer::new(reader.kind(), reader.schema(), out).with_context(cannot)?;
    writer.describe(reader.described());
    let mut pseudonyms = Pseudonyms::new(&key, Way::Reveal);
    for batch in &mut reader {
        let batch = pseudonym::apply(&batch?, &mut pseudonyms).with_context(|| {
            format!(
                "{} is not what the key {} made: it was made with another key, or is not anonymized; nothing is written",
                args.input.display(),
                args.key.display()
            )
        })?;
        writer.write(&batch).with_context(cannot)?;
    }
    let finished = || -> std::io::Result<()> {
        let out = writer.finish()?.out.into_inner();
        out.map_err(|error| error.into_error())?.sync_all()?;
        partial.put_in_place()
    };
    finished().with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}
