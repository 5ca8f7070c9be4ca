//! The repositories of `make dist`. apt and dnf install, upgrade, downgrade and remove packages from a server on loopback. They refuse what is
//! not signed, has the signature of another key, or was changed. These packages are stubs; `packages.rs` installs real ones in guests.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Whether a command succeeded, and what it printed.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    (output.status.success(), said.concat())
}

fn succeed(command: &mut Command) -> String {
    let (is_well, said) = run(command);
    assert!(is_well, "{command:?}: {said}");
    said
}

/// Makes a key, in a file as `TRACKIOPS_SIGNING_KEY` names it.
pub fn make_key(file: &Path) {
    let home = tempfile::tempdir().unwrap();
    let run = |program: &str, words: &[&str]| {
        succeed(
            Command::new(program)
                .env("GNUPGHOME", home.path())
                .args(words),
        );
    };
    let make = [
        "--batch",
        "--quiet",
        "--passphrase",
        "",
        "--quick-generate-key",
    ];
    run(
        "gpg",
        &[
            &make[..],
            &["Packages of a test", "ed25519", "sign", "never"],
        ]
        .concat(),
    );
    let file = file.to_str().unwrap();
    run(
        "gpg",
        &[
            "--batch",
            "--quiet",
            "--armor",
            "--output",
            file,
            "--export-secret-keys",
        ],
    );
    run("gpgconf", &["--kill", "gpg-agent"]);
}

fn script(out: &Path, dists: &[&Path], key: Option<&Path>, url: &str) -> Command {
    let mut script = Command::new(Path::new(ROOT).join("scripts/repositories.sh"));
    script.arg(out).args(dists);
    script.env("TRACKIOPS_REPOSITORIES_URL", url);
    match key {
        Some(key) => script.env("TRACKIOPS_SIGNING_KEY", key),
        None => script.env_remove("TRACKIOPS_SIGNING_KEY"),
    };
    script
}

/// Makes repositories, which will be at `url`, of the packages in some directories.
pub fn make(out: &Path, dists: &[&Path], key: Option<&Path>, url: &str) {
    succeed(&mut script(out, dists, key, url));
}

const CONTROL: &str = "\
Package: trackiops
Version: VERSION-1
Architecture: ARCH
Maintainer: Test <test@example.invalid>
Description: stub
";

const SPEC: &str = "\
Name: trackiops
Version: VERSION
Release: 1
Summary: Stub
License: MIT
AutoReqProv: no
%description
Stub
%install
mkdir -p %{buildroot}/usr/share/trackiops
echo VERSION >%{buildroot}/usr/share/trackiops/version
%files
/usr/share/trackiops/version
";

/// Packages for both architectures. Each installs /usr/share/trackiops/version.
fn make_stubs(dist: &Path, version: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("tree");
    for directory in ["DEBIAN", "usr/share/trackiops"] {
        fs::create_dir_all(tree.join(directory)).unwrap();
    }
    fs::create_dir(dist).unwrap();
    fs::write(tree.join("usr/share/trackiops/version"), version).unwrap();
    for arch in ["amd64", "arm64"] {
        let control = CONTROL.replace("VERSION", version).replace("ARCH", arch);
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        let deb = dist.join(format!("trackiops_{version}-1_{arch}.deb"));
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "--build"]);
        succeed(build.arg(&tree).arg(deb));
    }
    let spec = scratch.path().join("trackiops.spec");
    fs::write(&spec, SPEC.replace("VERSION", version)).unwrap();
    for arch in ["x86_64", "aarch64"] {
        let top = scratch.path().join("rpm");
        let mut build = Command::new("rpmbuild");
        build.args(["-bb", "--quiet", "--target", &format!("{arch}-linux")]);
        build.args([
            "--define",
            "debug_package %{nil}",
            "--define",
            "__os_install_post %{nil}",
        ]);
        build
            .arg("--define")
            .arg(format!("_topdir {}", top.display()));
        succeed(build.arg(&spec));
        let rpm = format!("trackiops-{version}-1.{arch}.rpm");
        fs::copy(top.join("RPMS").join(arch).join(&rpm), dist.join(rpm)).unwrap();
    }
}

