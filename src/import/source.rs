//! Where imports read from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file, or standard input.
pub struct Source {
    /// What it is called in messages.
    pub name: String,
    path: Option<PathBuf>,
}

impl Source {
    /// `-` is standard input, which there is one of.
    pub fn all(paths: &[PathBuf]) -> anyhow::Result<Vec<Self>> {
        let sources: Vec<Self> = paths.iter().map(|path| Self::of(path)).collect();
        if sources
            .iter()
            .filter(|source| source.path.is_none())
            .count()
            > 1
        {
            bail!("`-` is standard input and can be named once");
        }
        Ok(sources)
    }

    fn of(path: &Path) -> Self {
        let path = (path.as_os_str() != "-").then(|| path.to_owned());
        let name = path.as_ref().map(|path| path.display().to_string());
        Self {
            name: name.unwrap_or_else(|| "standard input".to_owned()),
            path,
        }
    }

    /// Its path, unless it is standard input.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Opens it.
    pub fn open(&self) -> anyhow::Result<Box<dyn Read + Send>> {
        Ok(match &self.path {
            Some(path) => Box::new(File::open(path).with_context(|| {
                format!(
                    "cannot open {}; check its name and who may read it",
                    self.name
                )
            })?),
            None => Box::new(io::stdin()),
        })
    }
}
