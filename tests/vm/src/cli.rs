//! The command line of `cargo vm`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::accel::Accel;
use crate::kernel::Kernel;
use crate::packages;

/// Boots Debian kernels with real NFS under QEMU and runs scripts in them
#[derive(Debug, Parser)]
#[command(name = "cargo vm", bin_name = "cargo vm")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boot a guest and run a script in it
    Run(Run),
    /// Get and build everything a run needs, without booting
    Fetch(Guest),
    /// Write the archive's current versions into the lock file
    Update(Update),
}

/// What to lock
#[derive(Debug, Args)]
pub struct Update {
    /// Kernels to lock, as `--kernel` takes them; without any, everything that is in the lock file
    #[arg(value_name = "KERNEL")]
    pub kernels: Vec<Kernel>,
}

/// Which guest
#[derive(Debug, Args)]
pub struct Guest {
    /// Kernel to boot: 5.10, 6.1, 6.12, newest, or a Debian package such as linux-image-cloud-amd64 or
    /// linux-image-rt-amd64/bookworm
    #[arg(long, default_value = "6.12", value_name = "KERNEL")]
    pub kernel: Kernel,

    /// Debian packages to add to the guest (repeatable, or separated by commas)
    #[arg(long, value_name = "PKG", value_delimiter = ',', value_parser = package)]
    pub deb: Vec<String>,
}

impl Guest {
    /// The extra packages as a set: the same set is the same guest.
    pub fn extra(&self) -> Vec<String> {
        let mut extra = self.deb.clone();
        extra.sort();
        extra.dedup();
        extra
    }
}

/// NFS versions that the guest can mount
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Nfs {
    #[value(name = "3")]
    V3,
    #[value(name = "4.0")]
    V40,
    #[value(name = "4.1")]
    V41,
    #[value(name = "4.2")]
    V42,
}

impl Nfs {
    pub fn version(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V40 => "4.0",
            Self::V41 => "4.1",
            Self::V42 => "4.2",
        }
    }
}

/// A run
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub guest: Guest,

    /// NFS version of the mount on /mnt/nfs
    #[arg(long, default_value = "4.2", value_name = "VERSION")]
    pub nfs: Nfs,

    /// Neither start the server nor load the client nor mount
    #[arg(long, conflicts_with = "nfs")]
    pub no_nfs: bool,

    /// Virtual CPUs
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cpus: u32,

    /// Count instructions: one CPU, emulated, on which each takes 1 ns of the guest's time; idle time is skipped
    #[arg(long, conflicts_with = "cpus")]
    pub icount: bool,

    /// Emulate the CPUs by turns, on one thread of the host: takes less of it, but no two CPUs run at once
    #[arg(long, conflicts_with = "icount")]
    pub by_turns: bool,

    /// Emulate only one CPU, which takes least of the host. With KVM there are --cpus
    #[arg(long, conflicts_with_all = ["icount", "by_turns"])]
    pub emulate_one: bool,

    /// Memory in MiB
    #[arg(long, default_value_t = 2048, value_name = "MIB", value_parser = clap::value_parser!(u32).range(512..))]
    pub mem: u32,

    /// Where to put what the script left in $OUT
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Seconds that the script may take
    #[arg(long, overrides_with = "timeout", default_value_t = 600, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub timeout: u64,

    /// File or directory to copy to /work in the guest (repeatable)
    #[arg(long, value_name = "PATH")]
    pub add: Vec<PathBuf>,

    /// A raw image that the guest may write: /dev/vdd there. What it has written stays, whatever ends the guest
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,

    /// Boot the system on --disk, an ext4: its own /sbin/init runs, and starts the script at each boot
    #[arg(long, requires = "disk", requires = "no_nfs")]
    pub init: bool,

    /// A port of the host's 127.0.0.1 that leads to one of the guest's 10.0.2.15, which the script gives to eth0 (repeatable)
    #[arg(long, value_name = "HOST:GUEST")]
    pub forward: Vec<Forward>,

    /// More words for the kernel's command line, such as lockdown=confidentiality
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub append: String,

    /// Where to keep the guest's console
    #[arg(long, value_name = "FILE")]
    pub console: Option<PathBuf>,

    /// Say nothing unless something fails
    #[arg(long, short)]
    pub quiet: bool,

    /// Bash script to run as root, with /work as its directory; what follows it belongs to it
    // One list, not two: clap stops looking for options only when the list has begun.
    #[arg(value_names = ["SCRIPT", "ARG"], required = true, num_args = 1.., trailing_var_arg = true)]
    words: Vec<String>,
}

