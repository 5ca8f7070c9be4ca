//! The program under test: built now, or a given binary.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

const OVERRIDE: &str = "TRACKIOPS_BIN";

/// The path of a fresh release build, or of what the environment names.
pub fn binary(quiet: bool) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(OVERRIDE).filter(|v| !v.is_empty()) {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("{OVERRIDE}={} is not a file", path.display());
        }
        return Ok(path);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--package",
        "trackiops",
        "--bin",
        "trackiops",
    ]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if quiet {
        command.arg("--quiet");
    }
    // The workspace's own configuration applies wherever we were called from.
    let output = command
        .current_dir(workspace)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("trackiops does not build; fix that, or name a binary in {OVERRIDE}");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages).context("cargo built no binary `trackiops`")
}

/// The executable in cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| {
            message["reason"] == "compiler-artifact" && message["target"]["name"] == "trackiops"
        })
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"trackiops"},"executable":null}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","target":{"name":"trackiops"},"executable":"/t/release/trackiops"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#
        );
        assert_eq!(
            executable(messages),
            Some(PathBuf::from("/t/release/trackiops"))
        );
        assert_eq!(executable(""), None);
    }
}
