//! `cargo vm run` and `cargo vm fetch`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempPath;

use crate::accel::{self, Accel};
use crate::built::Built;
use crate::cache::Cache;
use crate::cli::{Guest, Run};
use crate::console::Console;
use crate::host;
use crate::initrd;
use crate::lock::Lock;
use crate::mirror::Mirror;
use crate::packages::Source;
use crate::payload::Payload;
use crate::qemu::Machine;
use crate::rootfs::Root;
use crate::session::{self, Outcome, Report, Sinks};
use crate::trackiops;
use crate::{FAILED, TIMED_OUT};

/// Arguments that cannot be executed.
#[derive(Debug)]
pub struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Everything a boot needs, on disk.
pub struct Fetched {
    cache: Cache,
    kernel: Built,
    root: PathBuf,
}

/// Gets or builds everything that is not in the cache.
pub fn fetch(guest: &Guest) -> Result<Fetched> {
    host::ensure_tools()?;
    let cache = Cache::open()?;
    let lock = Lock::read()?;
    let kernel = &guest.kernel;
    let extra = guest.extra();
    let root = Root { extra: &extra };
    if let (Some(kernel), Some(root)) = (kernel.cached(&cache, &lock)?, root.cached(&cache, &lock)?)
    {
        return Ok(Fetched {
            cache,
            kernel,
            root,
        });
    }
    let held = cache.lock()?;
    let source = Source::new(&cache, Mirror::find()?);
    let kernel = kernel.get(&source, &lock)?;
    // Another process may have built it meanwhile.
    let root = match root.cached(&cache, &lock)? {
        Some(root) => root,
        None => root.build(&source, &lock)?,
    };
    drop(held);
    Ok(Fetched {
        cache,
        kernel,
        root,
    })
}

impl Fetched {
    /// A machine without a separate disk.
    fn machine(&self, accel: Accel, cpus: u32, memory_mib: u32, append: &str) -> Result<Machine> {
        Ok(Machine {
            accel,
            cpus,
            memory_mib,
            append: append.into(),
            vmlinuz: self.kernel.vmlinuz.clone(),
            initrd: initrd::get(&self.cache, &self.kernel, &self.root.join("busybox"))?,
            root_image: self.root.join("root.img"),
            modules_image: self.kernel.modules_image.clone(),
            disk: None,
            forward: Vec::new(),
            init: false,
        })
    }

    /// Whether a guest with NFS boots under KVM and runs a program.
    fn kvm_works(&self) -> Result<bool> {
        let script = tempfile::NamedTempFile::new()?;
        let payload = Payload {
            script: script.path(),
            args: &[],
            add: &[],
            trackiops: None,
            nfs: "4.2",
            timeout_s: 5,
            collect: false,
        };
        let machine = self
            .machine(Accel::Kvm, 2, 1024, "")?
            .start(payload.disk()?)?;
        let sinks = Sinks {
            stdout: Box::new(std::io::sink()),
            stderr: Box::new(std::io::sink()),
            out: None,
        };
        let report = session::follow(
            machine,
            sinks,
            Duration::from_secs(5),
            Some(accel::PROOF_LIMIT),
        );
        Ok(report.outcome == Outcome::Exited(0))
    }
}

/// Limit for a whole system with its services.
const SYSTEM_BOOT_LIMIT: Duration = Duration::from_secs(600);

/// Most boots for one run if the emulator fails. A script depends only on its guest, so it can be repeated.
const BOOTS: u32 = 3;

/// Boots a guest, runs the script, and returns the status to exit with.
pub fn run(run: &Run) -> Result<u8> {
    check(run)?;
    let began = Instant::now();
    let fetched = fetch(&run.guest)?;
    let binary = trackiops::binary(run.quiet)?;
    let accel = match run.icount {
        true => Accel::Counted,
        false => match Accel::choose(&fetched.cache, || fetched.kvm_works().unwrap_or(false))? {
            Accel::Tcg if run.by_turns => Accel::TcgByTurns,
            chosen => chosen,
        },
    };
    let cpus = run.cpus(accel);
    let payload = Payload {
        script: run.script(),
        args: run.args(),
        add: &run.add,
        trackiops: Some(&binary),
        nfs: run.nfs(),
        timeout_s: run.timeout,
        collect: run.out.is_some(),
    };
    let mut machine = Machine {
        disk: run.disk.clone(),
        forward: run.forward.clone(),
        init: run.init,
        ..fetched.machine(accel, cpus, run.mem, &run.append)?
    };
    if !run.quiet {
        let what = if run.no_nfs {
            "no NFS".into()
        } else {
            format!("NFS {}", run.nfs())
        };
        let (release, accel) = (&fetched.kernel.release, accel.name());
        host::say(format_args!(
            "booting {release}, {what}, {cpus} CPUs, {accel}"
        ));
    }
    let boot = |machine: &Machine| -> Result<Report> {
        let sinks = Sinks {
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
            out: run.out.as_deref(),
        };
        let machine = machine.start(payload.disk()?)?;
        let limit = Duration::from_secs(run.timeout);
        let boot = run.init.then_some(SYSTEM_BOOT_LIMIT);
        Ok(session::follow(machine, sinks, limit, boot))
    };
    let kept = match (&run.disk, accel) {
        (None, _) | (_, Accel::Kvm) => None,
        (Some(disk), _) => Some(KeptDisk::of(disk)?),
    };
    let mut report = boot(&machine)?;
    for _ in 1..BOOTS {
        let cause = match &report.outcome {
            Outcome::Failed(_)
                if machine.accel == Accel::Tcg && report.console.is_of_emulator() =>
            {
                machine.accel = Accel::TcgByTurns;
                "the emulator ran code that the kernel had replaced"
            }
            Outcome::NotUp(_) if accel != Accel::Kvm => "the guest did not come up",
            _ => break,
        };
        host::say(format_args!(
            "warning: {cause}; all over again in a fresh guest"
        ));
        if let Some(kept) = &kept {
            kept.restore()?;
        }
        report = boot(&machine)?;
    }
    finish(run, &fetched.cache, report, began)
}

