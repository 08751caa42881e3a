//! Checks that the schemas in `docs/schema` match the types of the documents.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// Checks that `docs/schema` has the JSON Schema of a document, and that `docs/schema.md` describes
/// each of its fields.
///
/// The schema comes from the Rust type that is printed. Therefore the document, its schema and its
/// description cannot differ.
///
/// # Panics
///
/// Panics if they differ. To accept the present types, run the test with the environment variable
/// `CREEL_BLESS=1`.
pub fn check_schema(name: &str, schema: schemars::Schema) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let path = docs.join("schema").join(name).with_extension("json");
    let mut schema = schema.to_value();
    schema["title"] = name.into();
    let described = fs::read_to_string(docs.join("schema.md")).expect("docs/schema.md exists");
    let mut fields = BTreeSet::new();
    add_fields(&schema, &mut fields);
    let is_missing = |field: &&String| !described.contains(&format!("`{field}`"));
    let missing: Vec<_> = fields.iter().filter(is_missing).collect();
    assert!(
        missing.is_empty(),
        "docs/schema.md does not describe {missing:?} of {name}"
    );
    let text = format!("{schema:#}\n");
    if env::var_os("CREEL_BLESS").is_some() {
        fs::write(&path, &text).expect("the schema can be written");
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == text,
        "{} does not match the type. If this is intended, run the test with CREEL_BLESS=1",
        path.display()
    );
}

/// Checks that the columns of a CSV row are the fields of a document. A field of a nested object is
/// a column that has both names, with the unit at the end: `interval_ms.mean` is
/// `interval_mean_ms`.
///
/// # Panics
///
/// Panics if a field or a column is missing.
pub fn check_columns(document: &schemars::Schema, row: &schemars::Schema) {
    let names = |schema: &serde_json::Value| -> BTreeSet<String> {
        let properties = schema["properties"].as_object();
        properties
            .into_iter()
            .flat_map(|map| map.keys().cloned())
            .collect()
    };
    let (document, row) = (document.as_value(), row.as_value());
    let mut fields = BTreeSet::new();
    for name in names(document) {
        let reference = document["properties"][&name]["$ref"]
            .as_str()
            .unwrap_or_default();
        let nested = names(&document["$defs"][reference.rsplit('/').next().unwrap_or_default()]);
        match name.rsplit_once('_') {
            Some((start, unit)) if !nested.is_empty() => {
                fields.extend(nested.iter().map(|inner| format!("{start}_{inner}_{unit}")));
            }
            _ => _ = fields.insert(name),
        }
    }
    assert_eq!(
        fields,
        names(row),
        "the fields of the document, and the columns of the row"
    );
}

/// Adds the names of all fields in a schema.
fn add_fields(schema: &serde_json::Value, fields: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                match value.as_object() {
                    Some(properties) if key == "properties" => {
                        fields.extend(properties.keys().cloned());
                        properties
                            .values()
                            .for_each(|value| add_fields(value, fields));
                    }
                    _ => add_fields(value, fields),
                }
            }
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| add_fields(value, fields));
        }
        _ => {}
    }
}
