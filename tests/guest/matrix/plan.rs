//! The cells of the matrix: possible ones, impossible ones, and the selection of a run.

use crate::matrix::pairwise;

/// The versions of NFS, as `vers=` takes them.
pub const VERSIONS: [&str; 4] = ["3", "4.0", "4.1", "4.2"];

/// How an application moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `read` and `write` through the page cache, with a partial last page and a file with holes.
    Buffered,
    /// `pread` and `pwrite` with `O_DIRECT`.
    Direct,
    /// Loads from and stores to a shared mapping.
    Mmap,
    /// `copy_file_range`: a COPY on the server over v4.2, otherwise READ and WRITE.
    Copy,
    /// `splice` from a pipe to the file and back.
    Splice,
    /// `io_submit` with `O_DIRECT`, 8 deep.
    Aio,
    /// `io_uring` with `O_DIRECT`, 8 deep.
    IoUring,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Buffered,
        Self::Direct,
        Self::Mmap,
        Self::Copy,
        Self::Splice,
        Self::Aio,
        Self::IoUring,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
            Self::Mmap => "mmap",
            Self::Copy => "copy",
            Self::Splice => "splice",
            Self::Aio => "aio",
            Self::IoUring => "io_uring",
        }
    }
}

/// Mount options of a cell, besides the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub name: &'static str,
    /// The options for `mount -o`.
    pub given: &'static str,
}

pub const OPTIONS: [Options; 6] = [
    Options {
        name: "default",
        given: "defaults",
    },
    Options {
        name: "sync",
        given: "sync",
    },
    Options {
        name: "nconnect",
        given: "nconnect=4",
    },
    Options {
        name: "small",
        given: "rsize=4096,wsize=8192",
    },
    Options {
        name: "sec",
        given: "sec=sys",
    },
    Options {
        name: "nolock",
        given: "nolock",
    },
];

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub kernel: String,
    pub version: &'static str,
    pub kind: Kind,
    pub options: Options,
}

/// Why some combinations are not cells.
pub const EXCLUDED: &str = "`nolock` is combined with version 3 only: over NFSv4 it means nothing, locks being part of the protocol";

impl Cell {
    /// [`EXCLUDED`] as code.
    fn is_possible(&self) -> bool {
        self.options.given != "nolock" || self.version == "3"
    }

    /// Name of the cell on its kernel, and of its export.
    pub fn name(&self) -> String {
        format!(
            "{}-{}-{}",
            self.version,
            self.kind.name(),
            self.options.name
        )
    }
}

/// Every possible cell on these kernels, ordered by kernel; each with its levels.
fn product(kernels: &[String]) -> (Vec<Cell>, Vec<Vec<usize>>) {
    let (mut cells, mut levels) = (Vec::new(), Vec::new());
    for (k, kernel) in kernels.iter().enumerate() {
        for (v, version) in VERSIONS.into_iter().enumerate() {
            for (i, kind) in Kind::ALL.into_iter().enumerate() {
                for (o, options) in OPTIONS.into_iter().enumerate() {
                    let kernel = kernel.clone();
                    let cell = Cell {
                        kernel,
                        version,
                        kind,
                        options,
                    };
                    if cell.is_possible() {
                        cells.push(cell);
                        levels.push(vec![k, v, i, o]);
                    }
                }
            }
        }
    }
    (cells, levels)
}

/// Every possible cell on these kernels.
pub fn full(kernels: &[String]) -> Vec<Cell> {
    product(kernels).0
}

/// Cells that cover every possible pair of kernel, version, kind and options.
pub fn pairwise(kernels: &[String]) -> Vec<Cell> {
    let (cells, levels) = product(kernels);
    let chosen = pairwise::covering(&levels);
    chosen.into_iter().map(|i| cells[i].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::KERNELS;

    fn kernels() -> Vec<String> {
        KERNELS.map(str::to_owned).to_vec()
    }

    #[test]
    fn only_what_the_rule_names_is_excluded() {
        // 4 kernels, 7 kinds; 6 options over v3, 5 over the others.
        assert_eq!(full(&kernels()).len(), 4 * 7 * (6 + 3 * 5));
        let nolock = |c: &&Cell| c.options.given == "nolock";
        let cells = full(&kernels());
        assert!(cells.iter().filter(nolock).all(|c| c.version == "3"));
        assert_eq!(cells.iter().filter(nolock).count(), 4 * 7);
    }

    #[test]
    fn the_pairwise_set_covers_and_is_near_the_least_possible() {
        let (cells, levels) = product(&kernels());
        let chosen = pairwise(&kernels());
        let met = |a: &dyn Fn(&Cell) -> bool, b: &dyn Fn(&Cell) -> bool| {
            chosen.iter().any(|c| a(c) && b(c))
        };
        for cell in &cells {
            let has: [&dyn Fn(&Cell) -> bool; 4] = [
                &|c| c.kernel == cell.kernel,
                &|c| c.version == cell.version,
                &|c| c.kind == cell.kind,
                &|c| c.options == cell.options,
            ];
            for a in 0..4 {
                for b in a + 1..4 {
                    assert!(met(has[a], has[b]), "{cell:?}: factors {a} and {b}");
                }
            }
        }
        let least = pairwise::lower_bound(&levels);
        println!("{} cells; no set has fewer than {least}", chosen.len());
        for kernel in kernels() {
            println!(
                "{kernel}: {}",
                chosen.iter().filter(|c| c.kernel == kernel).count()
            );
        }
        assert_eq!(least, 7 * 6, "each kind meets each of the options");
        assert!(chosen.len() <= least + 2, "{}", chosen.len());
    }

    #[test]
    fn the_pairwise_set_is_the_same_every_time() {
        assert_eq!(pairwise(&kernels()), pairwise(&kernels()));
    }

    #[test]
    fn names_tell_the_cells_of_a_kernel_apart() {
        let names: Vec<String> = full(&kernels()[..1]).iter().map(Cell::name).collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
