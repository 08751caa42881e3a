//! Validates the JSON documents that the programs print against the schemas in `docs/schema`.
//!
//! Unit tests of the programs check that the schemas match the types. The documents themselves can
//! still differ, for example if a number is not finite, or if a type has a serializer of its own.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The program and its arguments, and the name of the schema. A file of the project is relative to
/// its root. `DIR` is an empty folder.
const DOCUMENTS: &[(&str, &str)] = &[
    ("creel topo --format json", "creel-topo"),
    ("creel topo --place cores --format json", "creel-topo"),
    ("creel run --dry-run --format json -- sh -c :", "creel-run"),
    ("creel measure -n 2 --format json true", "creel-measure"),
    (
        "creel measure -n 2 --vs true --aa --format json true",
        "creel-measure",
    ),
    ("creel top --for 1s --format json -- sleep 9", "creel-top"),
    ("creel-vgm chips --format json", "creel-vgm-chips"),
    (
        "creel-vgm video apps/vgm/songs/ay8910.vgz -o DIR/a.png --size 64x64 --length 20ms \
         --format json",
        "creel-vgm-video",
    ),
    (
        "creel-vgm info apps/vgm/songs --format json",
        "creel-vgm-info",
    ),
    (
        "creel-vgm units apps/vgm/songs -o DIR --format json",
        "creel-vgm-units",
    ),
    (
        "creel-cast standalone --streams 10 --buffers 20 --format json",
        "creel-cast",
    ),
    (
        "creel-cast send --to 127.0.0.1:9 --streams 2 --buffers 10 --format json",
        "creel-cast",
    ),
    (
        "creel-cast send --to 127.0.0.1:9 --streams 2 --buffers 10 --streams-format json",
        "creel-cast-send-streams",
    ),
    (
        "creel-cast rooms --on 127.0.0.1:0 --for 200ms --format json",
        "creel-cast-rooms",
    ),
    (
        "creel-cast relay --on 127.0.0.1:0 --for 200ms --format json",
        "creel-cast-relay",
    ),
    (
        "creel-traffic run --city 10x10 --cars 100 --seconds 60 --format json",
        "creel-traffic-run",
    ),
    (
        "creel-traffic assign --network apps/traffic/tests/data/sioux-falls.roads.tntp \
         --trips apps/traffic/tests/data/sioux-falls.trips.tntp --format json",
        "creel-traffic-assign",
    ),
];

/// Returns the first difference between a value and a schema.
fn difference(root: &Value, schema: &Value, value: &Value, path: &str) -> Option<String> {
    let Some(schema) = schema.as_object() else {
        return (schema == false).then(|| format!("{path} is not allowed"));
    };
    let fails = |schema: &Value| difference(root, schema, value, path);
    for (keyword, content) in schema {
        let found = match (keyword.as_str(), content) {
            ("$ref", Value::String(reference)) => {
                let pointer = reference.strip_prefix('#').expect("a local reference");
                fails(root.pointer(pointer).expect("a definition"))
            }
            ("type", types) => {
                let is = |name: &Value| match name.as_str().unwrap() {
                    "null" => value.is_null(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    "string" => value.is_string(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("unknown type {other}"),
                };
                let fits = types
                    .as_array()
                    .map_or_else(|| is(types), |all| all.iter().any(is));
                (!fits).then(|| format!("{path} is {value}, but its type is {types}"))
            }
            ("enum", Value::Array(values)) => {
                (!values.contains(value)).then(|| format!("{path} is {value}, not in {content}"))
            }
            ("const", only) => (value != only).then(|| format!("{path} is {value}, not {only}")),
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                let all: Option<Vec<String>> = schemas.iter().map(fails).collect();
                all.map(|all| all.join(" and "))
            }
            ("allOf", Value::Array(schemas)) => schemas.iter().find_map(fails),
            ("required", Value::Array(names)) => names
                .iter()
                .filter(|_| value.is_object())
                .find(|name| value.get(name.as_str().unwrap()).is_none())
                .map(|name| format!("{path} has no field {name}")),
            ("properties", Value::Object(properties)) => value
                .as_object()
                .into_iter()
                .flatten()
                .find_map(|(name, value)| match properties.get(name) {
                    Some(schema) => difference(root, schema, value, &format!("{path}.{name}")),
                    None if schema.contains_key("additionalProperties") => None,
                    None => Some(format!("{path} has the field {name}, which no schema has")),
                }),
            ("additionalProperties", inner) => {
                value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .find_map(|(name, value)| {
                        difference(root, inner, value, &format!("{path}.{name}"))
                    })
            }
            ("items", inner) => value
                .as_array()
                .into_iter()
                .flatten()
                .find_map(|value| difference(root, inner, value, &format!("{path}[]"))),
            ("minItems" | "maxItems" | "minLength" | "maxLength" | "minimum" | "maximum", _)
            | ("format" | "title" | "description" | "default" | "$schema" | "$defs", _) => None,
            _ => panic!("the validator does not know {keyword}: {content}"),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[test]
fn the_documents_match_their_schemas() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let test = std::env::current_exe().unwrap();
    let programs = test.ancestors().nth(2).unwrap();
    let folder = std::env::temp_dir().join(format!("creel-schema-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut wrong = Vec::new();
    for (line, name) in DOCUMENTS {
        let (program, line) = line.split_once(' ').unwrap();
        let program = programs.join(program);
        if !program.exists() {
            eprintln!(
                "skipped, because {} is not built: run cargo test --workspace",
                program.display()
            );
            continue;
        }
        let line = line.replace("DIR", folder.to_str().unwrap());
        let mut command = Command::new(&program);
        command
            .args(line.split_whitespace())
            .current_dir(&root)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let schema = std::fs::read_to_string(root.join("docs/schema").join(format!("{name}.json")));
        let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
        let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&printed)
            .into_iter()
            .collect();
        let documents = documents.unwrap_or_default();
        if documents.is_empty() {
            wrong.push(format!("{line}: no JSON: {printed}{output:?}"));
        }
        for document in documents {
            let found = difference(&schema, &schema, &document, "the document");
            wrong.extend(found.map(|found| format!("{name}: {line}: {found}")));
            let begins: String = printed
                .chars()
                .filter(|c| !c.is_whitespace())
                .take(12)
                .collect();
            let is_row = name.ends_with("-streams");
            if !is_row && begins != r#"{"schema":1,"# {
                wrong.push(format!("{name}: {line}: the first field is not schema"));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_document_that_differs_from_its_schema_is_found() {
    let schema = serde_json::json!({
        "properties": {"a": {"type": "integer"}, "b": {"type": ["number", "null"]}},
        "required": ["a"],
        "type": "object",
    });
    for (document, is_valid) in [
        (serde_json::json!({"a": 1}), true),
        (serde_json::json!({"a": 1, "b": null}), true),
        (serde_json::json!({"b": 1.5}), false),
        (serde_json::json!({"a": 1.5}), false),
        (serde_json::json!({"a": 1, "c": 1}), false),
        (serde_json::json!([]), false),
    ] {
        let found = difference(&schema, &schema, &document, "it");
        assert_eq!(found.is_none(), is_valid, "{document}: {found:?}");
    }
}
