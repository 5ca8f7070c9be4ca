//! The machine: QEMU's command line, its channels as pipes, and its end.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::accel::Accel;
use crate::cli::Forward;
use crate::host;

/// The thresholds allow for an emulated CPU on a shared host, where a vCPU thread may wait for seconds.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 loglevel=5 printk.time=1 panic=-1 oops=panic softlockup_panic=1 \
    watchdog_thresh=30 workqueue.watchdog_thresh=120 rcupdate.rcu_cpu_stall_timeout=120 nokaslr no_timer_check mitigations=off \
    nmi_watchdog=0 random.trust_cpu=on cryptomgr.notests";

/// A machine to boot.
#[derive(Debug)]
pub struct Machine {
    pub accel: Accel,
    pub cpus: u32,
    pub memory_mib: u32,
    /// More words for the kernel's command line.
    pub append: String,
    pub vmlinuz: PathBuf,
    pub initrd: PathBuf,
    pub root_image: PathBuf,
    pub modules_image: PathBuf,
    /// A writable disk.
    pub disk: Option<PathBuf>,
    /// Without forwards, the machine has no network device.
    pub forward: Vec<Forward>,
    /// Boot the system on the disk, and reboot if it asks for that.
    pub init: bool,
}

/// A running machine. Dropping it kills QEMU; so does any death of this process.
pub struct Running {
    child: Child,
}

/// The output of a machine. Each pipe ends when QEMU does.
pub struct Channels {
    pub console: PipeReader,
    /// QEMU's own error messages.
    pub complaints: PipeReader,
    pub control: PipeReader,
    pub stdout: PipeReader,
    pub stderr: PipeReader,
    pub results: PipeReader,
}

impl Machine {
    /// Starts QEMU. Call it on the main thread: the death signal depends on the thread that starts it.
    pub fn start(&self, payload: File) -> Result<(Running, Channels)> {
        let mut command = host::with_sbin("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
        command.args(self.arguments());
        let payload = OwnedFd::from(payload);
        inherit(&payload)?;
        disk(
            &mut command,
            "payload",
            &format!("/proc/self/fd/{}", payload.as_raw_fd()),
        );
        // Last, so that the other disks keep their names in the guest.
        if let Some(image) = &self.disk {
            command.args(disk_arguments("disk", &image.display().to_string(), ""));
        }
        command.args(network_arguments(&self.forward));

        let (console, console_end) = pipe()?;
        let (complaints, complaints_end) = pipe()?;
        // QEMU opens the console through its standard output, the ports by number.
        command.stdout(console_end).stderr(complaints_end);
        let mut ends = Vec::new();
        let control = port(&mut command, 1, &mut ends)?;
        let stdout = port(&mut command, 2, &mut ends)?;
        let stderr = port(&mut command, 3, &mut ends)?;
        let results = port(&mut command, 4, &mut ends)?;
        let child = command.spawn().context("cannot start qemu-system-x86_64")?;
        // Closes this process's copies of the write ends here, in `command` and in `ends`: then a pipe ends with QEMU.
        let channels = Channels {
            console,
            complaints,
            control,
            stdout,
            stderr,
            results,
        };
        Ok((Running { child }, channels))
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = [
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-rtc",
            "base=utc",
            "-chardev",
            "file,id=console,path=/dev/stdout",
            "-serial",
            "chardev:console",
            "-device",
            "virtio-serial-pci",
        ]
        .map(String::from)
        .into();
        let more = if self.init {
            " vm.init"
        } else {
            arguments.push("-no-reboot".into());
            ""
        };
        arguments.extend(self.accel.arguments().iter().map(|a| String::from(*a)));
        for (option, value) in [
            ("-smp", self.cpus.to_string()),
            ("-m", self.memory_mib.to_string()),
            ("-kernel", self.vmlinuz.display().to_string()),
            ("-initrd", self.initrd.display().to_string()),
            (
                "-append",
                format!(
                    "{KERNEL_ARGUMENTS}{} {}{more}",
                    self.accel.kernel_words(),
                    self.append
                ),
            ),
        ] {
            arguments.push(option.into());
            arguments.push(value);
        }
        for (id, image) in [("root", &self.root_image), ("modules", &self.modules_image)] {
            arguments.extend(disk_arguments(id, &image.display().to_string(), SHARED));
        }
        arguments
    }
}

impl Running {
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn disk(command: &mut Command, id: &str, file: &str) {
    command.args(disk_arguments(id, file, SHARED));
}

/// Read-only, because several machines may share an image.
const SHARED: &str = ",readonly=on,file.locking=off";

/// A disk with separate options.
fn disk_arguments(id: &str, file: &str, options: &str) -> [String; 4] {
    let file = file.replace(',', ",,");
    [
        "-drive".into(),
        format!("if=none,id={id},file={file},format=raw{options}"),
        "-device".into(),
        format!("virtio-blk-pci,drive={id}"),
    ]
}

/// A network that leads only to forwarded ports of the host. It cannot boot, so QEMU needs no ROM for it.
fn network_arguments(forward: &[Forward]) -> Vec<String> {
    if forward.is_empty() {
        return Vec::new();
    }
    let mut network = String::from("user,id=network,restrict=on");
    for Forward { host, guest } in forward {
        network.push_str(&format!(",hostfwd=tcp:127.0.0.1:{host}-10.0.2.15:{guest}"));
    }
    let device = "virtio-net-pci,netdev=network,romfile=".into();
    vec!["-netdev".into(), network, "-device".into(), device]
}

/// A channel from the guest's /dev/vport0p<number> to this process.
fn port(command: &mut Command, number: u32, ends: &mut Vec<PipeWriter>) -> Result<PipeReader> {
    let (reader, writer) = pipe()?;
    inherit(&writer)?;
    command.arg("-chardev").arg(format!(
        "file,id=port{number},path=/proc/self/fd/{}",
        writer.as_raw_fd()
    ));
    command
        .arg("-device")
        .arg(format!("virtserialport,nr={number},chardev=port{number}"));
    ends.push(writer);
    Ok(reader)
}

/// Lets the next program inherit this descriptor under its number.
fn inherit(fd: impl AsFd) -> Result<()> {
    fcntl_setfd(fd, FdFlags::empty()).context("cannot pass a descriptor to qemu")
}