/// A server of the files below a directory.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(directory: &Path) -> Self {
        let mut python = Command::new("python3");
        python.args([
            "-u",
            "-m",
            "http.server",
            "0",
            "--bind",
            "127.0.0.1",
            "--directory",
        ]);
        python
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = python.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        // Serving HTTP on 127.0.0.1 port 8000 (http://127.0.0.1:8000/) ...
        let url = line
            .split(['(', ')'])
            .nth(1)
            .unwrap_or_else(|| panic!("{line}"));
        let url = url.trim_end_matches('/').to_owned();
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Versions 1 and 2 of the stubs, two keys, and a place for repositories on a server. What a client is given is of the first key.
struct Place {
    directory: TempDir,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(directory.path());
        let place = Self { directory, server };
        for version in ["1", "2"] {
            make_stubs(&place.at(version), version);
        }
        for key in ["key", "other-key"] {
            make_key(&place.at(key));
        }
        place.publish(&["1"], Some("key"));
        for name in ["trackiops.asc", "trackiops.repo", "trackiops.sources"] {
            fs::copy(place.at("repositories").join(name), place.at(name)).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn publish(&self, versions: &[&str], key: Option<&str>) {
        let url = format!("{}/repositories", self.server.url);
        let dists: Vec<_> = versions.iter().map(|version| self.at(version)).collect();
        let dists: Vec<_> = dists.iter().map(PathBuf::as_path).collect();
        let key = key.map(|key| self.at(key));
        make(&self.at("repositories"), &dists, key.as_deref(), &url);
        // A client asks for what is newer than what it has, in whole seconds.
        if let Ok(release) = File::open(self.at("repositories/apt/dists/stable/InRelease")) {
            let later = SystemTime::now() + Duration::from_secs(10 * versions.len() as u64);
            release.set_modified(later).unwrap();
        }
    }

    /// Runs a check while one bit of each of these files, or of the files below these directories, is another one.
    fn while_changed(&self, paths: &[&str], check: impl FnOnce()) {
        let mut files = vec![];
        for path in paths {
            add_files(&self.at("repositories").join(path), &mut files);
        }
        assert!(!files.is_empty(), "{paths:?}");
        let kept: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        for (file, kept) in files.iter().zip(&kept) {
            let mut changed = kept.clone();
            changed[kept.len() / 2] ^= 1;
            fs::write(file, changed).unwrap();
        }
        check();
        for (file, kept) in files.iter().zip(kept) {
            fs::write(file, kept).unwrap();
        }
    }
}

fn add_files(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            add_files(&entry.unwrap().path(), files);
        }
    } else {
        files.push(path.to_owned());
    }
}

/// A package manager with a separate root directory.
struct Client {
    root: TempDir,
    command: Vec<String>,
}

