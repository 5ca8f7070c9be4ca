//! Disks: files as block devices, a device that logs writes, and mounts that end with the process.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// <linux/loop.h>
const LOOP_CONFIGURE: u32 = 0x4C0A;
const LOOP_CTL_GET_FREE: u32 = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LOOP_CONFIG_BYTES: usize = 304;
/// Offset of `info.lo_flags` in `struct loop_config`: behind two numbers of 32 bits, five of 64 and three of 32.
const LOOP_FLAGS_AT: usize = 8 + 40 + 12;
/// Attempts to get a free loop device: another process may take it first.
const ATTEMPTS: usize = 1000;

/// A file as a block device, as long as this value or a mount of it exists.
pub struct Loop {
    _device: File,
    pub path: PathBuf,
}

impl Loop {
    pub fn new(file: &File) -> Result<Self> {
        let control = open("/dev/loop-control".as_ref())?;
        let mut config = [0_u8; LOOP_CONFIG_BYTES];
        config[..4].copy_from_slice(&file.as_raw_fd().to_ne_bytes());
        config[LOOP_FLAGS_AT..LOOP_FLAGS_AT + 4].copy_from_slice(&LO_FLAGS_AUTOCLEAR.to_ne_bytes());
        for _ in 0..ATTEMPTS {
            // SAFETY: the call takes no pointer.
            let number = checked(unsafe {
                libc::ioctl(control.as_raw_fd(), libc::Ioctl::from(LOOP_CTL_GET_FREE))
            })
            .context("no loop device is to be had")?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = open(&path)?;
            // SAFETY: the call reads a `struct loop_config`, which has this many bytes.
            let configured = checked(unsafe {
                libc::ioctl(
                    device.as_raw_fd(),
                    libc::Ioctl::from(LOOP_CONFIGURE),
                    config.as_ptr(),
                )
            });
            match configured {
                Ok(_) => {
                    return Ok(Self {
                        _device: device,
                        path,
                    });
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error).context(path.display().to_string()),
            }
        }
        bail!("every free loop device is somebody else's at once")
    }
}

fn open(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}

fn checked(returned: i32) -> io::Result<i32> {
    match returned {
        -1 => Err(io::Error::last_os_error()),
        returned => Ok(returned),
    }
}

/// <linux/dm-ioctl.h>
const DM_VERSION: [u32; 3] = [4, 0, 0];
const DM_DEV_CREATE: u32 = 3;
const DM_DEV_REMOVE: u32 = 4;
const DM_DEV_SUSPEND: u32 = 6;
const DM_TABLE_LOAD: u32 = 9;
const DM_TARGET_MSG: u32 = 14;
/// `struct dm_ioctl`: its size, the offsets of its numbers, and the length of a name.
const DM_BYTES: usize = 312;
const DM_SIZE_AT: usize = 12;
const DM_START_AT: usize = 16;
const DM_TARGETS_AT: usize = 20;
const DM_DEV_AT: usize = 40;
const DM_NAME_AT: usize = 48;
/// `struct dm_target_spec` without the data behind it, and its numbers that are not zero.
const SPEC_BYTES: usize = 40;
const SPEC_LENGTH_AT: usize = 8;
const SPEC_TYPE_AT: usize = 24;

/// A device that logs all writes, in the order in which they become durable.
pub struct Logged {
    control: File,
    name: String,
    pub path: PathBuf,
}

impl Logged {
    /// A device of `bytes` bytes that writes to one device and logs to another.
    pub fn new(name: &str, bytes: u64, to: &Path, log: &Path) -> Result<Self> {
        let control = open("/dev/mapper/control".as_ref())?;
        let mut made = Self {
            control,
            name: name.to_owned(),
            path: PathBuf::new(),
        };
        let created = made.call(DM_DEV_CREATE, 0, &[])?;
        // Large device numbers have these 12 bits of the major number in the middle.
        let dev = u64::from_ne_bytes(created[DM_DEV_AT..DM_DEV_AT + 8].try_into()?);
        let minor = (dev & 0xff) | (dev >> 12 & 0xffff_ff00);
        made.path = PathBuf::from(format!("/dev/dm-{minor}"));
        let mut table = vec![0; SPEC_BYTES];
        table[SPEC_LENGTH_AT..SPEC_LENGTH_AT + 8].copy_from_slice(&(bytes / 512).to_ne_bytes());
        let target = b"log-writes";
        table[SPEC_TYPE_AT..SPEC_TYPE_AT + target.len()].copy_from_slice(target);
        table.extend(format!("{} {}\0", to.display(), log.display()).bytes());
        table.resize(table.len().next_multiple_of(8), 0);
        made.call(DM_TABLE_LOAD, 1, &table)
            .context("the kernel has no target log-writes")?;
        made.call(DM_DEV_SUSPEND, 0, &[])?;
        let device = made.path.metadata();
        let is_block = device.is_ok_and(|device| device.file_type().is_block_device());
        ensure!(is_block, "{} is no block device", made.path.display());
        Ok(made)
    }

