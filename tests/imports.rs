//! Checks imports between the modules of a crate: at most two modules may import each other, and none in `query/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Most modules in a cycle of imports.
const MOST_IN_A_CIRCLE: usize = 2;

/// The crate whose modules and directories import each other in one direction.
const ONE_WAY: &str = "query/src";

/// The path of a module without `crate::`; the crate's root is empty.
type ModulePath = Vec<String>;

/// The modules that a module imports, each with the paths of these imports.
type Imports = BTreeMap<ModulePath, BTreeSet<String>>;

#[test]
fn at_most_two_modules_import_each_other() {
    let mut report = String::new();
    for dir in member_directories() {
        let name = dir.strip_prefix(ROOT).unwrap().display().to_string();
        for circle in circles(&imports_of_crate(&dir.join("src")), MOST_IN_A_CIRCLE) {
            report += &format!("\n{}: {circle}", Path::new(&name).join("src").display());
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn imports_of_the_query_run_one_way() {
    let imports = imports_of_crate(&Path::new(ROOT).join(ONE_WAY));
    let found = [circles(&imports, 1), circles(&by_directory(&imports), 1)].concat();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The imports between modules at the top of a crate, each with the modules in its directory.
fn by_directory(imports: &BTreeMap<ModulePath, Imports>) -> BTreeMap<ModulePath, Imports> {
    let top = |module: &ModulePath| module.iter().take(1).cloned().collect::<ModulePath>();
    let mut tops: BTreeMap<ModulePath, Imports> = BTreeMap::new();
    for (module, targets) in imports {
        let from = tops.entry(top(module)).or_default();
        for (target, paths) in targets {
            if top(target) != top(module) {
                from.entry(top(target)).or_default().extend(paths.clone());
            }
        }
    }
    tops
}

/// The directories of the workspace's crates.
fn member_directories() -> Vec<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--locked",
            "--offline",
            "--format-version=1",
        ])
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let manifests = packages.map(|package| Path::new(package["manifest_path"].as_str().unwrap()));
    manifests
        .map(|path| path.parent().unwrap().to_owned())
        .collect()
}

fn imports_of_crate(src: &Path) -> BTreeMap<ModulePath, Imports> {
    let mut files = BTreeMap::new();
    find_modules(src, &mut Vec::new(), &mut files);
    let modules: BTreeSet<_> = files.keys().cloned().collect();
    let imports = files.into_iter().map(|(module, file)| {
        let text = fs::read_to_string(&file).unwrap();
        let tokens = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let imports = imports_of_module(&module, tokens, &modules);
        (module, imports)
    });
    imports.collect()
}

/// The files of modules, without modules of tests.
fn find_modules(dir: &Path, module: &mut ModulePath, found: &mut BTreeMap<ModulePath, PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" {
            continue;
        }
        let is_of_the_directory = matches!(&*name, "lib" | "main" | "mod");
        if path.is_dir() {
            module.push(name);
            find_modules(&path, module, found);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let own = (!is_of_the_directory).then_some(name);
            found.insert(module.iter().cloned().chain(own).collect(), path);
        }
    }
}

fn imports_of_module(
    module: &[String],
    tokens: TokenStream,
    modules: &BTreeSet<ModulePath>,
) -> Imports {
    let mut reader = PathReader {
        modules,
        module,
        imports: Imports::new(),
    };
    reader.read(tokens, &mut module.to_vec());
    reader.imports
}

/// Collects paths anywhere, including in macros. So it reads tokens rather than a syntax tree.
struct PathReader<'a> {
    modules: &'a BTreeSet<ModulePath>,
    /// The module of the file.
    module: &'a [String],
    imports: Imports,
}

