//! Followed functions and marks (`sys/sdt.h`) of programs: where to probe them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolFlags, SymbolKind};

/// Note type of a mark.
const NT_STAPSDT: u32 = 3;
/// The section of the notes that describe marks, and the section whose address detects relocation.
const MARKS: &str = ".note.stapsdt";
const MARKS_BASE: &str = ".stapsdt.base";
/// Sections of Go programs, whose stacks move: a return probe would crash them.
const OF_GO: [&str; 2] = [".go.buildinfo", ".gopclntab"];
/// Symbols of programs whose functions may be left by exceptions. A return probe replaces the return address on the stack; the unwinder does not
/// recognise it and ends the program.
const PERSONALITIES: [&str; 2] = ["__gxx_personality_v0", "rust_eh_personality"];
/// Type of a symbol whose function is called once, to choose another one (`STT_GNU_IFUNC`).
const CHOOSES: u8 = 10;
/// Most similar names in an error.
const MOST_NAMES: usize = 4;

/// The argument of `--user`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFunction {
    program: PathBuf,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// From the begin of a function to its end.
    Function(String),
    /// From one mark of a provider to another one, or a single mark.
    Marks {
        provider: String,
        begin: String,
        end: Option<String>,
    },
}

/// Why a function cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum UserFunctionError {
    /// The text has no valid form.
    #[error(
        "`{0}` names no function: write PROGRAM:FUNCTION, PROGRAM:PROVIDER:MARK or PROGRAM:PROVIDER:BEGIN-END"
    )]
    Text(String),
    /// There is no such program.
    #[error("there is no program `{0}` in PATH: give its path")]
    NoProgram(String),
    /// The program cannot be read.
    #[error("cannot read {}: {source}", program.display())]
    Unreadable {
        /// The program.
        program: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is not a program.
    #[error("{} is no program or library for 64 bits: name one, by its path", .0.display())]
    NoElf(PathBuf),
    /// It is written in Go.
    #[error(
        "{} is in Go, whose stacks move: probes at the ends of its functions would crash it; leave it out", .0.display()
    )]
    Go(PathBuf),
    /// Its functions may be left by exceptions.
    #[error(
        "functions of {} may be left by exceptions, as in C++ and Rust: a probe at their ends would crash it; name marks of it, \
         as PROGRAM:PROVIDER:BEGIN-END, or leave it out", .0.display()
    )]
    Throws(PathBuf),
    /// It has no such function or mark.
    #[error("{} has no {what} `{name}`{others}", program.display(), others = in_words(.others))]
    Unknown {
        /// The program.
        program: PathBuf,
        /// Function or mark.
        what: &'static str,
        /// Its name.
        name: String,
        /// Names that are like it.
        others: Vec<String>,
    },
    /// The mark does nothing unless a debugger sets a word in the program.
    #[error("the mark `{mark}` of {} is off by default, and cannot be switched on here: name another one", program.display())]
    Semaphore {
        /// The program.
        program: PathBuf,
        /// The mark.
        mark: String,
    },
}

fn in_words(names: &[String]) -> String {
    match names {
        [] => "; `nm -D` and `nm` list functions, and `readelf -n` lists marks, if it has any"
            .to_owned(),
        names => format!("; it has {}", names.join(", ")),
    }
}

/// File offsets of a function's probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points {
    /// Where it begins.
    pub begins: Vec<u64>,
    /// How its end is seen.
    pub end: End,
}

/// How the end of a call is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A single mark has no end.
    None,
    /// When the function returns.
    Return,
    /// At these marks.
    Marks(Vec<u64>),
}

impl UserFunction {
    /// The program or library that contains it.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Finds its probes.
    pub fn points(&self) -> Result<Points, UserFunctionError> {
        let program = &self.program;
        let unreadable = |source| UserFunctionError::Unreadable {
            program: program.clone(),
            source,
        };
        if !program.is_file() {
            return Err(UserFunctionError::NoElf(program.clone()));
        }
        let bytes = fs::read(program).map_err(unreadable)?;
        let file = object::File::parse(&*bytes).ok();
        let file = file.filter(|file| file.is_64() && file.is_little_endian());
        let file = file.ok_or_else(|| UserFunctionError::NoElf(program.clone()))?;
        match &self.what {
            What::Function(name) => {
                if OF_GO.iter().any(|of| file.section_by_name(of).is_some()) {
                    return Err(UserFunctionError::Go(program.clone()));
                }
                if throws(&file) {
                    return Err(UserFunctionError::Throws(program.clone()));
                }
                Ok(Points {
                    begins: self.functions(&file, name)?,
                    end: End::Return,
                })
            }
            What::Marks {
                provider,
                begin,
                end,
            } => {
                let marks = marks(&file);
                let find = |name: &str| self.mark(&marks, provider, name);
                Ok(Points {
                    begins: find(begin)?,
                    end: match end {
                        Some(end) => End::Marks(find(end)?),
                        None => End::None,
                    },
                })
            }
        }
    }