impl Client {
    fn run(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).args(words);
        command.env("APT_CONFIG", self.root.path().join("apt.conf"));
        run(command.env("LC_ALL", "C"))
    }

    fn does(&self, words: &[&str]) {
        let (is_well, said) = self.run(words);
        assert!(is_well, "{words:?}: {said}");
    }

    /// The version that is installed.
    fn version(&self) -> Option<String> {
        let version = fs::read_to_string(self.root.path().join("usr/share/trackiops/version"));
        version.ok().map(|version| version.trim().to_owned())
    }

    /// Installs nothing, and gives this reason.
    fn refuses(&self, why: &str) {
        let words = ["install", "trackiops"];
        let update = (self.command[0] == "apt-get").then(|| self.run(&["update"]));
        let (is_well, said) = self.run(&words);
        let said = update.map_or(String::new(), |(_, said)| said) + &said;
        assert!(!is_well && said.contains(why), "{why}: {said}");
        assert_eq!(self.version(), None, "{said}");
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn apt(place: &Place) -> Client {
    let root = tempfile::tempdir().unwrap();
    for directory in [
        "etc/apt/apt.conf.d",
        "etc/apt/preferences.d",
        "etc/apt/sources.list.d",
        "var/lib/apt/lists/partial",
        "var/cache/apt/archives/partial",
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "var/log/apt",
    ] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    fs::write(root.path().join("var/lib/dpkg/status"), "").unwrap();
    let sources = root.path().join("etc/apt/sources.list.d/trackiops.sources");
    fs::copy(place.at("trackiops.sources"), sources).unwrap();
    let conf = r#"
Dir "ROOT/";
Dir::State::status "ROOT/var/lib/dpkg/status";
APT::Sandbox::User "root";
Acquire::Languages "none";
DPkg::Options { "--root=ROOT"; "--force-not-root"; "--log=ROOT/var/log/dpkg.log"; };
"#;
    let conf = conf.replace("ROOT", root.path().to_str().unwrap());
    fs::write(root.path().join("apt.conf"), conf).unwrap();
    let command = words("apt-get -q -y");
    Client { root, command }
}

/// `settings` are further lines of the repository's.
fn dnf(place: &Place, settings: &str) -> Client {
    let root = tempfile::tempdir().unwrap();
    let repo = fs::read_to_string(place.at("trackiops.repo")).unwrap();
    let (repo, _) = repo.split_once("gpgkey=").unwrap();
    let key = place.at("trackiops.asc");
    let repo = format!("{repo}gpgkey=file://{}\n{settings}\n", key.display());
    fs::write(root.path().join("trackiops.repo"), repo).unwrap();
    let conf = "\
[main]
installroot=ROOT
reposdir=ROOT
cachedir=/cache
logdir=/log
persistdir=/persist
varsdir=/nonexistent
pluginpath=/nonexistent
";
    let conf = conf.replace("ROOT", root.path().to_str().unwrap());
    let file = root.path().join("dnf.conf");
    fs::write(&file, conf).unwrap();
    let command = words(&format!(
        "dnf --releasever=1 --refresh -y --config {}",
        file.display()
    ));
    Client { root, command }
}

#[test]
#[ignore = "needs apt, GnuPG and createrepo_c: make packages"]
fn apt_installs_from_a_repository_and_refuses_what_was_changed() {
    let place = Place::new();
    let client = apt(&place);
    client.does(&["update"]);
    client.does(&["install", "trackiops"]);
    assert_eq!(client.version().as_deref(), Some("1"));
    place.publish(&["1", "2"], Some("key"));
    client.does(&["update"]);
    client.does(&["upgrade"]);
    assert_eq!(client.version().as_deref(), Some("2"));
    client.does(&["install", "--allow-downgrades", "trackiops=1-1"]);
    assert_eq!(client.version().as_deref(), Some("1"));
    client.does(&["purge", "trackiops"]);
    assert_eq!(client.version(), None);

    let suite = "apt/dists/stable";
    place.while_changed(&[&format!("{suite}/InRelease")], || {
        apt(&place).refuses("is not signed");
    });
    place.while_changed(&[&format!("{suite}/main")], || {
        apt(&place).refuses("Hash Sum mismatch");
    });
    place.while_changed(&["apt/pool"], || apt(&place).refuses("Hash Sum mismatch"));
    // Without this file apt reads Release and Release.gpg.
    fs::remove_file(place.at(&format!("repositories/{suite}/InRelease"))).unwrap();
    place.while_changed(&[&format!("{suite}/Release")], || {
        apt(&place).refuses("is not signed");
    });
    let client = apt(&place);
    client.does(&["update"]);
    client.does(&["install", "trackiops"]);
    for key in [None, Some("other-key")] {
        place.publish(&["1"], key);
        apt(&place).refuses("is not signed");
    }
}

#[test]
#[ignore = "needs dnf, GnuPG and createrepo_c: make packages"]
fn dnf_installs_from_a_repository_and_refuses_what_was_changed() {
    let place = Place::new();
    let client = dnf(&place, "");
    client.does(&["install", "trackiops"]);
    assert_eq!(client.version().as_deref(), Some("1"));
    place.publish(&["1", "2"], Some("key"));
    client.does(&["upgrade"]);
    assert_eq!(client.version().as_deref(), Some("2"));
    client.does(&["downgrade", "trackiops"]);
    assert_eq!(client.version().as_deref(), Some("1"));
    client.does(&["remove", "trackiops"]);
    assert_eq!(client.version(), None);

    place.while_changed(&["rpm/repodata/repomd.xml"], || {
        dnf(&place, "").refuses("Bad GPG signature");
    });
    let packages = ["trackiops-2-1.x86_64.rpm", "trackiops-2-1.aarch64.rpm"];
    let packages = packages.map(|package| format!("rpm/{package}"));
    place.while_changed(&packages.each_ref().map(String::as_str), || {
        dnf(&place, "").refuses("checksum doesn't match");
    });
    let mut indexes = vec![];
    add_files(&place.at("repositories/rpm/repodata"), &mut indexes);
    let indexes = indexes
        .iter()
        .filter(|file| file.extension().is_some_and(|of| of == "gz"));
    let names = indexes.map(|file| file.file_name().unwrap().to_str().unwrap());
    let indexes: Vec<_> = names.map(|name| format!("rpm/repodata/{name}")).collect();
    let indexes: Vec<_> = indexes.iter().map(String::as_str).collect();
    place.while_changed(&indexes, || {
        dnf(&place, "").refuses("checksum doesn't match")
    });
    place.publish(&["1"], Some("other-key"));
    dnf(&place, "").refuses("Bad GPG signature");
    // The packages are signed as well.
    dnf(&place, "repo_gpgcheck=0").refuses("GPG check FAILED");
    place.publish(&["1"], None);
    dnf(&place, "").refuses("GPG signature is not available");
}

#[test]
#[ignore = "needs GnuPG and createrepo_c: make packages"]
fn repositories_are_the_same_bytes_or_nothing() {
    let place = Place::new();
    let kept = place.at("kept");
    fs::rename(place.at("repositories"), &kept).unwrap();
    place.publish(&["1"], Some("key"));
    let mut compare = Command::new("diff");
    succeed(compare.arg("-r").arg(&kept).arg(place.at("repositories")));

    // In the repository of a later release, a package is the same.
    let one = place.at("1");
    let (later, key) = (place.at("later"), place.at("key"));
    let mut make = script(&later, &[&one, &place.at("2")], Some(&key), "");
    succeed(make.env("SOURCE_DATE_EPOCH", "2000000000"));
    for package in [
        "apt/pool/trackiops_1-1_amd64.deb",
        "rpm/trackiops-1-1.x86_64.rpm",
    ] {
        let [was, is] = [&kept, &later].map(|of| fs::read(of.join(package)).unwrap());
        assert!(was == is, "{package}");
    }
    let fails = |out: &str, dist: &Path, key: &str, why: &str| {
        let (is_well, said) = run(&mut script(
            &place.at(out),
            &[dist],
            Some(&place.at(key)),
            "",
        ));
        assert!(!is_well && said.contains(why), "{why}: {said}");
    };
    fails("repositories", &one, "nowhere", "is no key of GnuPG");
    fails("repositories", &one, "trackiops.asc", "has no secret key");
    fails("repositories", &kept, "key", "no .deb in");
    fails("2", &one, "key", "exists and has no repository");
    // It may be the repository of another project.
    fs::create_dir_all(place.at("other/apt/dists")).unwrap();
    fails("other", &one, "key", "exists and has no repository");
    // What was there is as it was.
    let mut compare = Command::new("diff");
    succeed(compare.arg("-r").arg(&kept).arg(place.at("repositories")));
}
