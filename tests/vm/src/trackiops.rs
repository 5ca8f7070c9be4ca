//! The program under test: the release, built now, or a given binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

const OVERRIDE: &str = "TRACKIOPS_BIN";

/// The path of the release from `make release`, or of the binary in the environment.
pub fn binary(quiet: bool) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(OVERRIDE).filter(|v| !v.is_empty()) {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("{OVERRIDE}={} is not a file", path.display());
        }
        return Ok(path);
    }
    release(quiet).with_context(|| format!("no release to test; or name a binary in {OVERRIDE}"))
}

/// One script builds the release and the tested program.
fn release(quiet: bool) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/release.sh");
    let mut command = Command::new(&script);
    if quiet {
        command.env("CARGO_TERM_QUIET", "true");
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", script.display(), output.status);
    }
    let path = String::from_utf8(output.stdout).context("the path of the release")?;
    Ok(PathBuf::from(path.trim_end_matches('\n')))
}