    /// All functions of this name: functions that are private to a source file may share it.
    fn functions(
        &self,
        file: &object::File<'_>,
        name: &str,
    ) -> Result<Vec<u64>, UserFunctionError> {
        let functions = || {
            let all = file.symbols().chain(file.dynamic_symbols());
            all.filter(|symbol| {
                let chooses = matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info & 0xf == CHOOSES);
                symbol.kind() == SymbolKind::Text && symbol.is_definition() && !chooses
            })
        };
        let found = functions().filter(|symbol| symbol.name() == Ok(name));
        let places = found.filter_map(|symbol| offset_of(file, symbol.address()));
        let places: BTreeSet<_> = places.collect();
        if places.is_empty() {
            let names = functions().filter_map(|symbol| symbol.name().ok());
            return Err(self.unknown("function", name, names));
        }
        Ok(places.into_iter().collect())
    }

    fn mark(
        &self,
        marks: &[Mark],
        provider: &str,
        name: &str,
    ) -> Result<Vec<u64>, UserFunctionError> {
        let of_name = |mark: &&Mark| mark.provider == provider && mark.name == name;
        let found: Vec<_> = marks.iter().filter(of_name).collect();
        if found.is_empty() {
            let all = marks.iter();
            let all: Vec<_> = all
                .map(|mark| format!("{}:{}", mark.provider, mark.name))
                .collect();
            let name = format!("{provider}:{name}");
            return Err(self.unknown("mark", &name, all.iter().map(String::as_str)));
        }
        if found.iter().any(|mark| mark.has_semaphore) {
            return Err(UserFunctionError::Semaphore {
                program: self.program.clone(),
                mark: format!("{provider}:{name}"),
            });
        }
        Ok(found.into_iter().map(|mark| mark.offset).collect())
    }

    fn unknown<'n>(
        &self,
        what: &'static str,
        name: &str,
        all: impl Iterator<Item = &'n str>,
    ) -> UserFunctionError {
        let wanted = name.rsplit(':').next().unwrap_or(name);
        let all: Vec<_> = all.collect();
        let like = all.iter().filter(|other| other.contains(wanted));
        let mut others: Vec<_> = like.map(|other| (*other).to_owned()).collect();
        if others.is_empty() && all.len() <= MOST_NAMES {
            others = all.into_iter().map(str::to_owned).collect();
        }
        others.sort_by_key(|other| (other.len(), other.clone()));
        others.dedup();
        others.truncate(MOST_NAMES);
        UserFunctionError::Unknown {
            program: self.program.clone(),
            what,
            name: name.to_owned(),
            others,
        }
    }
}

impl FromStr for UserFunction {
    type Err = UserFunctionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let none = || UserFunctionError::Text(text.to_owned());
        let parts: Vec<_> = text.split(':').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(none());
        }
        let (program, what) = match parts[..] {
            [program, name] => (program, What::Function(name.to_owned())),
            [program, provider, marks] => {
                let (begin, end) = match marks.split_once('-') {
                    Some((begin, end)) => (begin, Some(end.to_owned())),
                    None => (marks, None),
                };
                let what = What::Marks {
                    provider: provider.to_owned(),
                    begin: begin.to_owned(),
                    end,
                };
                (program, what)
            }
            _ => return Err(none()),
        };
        Ok(Self {
            program: find(program)?,
            what,
        })
    }
}

impl fmt::Display for UserFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.program.display())?;
        match &self.what {
            What::Function(name) => f.write_str(name),
            What::Marks {
                provider,
                begin,
                end,
            } => {
                write!(f, "{provider}:{begin}")?;
                end.iter().try_for_each(|end| write!(f, "-{end}"))
            }
        }
    }
}

/// A program by its path, or by its name as a shell finds it.
fn find(program: &str) -> Result<PathBuf, UserFunctionError> {
    let unreadable = |source| UserFunctionError::Unreadable {
        program: program.into(),
        source,
    };
    if program.contains('/') {
        return fs::canonicalize(program).map_err(unreadable);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| UserFunctionError::NoProgram(program.to_owned()))
}

/// The file offset of a virtual address.
fn offset_of(file: &object::File<'_>, address: u64) -> Option<u64> {
    let mut sections = file.sections();
    let (section, inside) = sections.find_map(|section| {
        let inside = address.checked_sub(section.address())?;
        (section.address() != 0 && inside < section.size()).then_some((section, inside))
    })?;
    section.file_range()?.0.checked_add(inside)
}