impl Run {
    pub fn script(&self) -> &Path {
        Path::new(self.words.first().map_or("", String::as_str))
    }

    pub fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Virtual CPUs.
    pub fn cpus(&self, accel: Accel) -> u32 {
        match accel {
            Accel::Counted => 1,
            Accel::Tcg | Accel::TcgByTurns if self.emulate_one => 1,
            _ => self.cpus,
        }
    }

    /// As the guest's set-up wants it.
    pub fn nfs(&self) -> &'static str {
        if self.no_nfs {
            "none"
        } else {
            self.nfs.version()
        }
    }
}

/// A TCP port of the host, on loopback, and the one of the guest that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    pub host: u16,
    pub guest: u16,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
        let ports = text.split_once(':');
        let ports = ports.and_then(|(host, guest)| Some((port(host)?, port(guest)?)));
        let (host, guest) = ports.ok_or("two ports from 1 to 65535 are needed, as in 8080:80")?;
        Ok(Self { host, guest })
    }
}

fn package(text: &str) -> Result<String, String> {
    if packages::is_name(text) {
        Ok(text.to_string())
    } else {
        Err(format!("`{text}` is not the name of a Debian package"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &str) -> Result<Run, clap::Error> {
        let cli = Cli::try_parse_from(["cargo vm", "run"].into_iter().chain(words.split(' ')))?;
        match cli.command {
            Command::Run(run) => Ok(run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let run = run("script.sh").unwrap();
        assert_eq!(
            (
                run.guest.kernel.name.as_str(),
                run.nfs(),
                run.cpus,
                run.mem,
                run.timeout
            ),
            ("6.12", "4.2", 2, 2048, 600)
        );
        assert!(run.args().is_empty() && run.out.is_none());
    }

    #[test]
    fn what_follows_the_script_belongs_to_it() {
        let run = run("--cpus 4 s.sh --cpus 8 -x -- y --help").unwrap();
        assert_eq!(run.cpus, 4);
        assert_eq!(run.script(), Path::new("s.sh"));
        assert_eq!(run.args(), ["--cpus", "8", "-x", "--", "y", "--help"]);
    }

    #[test]
    fn packages_are_a_set_however_they_are_given() {
        let run = run("--deb strace,bpftrace --deb strace s.sh").unwrap();
        assert_eq!(run.guest.extra(), ["bpftrace", "strace"]);
    }

    #[test]
    fn ports_are_forwarded_from_the_host_to_the_guest() {
        let run = run("--forward 8080:80 --forward 2049:2049 s.sh").unwrap();
        let ports: Vec<_> = run.forward.iter().map(|of| (of.host, of.guest)).collect();
        assert_eq!(ports, [(8080, 80), (2049, 2049)]);
    }

    #[test]
    fn instructions_are_counted_on_one_cpu() {
        assert_eq!(run("--icount s.sh").unwrap().cpus(Accel::Counted), 1);
        assert_eq!(run("--cpus 3 s.sh").unwrap().cpus(Accel::Tcg), 3);
    }

    #[test]
    fn only_an_emulator_has_fewer_cpus_than_wanted() {
        let run = run("--cpus 3 --emulate-one s.sh").unwrap();
        assert_eq!((run.cpus(Accel::Tcg), run.cpus(Accel::Kvm)), (1, 3));
    }

    #[test]
    fn bad_arguments_are_refused_with_status_2() {
        for words in [
            "--nfs 2 s.sh",
            "--kernel 6.13 s.sh",
            "--kernel linux-image-rt-amd64/stable s.sh",
            "--cpus 0 s.sh",
            "--mem 64 s.sh",
            "--timeout 0 s.sh",
            "--deb -oX=1 s.sh",
            "--no-nfs --nfs 3 s.sh",
            "--icount --cpus 2 s.sh",
            "--icount --emulate-one s.sh",
            "--by-turns --emulate-one s.sh",
            "--forward 8080 s.sh",
            "--forward 0:80 s.sh",
            "--forward 8080:65536 s.sh",
            "--out",
            "--bogus s.sh",
        ] {
            assert_eq!(run(words).unwrap_err().exit_code(), 2, "{words}");
        }
    }
}
