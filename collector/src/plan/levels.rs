//! The levels of I/O that a recorder records.

use std::str::FromStr;

/// The recorded levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Requests of the NFS client to its servers.
    pub wire: bool,
    /// Calls of applications on files of local file systems. Calls on NFS files belong to the wire.
    pub app: bool,
    /// Requests to block devices.
    pub block: bool,
    /// Changes of the page cache, in the rows of files of the other levels.
    pub cache: bool,
}

/// One of the recorded levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedLevel {
    /// [`Levels::wire`].
    Wire,
    /// [`Levels::app`].
    App,
    /// [`Levels::block`].
    Block,
    /// [`Levels::cache`].
    Cache,
}

impl FromStr for RecordedLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "wire" => Ok(Self::Wire),
            "app" => Ok(Self::App),
            "block" => Ok(Self::Block),
            "cache" => Ok(Self::Cache),
            other => Err(format!(
                "there is no level `{other}`: write wire, app, block or cache"
            )),
        }
    }
}

impl Levels {
    /// The wire alone.
    pub const WIRE: Self = Self {
        wire: true,
        app: false,
        block: false,
        cache: false,
    };
    /// The calls on files of local file systems alone.
    pub const APP: Self = Self {
        wire: false,
        app: true,
        block: false,
        cache: false,
    };
    /// The block level alone.
    pub const BLOCK: Self = Self {
        wire: false,
        app: false,
        block: true,
        cache: false,
    };

    /// Whether there are rows of files of local file systems.
    pub fn has_local(self) -> bool {
        self.app || self.block
    }
}

impl FromIterator<RecordedLevel> for Levels {
    fn from_iter<I: IntoIterator<Item = RecordedLevel>>(levels: I) -> Self {
        let mut all = Self::default();
        for level in levels {
            match level {
                RecordedLevel::Wire => all.wire = true,
                RecordedLevel::App => all.app = true,
                RecordedLevel::Block => all.block = true,
                RecordedLevel::Cache => all.cache = true,
            }
        }
        all
    }
}
