//! The container image of `make dist`, and the statements of docs/guide/containers.md about it.

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes the image of a program to `file`.
pub fn image(program: &Path, file: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let doc = "usr/share/doc/trackiops";
    for dir in ["usr/bin", "etc/trackiops", doc] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    let here = Path::new(ROOT);
    fs::copy(program, root.join("usr/bin/trackiops")).unwrap();
    let configuration = "etc/trackiops/trackiops.toml";
    fs::copy(
        here.join("contrib/trackiops.toml"),
        root.join(configuration),
    )
    .unwrap();
    fs::copy(here.join("LICENSE-MIT"), root.join(doc).join("LICENSE-MIT")).unwrap();
    let mut pack = Command::new(here.join("contrib/package/oci-image.py"));
    pack.arg(root).arg(file);
    pack.args([VERSION, std::env::consts::ARCH, "1700000000"]);
    assert!(pack.arg("MIT OR Apache-2.0").status().unwrap().success());
}

/// The command block on that page that contains this command.
pub fn commands(with: &str) -> String {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/guide/containers.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    let mut blocks = blocks.map(|rest| rest.split("```").next().unwrap_or_default());
    let found = blocks.find(|block| block.contains(with));
    found.unwrap_or_else(|| panic!("no {with}")).to_owned()
}