impl PathReader<'_> {
    /// `scope` is the module of the tokens: a module of the file, or an inline module.
    fn read(&mut self, tokens: TokenStream, scope: &mut ModulePath) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        let mut is_reexport = false;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(attribute) if is_for_tests(attribute) => {
                    at += length_of_item(&tokens[at..]);
                }
                TokenTree::Group(group) => self.read(group.stream(), scope),
                TokenTree::Ident(word) if word == "mod" => {
                    if let [TokenTree::Ident(name), TokenTree::Group(body), ..] = &tokens[at..] {
                        scope.push(name.to_string());
                        self.read(body.stream(), scope);
                        scope.pop();
                        at += 2;
                    }
                }
                TokenTree::Ident(word) if word == "use" => {
                    let before = at.checked_sub(2).map(|before| &tokens[before]);
                    is_reexport = before.is_some_and(|token| match token {
                        TokenTree::Ident(word) => word == "pub",
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
                        _ => false,
                    });
                }
                TokenTree::Ident(word) if is_double_colon(&tokens[at..]) => {
                    let start = match &*word.to_string() {
                        "crate" => Vec::new(),
                        "self" => scope.clone(),
                        "super" => scope[..scope.len().saturating_sub(1)].to_vec(),
                        // The first word of an external path, or a word in the middle of a path.
                        _ => continue,
                    };
                    at += 2;
                    at += self.read_path(start, &tokens[at..], is_reexport);
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => is_reexport = false,
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Reads the rest of a path after `start::`, including branches in `use`. Returns its number of tokens.
    fn read_path(
        &mut self,
        mut path: ModulePath,
        tokens: &[TokenTree],
        is_reexport: bool,
    ) -> usize {
        match tokens {
            [TokenTree::Group(branches), ..] if branches.delimiter() == Delimiter::Brace => {
                let branches: Vec<_> = branches.stream().into_iter().collect();
                let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
                for branch in branches.split(is_comma).filter(|branch| !branch.is_empty()) {
                    self.read_path(path.clone(), branch, is_reexport);
                }
                1
            }
            [TokenTree::Ident(word), rest @ ..] => {
                match &*word.to_string() {
                    "self" => {}
                    "super" => {
                        path.pop();
                    }
                    name => path.push(name.to_owned()),
                }
                match is_double_colon(rest) {
                    true => 3 + self.read_path(path, &rest[2..], is_reexport),
                    false => {
                        self.note(&path, is_reexport);
                        1
                    }
                }
            }
            // `*`, or the type arguments of a call.
            _ => {
                self.note(&path, is_reexport);
                0
            }
        }
    }

    /// Records a path. It leads to the module that it names, even if that module re-exports the item.
    fn note(&mut self, path: &[String], is_reexport: bool) {
        let prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
        let Some(target) = prefixes
            .into_iter()
            .find(|prefix| self.modules.contains(*prefix))
        else {
            return;
        };
        // A parent that re-exports its children's items does not depend on them.
        let hands_on = is_reexport && target.starts_with(self.module);
        if target != self.module && !hands_on {
            let paths = self.imports.entry(target.to_vec()).or_default();
            paths.insert(path.join("::"));
        }
    }
}

/// Whether the group follows `#` and contains `[cfg(test)]`, or that with more conditions.
fn is_for_tests(group: &proc_macro2::Group) -> bool {
    let text = group.stream().to_string().replace(' ', "");
    group.delimiter() == Delimiter::Bracket
        && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// Number of tokens of the item that begins here.
fn length_of_item(tokens: &[TokenTree]) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    };
    tokens
        .iter()
        .position(is_end)
        .map_or(tokens.len(), |end| end + 1)
}

fn is_double_colon(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(mark)) if mark.as_char() == ':');
    is_colon(tokens.first()) && is_colon(tokens.get(1))
}

/// Cycles with more than `most` modules, and their imports.
fn circles(imports: &BTreeMap<ModulePath, Imports>, most: usize) -> Vec<String> {
    let reached: BTreeMap<_, _> = imports
        .keys()
        .map(|module| (module, reached_from(module, imports)))
        .collect();
    let circle_of = |module: &ModulePath| -> BTreeSet<ModulePath> {
        let others = reached[module].iter();
        others
            .filter(|other| reached[other].contains(module))
            .cloned()
            .collect()
    };
    let circles: BTreeSet<_> = imports.keys().map(circle_of).collect();
    let too_large = circles.iter().filter(|circle| circle.len() > most);
    too_large.map(|circle| describe(circle, imports)).collect()
}