/// A guest's disk before the first boot: a repeated boot must not see data of a failed guest.
struct KeptDisk<'a> {
    disk: &'a Path,
    copy: TempPath,
}

impl<'a> KeptDisk<'a> {
    fn of(disk: &'a Path) -> Result<Self> {
        let beside = disk.parent().unwrap_or(Path::new("."));
        let copy = tempfile::NamedTempFile::new_in(beside)?.into_temp_path();
        copy_sparse(disk, &copy)?;
        Ok(Self { disk, copy })
    }

    fn restore(&self) -> Result<()> {
        copy_sparse(&self.copy, self.disk)
    }
}

fn copy_sparse(from: &Path, to: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    copy.args(["--sparse=always", "--"]).arg(from).arg(to);
    let status = copy.status().context("cannot start cp")?;
    let what = format!("{} to {}", from.display(), to.display());
    ensure!(status.success(), "cannot copy the disk {what}: {status}");
    Ok(())
}

/// Errors that can be detected before anything is built.
fn check(run: &Run) -> Result<()> {
    if !run.script().is_file() {
        return Err(Usage(format!("no script {}", run.script().display())).into());
    }
    for path in &run.add {
        if !path.exists() {
            return Err(Usage(format!("cannot add {}: it does not exist", path.display())).into());
        }
    }
    if let Some(disk) = run.disk.as_ref().filter(|disk| !disk.is_file()) {
        let why = "make one with `truncate -s 1G FILE`";
        return Err(Usage(format!("--disk {} is no file: {why}", disk.display())).into());
    }
    match &run.out {
        Some(out) if out.exists() && !out.is_dir() => {
            Err(Usage(format!("--out {} is not a directory", out.display())).into())
        }
        _ => Ok(()),
    }
}

fn finish(run: &Run, cache: &Cache, report: Report, began: Instant) -> Result<u8> {
    if let Some(path) = &run.console {
        fs::write(path, report.console.text())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let (Some(started), false) = (report.script_started, run.quiet) {
        let (started, all) = (started.as_secs_f64(), began.elapsed().as_secs_f64());
        host::say(format_args!(
            "the script started {started:.1} s after power-on; {all:.1} s in all"
        ));
    }
    match report.outcome {
        Outcome::Exited(status) => {
            report.results?;
            Ok(u8::try_from(status).unwrap_or(FAILED))
        }
        Outcome::TimedOut => {
            show(cache, &report.console);
            host::say(format_args!(
                "failed: the script was still running after {} s",
                run.timeout
            ));
            Ok(TIMED_OUT)
        }
        Outcome::Failed(cause) => {
            show(cache, &report.console);
            host::say(format_args!("failed: {cause}"));
            Ok(FAILED)
        }
        Outcome::NotUp(limit) => {
            show(cache, &report.console);
            let seconds = limit.as_secs();
            host::say(format_args!(
                "failed: the guest did not come up within {seconds} s"
            ));
            Ok(FAILED)
        }
    }
}

/// Shows the console's last lines; a file keeps all of it.
fn show(cache: &Cache, console: &Console) {
    let path = cache.dir("console").join("last-failure.log");
    let mut text = String::from("vm: the console's last lines:\n");
    for line in console.tail() {
        text.push_str(&format!("    {line}\n"));
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
    if keep(&path, console.text()).is_ok() {
        host::say(format_args!("the whole console is in {}", path.display()));
    }
}

fn keep(path: &Path, text: &[u8]) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_restored_to_what_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        let before = [vec![0; 1 << 20], b"a system".to_vec(), vec![0; 1 << 20]].concat();
        fs::write(&disk, &before).unwrap();
        let kept = KeptDisk::of(&disk).unwrap();
        fs::write(&disk, b"what a guest wrote").unwrap();
        kept.restore().unwrap();
        assert_eq!(fs::read(&disk).unwrap(), before);
        drop(kept);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
