//! Runs the commands of a case in a separate directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use trackiops_testkit::program;

/// A user without access to the tests' files.
const NOBODY: u32 = 65_534;

/// The commands of a case.
pub struct Session {
    dir: tempfile::TempDir,
    /// Variables that were set.
    variables: Vec<(String, String)>,
    is_nobody: bool,
}

impl Session {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            dir,
            variables: Vec::new(),
            is_nobody: false,
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The output of a command: `> ` before each line of stdout, `! ` before lines of stderr, `= ` before the status unless it is 0.
    pub fn run(&mut self, command: &str) -> String {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["trackiops", args @ ..] => self.show(&self.trackiops(args)),
            ["cat", file] => marked("> ", &fs::read_to_string(self.dir().join(file)).unwrap()),
            ["ls"] => {
                let entries = fs::read_dir(self.dir()).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                let mut names: Vec<_> = names.collect();
                names.sort();
                marked("> ", &names.join("\n"))
            }
            ["truncate", granularity] => {
                self.truncate(granularity);
                String::new()
            }
            ["mkdir", name] => {
                fs::create_dir(self.dir().join(name)).unwrap();
                String::new()
            }
            ["as", "nobody"] => {
                // The user who runs the tests may read their own files; the user `nobody` may not read closed ones.
                let store = self.dir().join("store");
                fs::set_permissions(store, fs::Permissions::from_mode(0o000)).unwrap();
                self.is_nobody = true;
                String::new()
            }
            ["export", variable] => {
                let (name, value) = variable.split_once('=').expect("NAME=VALUE");
                self.variables.push((name.to_owned(), value.to_owned()));
                String::new()
            }
            other => panic!("no case has the command {other:?}"),
        }
    }

    fn trackiops(&self, args: &[&str]) -> Output {
        let mut program = PathBuf::from(env!("CARGO_BIN_EXE_trackiops"));
        if self.is_nobody {
            // The build directory may be closed, too.
            let copy = self.dir().join("trackiops");
            fs::copy(&program, &copy).unwrap();
            program = copy;
        }
        let mut command = program::command(&program);
        command
            .args(args)
            .current_dir(self.dir())
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .env("TZ", "UTC0")
            .env("LC_ALL", "C.UTF-8")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let is_root = fs::metadata("/proc/self").is_ok_and(|of| {
            use std::os::unix::fs::MetadataExt;
            of.uid() == 0
        });
        if self.is_nobody && is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().expect("trackiops can be started")
    }

    fn show(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let text = text.replace(self.dir().to_str().unwrap(), "DIR");
            without_id(&without_lengths(&without_stat(&text)))
        };
        let status = match output.status.code() {
            Some(0) => String::new(),
            Some(code) => format!("= {code}\n"),
            None => format!("= {}\n", output.status),
        };
        marked("> ", &text(&output.stdout)) + &marked("! ", &text(&output.stderr)) + &status
    }

    /// Truncates every segment of files' rows of one granularity.
    fn truncate(&self, granularity: &str) {
        let rows = self
            .dir()
            .join(format!("store/rollup/granularity={granularity}"));
        let mut directories = vec![rows];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
                }
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Makes it removable.
        let store = self.dir().join("store");
        let _ = fs::set_permissions(store, fs::Permissions::from_mode(0o755));
    }
}

/// The length of a truncated segment depends on how well its rows compress.
fn without_lengths(text: &str) -> String {
    let Some((before, rest)) = text.split_once(" is damaged: it has ") else {
        return text.to_owned();
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let Some((says, rest)) = rest.split_once("the catalog says ") else {
        return text.to_owned();
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = without_lengths(rest);
    format!("{before} is damaged: it has N{says}the catalog says M{rest}")
}

/// The id of a store is random.
fn without_id(text: &str) -> String {
    let Some((before, rest)) = text.split_once("store id ") else {
        return text.to_owned();
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    format!("{before}store id ID{}", without_id(rest))
}

/// Removes the output of `stat`, which is not the program's.
fn without_stat(text: &str) -> String {
    let Some((before, rest)) = text.split_once("(stat: ") else {
        return text.to_owned();
    };
    let (_, after) = rest.split_once(')').unwrap_or((rest, ""));
    format!("{before}(stat: ...){}", without_stat(after))
}

fn marked(mark: &str, text: &str) -> String {
    let line = |line: &str| format!("{}\n", format!("{mark}{line}").trim_end());
    text.lines().map(line).collect()
}

/// Splits words like a shell: quotes may contain blanks.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut open) = (String::new(), None, false);
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                open = true;
            }
            (None, c) if c.is_whitespace() => {
                if open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                    open = false;
                }
            }
            (None, c) => word.push(c),
        }
    }
    if open || !word.is_empty() {
        words.push(word);
    }
    words
}
