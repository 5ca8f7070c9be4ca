//! The flag for the permissions of a written file.

use trackiops_process::output::FilePermissions;

use crate::help_headings::OUTPUT;

/// Who may read a written file: it has names of files, users and directories.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct UmaskFlag {
    /// Give the file the permissions of your umask, not 0600
    ///
    /// Without it only you may read what is written, also where a file is replaced that others may read.
    #[arg(long = "umask", help_heading = OUTPUT)]
    by_umask: bool,
}

impl From<UmaskFlag> for FilePermissions {
    fn from(UmaskFlag { by_umask }: UmaskFlag) -> Self {
        Self { by_umask }
    }
}