fn throws(file: &object::File<'_>) -> bool {
    let mut all = file.symbols().chain(file.dynamic_symbols());
    all.any(|symbol| {
        symbol
            .name()
            .is_ok_and(|name| PERSONALITIES.contains(&name))
    })
}

/// A mark.
struct Mark {
    provider: String,
    name: String,
    offset: u64,
    has_semaphore: bool,
}

/// The marks of a program. Incomplete descriptions are left out.
fn marks(file: &object::File<'_>) -> Vec<Mark> {
    let section = file.section_by_name(MARKS);
    let data = section.and_then(|section| section.data().ok());
    let base = file.section_by_name(MARKS_BASE);
    let base = base.map_or(0, |section| section.address());
    let mut marks = Vec::new();
    let mut rest = data.unwrap_or_default();
    while let Some((kind, description, after)) = note(rest) {
        rest = after;
        if kind == NT_STAPSDT {
            marks.extend(mark(file, base, description));
        }
    }
    marks
}

/// The type and the description of the first note, and the rest after it.
fn note(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (name, description, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let begin = 12_usize.checked_add(name.next_multiple_of(4))?;
    let end = begin.checked_add(description)?;
    let after = begin.checked_add(description.next_multiple_of(4))?;
    let rest = bytes.get(after..).unwrap_or_default();
    Some((kind, bytes.get(begin..end)?, rest))
}

fn mark(file: &object::File<'_>, base: u64, description: &[u8]) -> Option<Mark> {
    let word = |at: usize| {
        let bytes = description.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let (address, described_base, semaphore) = (word(0)?, word(8)?, word(16)?);
    let mut texts = description.get(24..)?.split(|byte| *byte == 0);
    let mut text = || String::from_utf8(texts.next()?.to_vec()).ok();
    let (provider, name) = (text()?, text()?);
    // The program may have been relocated (prelinked) since the mark was described.
    let address = match base {
        0 => address,
        base => address.wrapping_add(base.wrapping_sub(described_base)),
    };
    Some(Mark {
        provider,
        name,
        offset: offset_of(file, address)?,
        has_semaphore: semaphore != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_marks_read_back_as_they_are_written() {
        for text in ["/bin/sh:main", "/bin/sh:sh:begin-end", "/bin/sh:sh:mark"] {
            let function: UserFunction = text.parse().unwrap();
            let program = fs::canonicalize("/bin/sh").unwrap();
            assert_eq!(
                function.to_string(),
                text.replace("/bin/sh", program.to_str().unwrap())
            );
        }
        assert!("sh:main".parse::<UserFunction>().is_ok(), "found in PATH");
        for text in ["", "sh", "sh:", ":main", "sh:a:b:c", "sh::b"] {
            let error = text.parse::<UserFunction>().unwrap_err().to_string();
            assert!(error.contains("PROGRAM:FUNCTION"), "{error}");
        }
        let error = "no-such-program:f".parse::<UserFunction>().unwrap_err();
        assert!(error.to_string().contains("PATH"), "{error}");
    }

    #[test]
    fn a_function_is_where_the_program_has_it() {
        let own = std::env::current_exe().unwrap();
        // The C library, as this test has loaded it.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5));
        let mut libraries = library.filter(|path| path.contains("/libc.so"));
        let library = libraries.next().unwrap();
        let of = |name: &str| {
            let what = format!("{library}:{name}");
            what.parse::<UserFunction>().unwrap().points()
        };
        let points = of("fsync").unwrap();
        assert_eq!((points.begins.len(), points.end), (1, End::Return));
        let error = of("fsyn").unwrap_err().to_string();
        assert!(
            error.contains("no function `fsyn`; it has fsync"),
            "{error}"
        );
        let error = of("no_such_function").unwrap_err().to_string();
        assert!(error.contains("nm -D"), "{error}");
        assert!(of("strlen").is_err(), "chosen when the program is loaded");
        // This test is a Rust program.
        let what = format!("{}:main", own.display());
        let error = what.parse::<UserFunction>().unwrap().points().unwrap_err();
        assert!(error.to_string().contains("exceptions"), "{error}");
        let text = tempfile::NamedTempFile::new().unwrap();
        let what = format!("{}:main", text.path().display());
        let error = what.parse::<UserFunction>().unwrap().points().unwrap_err();
        assert!(error.to_string().contains("is no program"), "{error}");
    }

    #[test]
    fn notes_that_are_cut_off_are_none() {
        let mut bytes = Vec::new();
        for word in [8_u32, 5, NT_STAPSDT] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"stapsdt\0abcde\0\0\0next");
        let expected = (NT_STAPSDT, &b"abcde"[..], &b"next"[..]);
        assert_eq!(note(&bytes), Some(expected));
        for length in 0..25 {
            assert_eq!(note(&bytes[..length]), None, "{length}");
        }
    }
}
