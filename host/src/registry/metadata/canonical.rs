//! The one spelling of a JSON value that signatures are over.

use serde_json::Value;

/// Deepest nesting of a document.
const DEPTH: usize = 32;

/// Canonical JSON as TUF signs it: keys in order, no blanks, `\` and `"` escaped and nothing else. Control
/// characters, which that spelling cannot carry through a JSON parser, and numbers with a fraction are
/// refused.
///
/// # Errors
/// The value that has no such spelling, in words.
pub fn canonical(value: &Value) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    spell(value, &mut out, 0)?;
    Ok(out)
}

fn spell(value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), String> {
    if depth > DEPTH {
        return Err(format!("it is nested more than {DEPTH} deep"));
    }
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::Number(number) => return Err(format!("{number} is no integer")),
        Value::String(text) => spell_text(text, out)?,
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                spell(item, out, depth + 1)?;
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            out.push(b'{');
            for (index, (name, item)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                spell_text(name, out)?;
                out.push(b':');
                spell(item, out, depth + 1)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn spell_text(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(format!("a text holds the control character U+{:04X}", u32::from(control)));
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' || byte == b'\\' {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    Ok(())
}