    /// Puts a mark into the log. Everything that was durable before precedes it in the log.
    pub fn mark(&self, text: &str) -> Result<()> {
        let sector = 0_u64.to_ne_bytes();
        let message = [&sector, format!("mark {text}\0").as_bytes()].concat();
        self.call(DM_TARGET_MSG, 0, &message).map(drop)
    }

    /// Ends the log.
    pub fn remove(self) -> Result<()> {
        self.call(DM_DEV_REMOVE, 0, &[]).map(drop)
    }

    fn call(&self, number: u32, targets: u32, payload: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = vec![0; DM_BYTES];
        bytes.extend(payload);
        let size = bytes.len() as u32;
        let numbers = DM_VERSION.into_iter().enumerate();
        let numbers = numbers.map(|(place, number)| (place * 4, number));
        for (at, number) in numbers.chain([
            (DM_SIZE_AT, size),
            (DM_START_AT, DM_BYTES as u32),
            (DM_TARGETS_AT, targets),
        ]) {
            bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        let name = self.name.as_bytes();
        bytes[DM_NAME_AT..DM_NAME_AT + name.len()].copy_from_slice(name);
        let request = 3 << 30 | (DM_BYTES as u32) << 16 | 0xfd << 8 | number;
        // SAFETY: the kernel reads and writes a `struct dm_ioctl` and the data behind it, up to the size that it states.
        let done = checked(unsafe {
            libc::ioctl(
                self.control.as_raw_fd(),
                request as libc::Ioctl,
                bytes.as_mut_ptr(),
            )
        });
        done.with_context(|| format!("device mapper, call {number}"))?;
        Ok(bytes)
    }
}

/// Makes later mounts private to this process, so that they end with it. Call it before starting another thread.
pub fn own_mounts() -> Result<()> {
    // SAFETY: the call changes only the namespace.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNS) })
        .context("mounting needs root: a namespace of one's own")?;
    call_mount(
        "none",
        "/".as_ref(),
        "",
        libc::MS_REC | libc::MS_PRIVATE,
        "",
    )?;
    Ok(())
}

fn call_mount(from: &str, to: &Path, kind: &str, flags: u64, options: &str) -> Result<()> {
    let [from, kind, options] = [from, kind, options].map(CString::new);
    let to = CString::new(to.as_os_str().as_encoded_bytes())?;
    let (from, kind, options) = (from?, kind?, options?);
    // SAFETY: the texts end in zeros and outlive the call.
    let mounted = checked(unsafe {
        libc::mount(
            from.as_ptr(),
            to.as_ptr(),
            kind.as_ptr(),
            flags as libc::c_ulong,
            options.as_ptr().cast(),
        )
    });
    mounted.map(drop).map_err(anyhow::Error::from)
}

/// A mounted file system.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn new(device: &Path, to: &Path, file_system: &str, options: &str) -> Result<Self> {
        let device = device.display().to_string();
        call_mount(&device, to, file_system, libc::MS_NOATIME, options)
            .with_context(|| format!("mounting {file_system}"))?;
        Ok(Self(to.to_owned()))
    }

    fn end(&self) -> Result<()> {
        let path = CString::new(self.0.as_os_str().as_encoded_bytes())?;
        // SAFETY: the text ends in a zero and outlives the call.
        checked(unsafe { libc::umount2(path.as_ptr(), 0) })
            .with_context(|| format!("unmounting {}", self.0.display()))?;
        Ok(())
    }

    pub fn unmount(self) -> Result<()> {
        let ended = self.end();
        std::mem::forget(self);
        ended
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Ignore this error: an earlier one is already reported.
        let _ = self.end();
    }
}
