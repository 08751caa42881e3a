//! Checks the links between the documents: each relative link of a Markdown file must lead to a file
//! or folder of the project, and its fragment to a heading of that file.
//!
//! We do not check links to other sites, because they would make the tests depend on the network.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folders that have no documents of ours.
const SKIPPED: &[&str] = &["target", "dist", "node_modules"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Collects the Markdown files below a folder.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name) {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Returns the lines of a document that are not in a code block, each with its number.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Returns the fragment of a heading, as GitHub and mdBook derive it from the text.
fn fragment(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    // Of a link in a heading, only the text counts.
    let text = match (text.split_once('['), text.split_once("](")) {
        (Some((before, rest)), Some(_)) => {
            let (label, rest) = rest.split_once("](").unwrap();
            let after = rest.split_once(')').map_or("", |(_, after)| after);
            format!("{before}{label}{after}")
        }
        _ => text,
    };
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let kept = text.chars().filter(kept);
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the fragments of a document. A heading that occurs again gets a number.
fn fragments(text: &str) -> HashSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut all = HashSet::new();
    for (_, line) in prose(text) {
        if line.starts_with('#') {
            let name = fragment(line);
            let count = seen.entry(name.clone()).or_default();
            all.insert(match *count {
                0 => name,
                count => format!("{name}-{count}"),
            });
            *count += 1;
        }
        for part in line.split(" id=\"").skip(1) {
            all.extend(part.split('"').next().map(String::from));
        }
    }
    all
}

/// Returns the targets of the links in a line. Inline code has no links.
fn links(line: &str) -> Vec<&str> {
    let outside = line.split('`').step_by(2);
    let targets = outside.flat_map(|part| part.split("](").skip(1));
    // The label of a link may be inline code, so that a part begins within a link.
    let begun = line.split("`](").skip(1);
    let mut all: Vec<_> = targets
        .chain(begun)
        .filter_map(|rest| rest.split([')', ' ']).next())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Removes `.` and `..` from a path.
fn normalized(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if whole.file_name().is_some() => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

/// Returns the reason why a link of `file` leads nowhere, if it does.
fn fault(root: &Path, file: &Path, link: &str) -> Option<String> {
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => file.to_owned(),
        path => normalized(&file.parent().unwrap().join(path)),
    };
    if !target.starts_with(root) {
        return Some("leads out of the project".into());
    }
    if !target.exists() {
        return Some("does not exist".into());
    }
    if fragment.is_empty() || target.extension().is_none_or(|end| end != "md") {
        return None;
    }
    let known = fragments(&fs::read_to_string(&target).unwrap());
    (!known.contains(fragment)).then(|| format!("has no heading `{fragment}`"))
}

#[test]
fn the_links_between_documents_lead_somewhere() {
    let root = root().canonicalize().unwrap();
    let (mut files, mut wrong, mut checked) = (Vec::new(), Vec::new(), 0);
    documents(&root, &mut files);
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        for (number, line) in prose(&text) {
            for link in links(line) {
                if link.contains(':') {
                    continue;
                }
                checked += 1;
                let place = file.strip_prefix(&root).unwrap().display();
                let fault = fault(&root, file, link);
                wrong.extend(fault.map(|why| format!("{place}:{number}: {link} {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "found only {checked} links");
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_found() {
    let root = root().canonicalize().unwrap();
    let readme = root.join("README.md");
    assert_eq!(fault(&root, &readme, "docs/design/pool.md"), None);
    assert_eq!(fault(&root, &readme, "#install"), None);
    assert!(fault(&root, &readme, "docs/absent.md").is_some());
    assert!(fault(&root, &readme, "#absent").is_some());
    assert!(fault(&root, &readme, "../elsewhere.md").is_some());
    assert_eq!(
        links("[a](b.md), `[c](d.md)` and [`e`](f.md#g \"title\")"),
        ["b.md", "f.md#g"]
    );
    assert_eq!(
        fragment("## Why `Pool::map`, and [when](x.md)?"),
        "why-poolmap-and-when"
    );
}
