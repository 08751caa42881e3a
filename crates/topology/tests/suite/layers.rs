//! Checks that the folders of the crate form layers, in which a file imports only from its own
//! layer and the layers below it.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the crate root. Each entry has a module and the other modules from which it may
/// import. For example, `budget` may import from `types` and `machine`.
const LAYERS: [(&str, &[&str]); 8] = [
    ("types", &[]),
    ("read", &["types"]),
    ("system", &["types", "read"]),
    ("affinity", &["types", "system"]),
    ("neighbours", &["types"]),
    ("machine", &["types", "read", "system"]),
    ("budget", &["types", "machine"]),
    ("placement", &["types", "machine"]),
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Returns the modules of the crate root that the code of a file names. We leave out unit tests,
/// because they may import from every module.
fn named(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let lines = code.lines().filter(|line| !line.trim().starts_with("//"));
    let code: String = lines.collect();
    let mut named = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let listed = rest.strip_prefix('{').map(|list| {
            let list = list.split('}').next().unwrap_or("");
            list.split(',').map(str::trim).map(String::from).collect()
        });
        let lone = || {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            vec![rest[..end.unwrap_or(rest.len())].to_string()]
        };
        named.extend(listed.unwrap_or_else(lone));
    }
    named.retain(|name| !name.is_empty());
    named
}

#[test]
fn no_file_imports_from_a_layer_above() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    files(&source, &mut paths);
    let mut wrong = Vec::new();
    for path in paths.iter().filter(|path| !path.ends_with("lib.rs")) {
        let place = path.strip_prefix(&source).unwrap();
        let first = place.components().next().unwrap().as_os_str();
        let layer = first.to_str().unwrap().trim_end_matches(".rs");
        let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
            wrong.push(format!("{}: in no layer", place.display()));
            continue;
        };
        let text = fs::read_to_string(path).unwrap();
        let above = named(&text).into_iter().filter(|name| {
            let module = name.split("::").next().unwrap_or("");
            module != layer && !below.contains(&module)
        });
        wrong.extend(above.map(|name| format!("{}: imports {name}", place.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_are_found_in_every_form() {
    let text = "use crate::{read, machine::Machine};\n// crate::placement\nuse crate::types::CpuSet;\n\
                fn f() { crate::budget::g() }\n#[cfg(test)]\nuse crate::affinity;";
    assert_eq!(named(text), ["read", "machine::Machine", "types", "budget"]);
}