/// The modules that a module imports, directly or indirectly.
fn reached_from(
    module: &ModulePath,
    imports: &BTreeMap<ModulePath, Imports>,
) -> BTreeSet<ModulePath> {
    let mut reached = BTreeSet::new();
    let mut left = vec![module];
    while let Some(module) = left.pop() {
        let new = imports[module]
            .keys()
            .filter(|target| reached.insert((*target).clone()));
        left.extend(new);
    }
    reached
}

fn describe(circle: &BTreeSet<ModulePath>, imports: &BTreeMap<ModulePath, Imports>) -> String {
    let name = |module: &ModulePath| match module.is_empty() {
        true => "crate".to_owned(),
        false => module.join("::"),
    };
    let names: Vec<_> = circle.iter().map(name).collect();
    let mut text = format!(
        "{} modules import each other: {}",
        circle.len(),
        names.join(", ")
    );
    for module in circle {
        for (target, paths) in imports[module]
            .iter()
            .filter(|(target, _)| circle.contains(*target))
        {
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            text += &format!(
                "\n    {} -> {}: {}",
                name(module),
                name(target),
                paths.join(", ")
            );
        }
    }
    text
}

/// A crate of modules with these texts.
fn imports_of_texts(texts: &[(&str, &str)]) -> BTreeMap<ModulePath, Imports> {
    let module = |name: &str| -> ModulePath { name.split("::").map(str::to_owned).collect() };
    let modules: BTreeSet<_> = texts.iter().map(|(name, _)| module(name)).collect();
    let imports = texts.iter().map(|(name, text)| {
        let imports = imports_of_module(&module(name), text.parse().unwrap(), &modules);
        (module(name), imports)
    });
    imports.collect()
}

/// Asserts the imports of `a::b` with this text, in a crate that also has `a`, `a::b::c` and `d`.
#[track_caller]
fn assert_imports(text: &str, expected: &[&str]) {
    let imports = imports_of_texts(&[("a", ""), ("a::b", text), ("a::b::c", ""), ("d", "")]);
    let of_b = &imports[&vec!["a".to_owned(), "b".to_owned()]];
    let found: Vec<_> = of_b.keys().map(|module| module.join("::")).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn imports_are_found_wherever_a_path_stands() {
    assert_imports("use crate::d::Thing;", &["d"]);
    assert_imports("use crate::{a, d::{self, Other as Another}};", &["a", "d"]);
    assert_imports("use super::*; fn f(d: crate::d::Thing) {}", &["a", "d"]);
    assert_imports(
        "fn f() { super::super::d::run::<u8>(self::c::N) }",
        &["a::b::c", "d"],
    );
    assert_imports("fn f() { println!(\"{}\", crate::d::N) }", &["d"]);
    assert_imports(
        "mod inline { use super::c::N; use super::Own; }",
        &["a::b::c"],
    );
    assert_imports("macro_rules! m { () => { $crate::d::N } }", &["d"]);
}

#[test]
fn what_is_no_import_is_not_counted() {
    assert_imports(
        "pub use self::c::Thing; pub(crate) use crate::a::b::c::{N, M};",
        &[],
    );
    assert_imports(
        "use std::crate_name; use elsewhere::d::Thing; // crate::d",
        &[],
    );
    assert_imports("#[cfg(test)] mod tests { use crate::d::Thing; }", &[]);
    assert_imports(
        "#[cfg(test)] #[allow(x)] use crate::d::Thing; fn f() {}",
        &[],
    );
}

#[test]
fn a_circle_is_reported_with_its_imports_and_a_pair_is_not() {
    let pair = [
        ("a", "use crate::b::B;"),
        ("b", "use crate::a::A;"),
        ("c", "use crate::a::A;"),
    ];
    let pair = imports_of_texts(&pair);
    assert_eq!(circles(&pair, 2), [""; 0]);
    let expected = "2 modules import each other: a, b\n    a -> b: b::B\n    b -> a: a::A";
    assert_eq!(circles(&pair, 1), [expected]);
    let three = [
        ("a", "use crate::b::B;"),
        ("b", "use crate::c::C;"),
        ("c", "use crate::a::A;"),
    ];
    let expected = "3 modules import each other: a, b, c\n    a -> b: b::B\n    b -> c: c::C\n    c -> a: a::A";
    assert_eq!(circles(&imports_of_texts(&three), 2), [expected]);
}
