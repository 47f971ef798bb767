//! The numbers and small objects that stand for element types, formats, devices and sizes in archive
//! JSON, in both directions.

use serde_json::{Map, Value as Json, json};

use super::{Dim, MemoryFormat, ScalarType, Symbol, TensorMeta};

/// Archive codes of the element types that have a name here.
const SCALAR_TYPES: [(i64, ScalarType); 12] = [
    (1, ScalarType::UInt8),
    (2, ScalarType::Int8),
    (3, ScalarType::Int16),
    (4, ScalarType::Int32),
    (5, ScalarType::Int64),
    (6, ScalarType::Float16),
    (7, ScalarType::Float32),
    (8, ScalarType::Float64),
    (10, ScalarType::Complex64),
    (11, ScalarType::Complex128),
    (12, ScalarType::Bool),
    (13, ScalarType::BFloat16),
];

const MEMORY_FORMATS: [(i64, MemoryFormat); 4] = [
    (1, MemoryFormat::Contiguous),
    (2, MemoryFormat::ChannelsLast),
    (3, MemoryFormat::ChannelsLast3d),
    (4, MemoryFormat::Preserve),
];

/// Code of a strided layout.
pub(super) const STRIDED: i64 = 7;

/// Inclusive bounds of a symbol by its name.
pub(super) type Ranges = std::collections::HashMap<String, (Option<i64>, Option<i64>)>;

pub(super) fn scalar_type(code: i64) -> ScalarType {
    SCALAR_TYPES.iter().find(|entry| entry.0 == code).map_or(ScalarType::Other(code), |entry| entry.1)
}

pub(super) fn scalar_type_code(dtype: ScalarType) -> i64 {
    match dtype {
        ScalarType::Other(code) => code,
        _ => SCALAR_TYPES.iter().find(|entry| entry.1 == dtype).map_or(0, |entry| entry.0),
    }
}

pub(super) fn memory_format(code: i64) -> MemoryFormat {
    MEMORY_FORMATS.iter().find(|entry| entry.0 == code).map_or(MemoryFormat::Other(code), |entry| entry.1)
}

pub(super) fn memory_format_code(format: MemoryFormat) -> i64 {
    match format {
        MemoryFormat::Other(code) => code,
        _ => MEMORY_FORMATS.iter().find(|entry| entry.1 == format).map_or(0, |entry| entry.0),
    }
}

/// `{"type": "cuda", "index": 0}` as `cuda:0`.
pub(super) fn device(json: &Json) -> Option<String> {
    let kind = json.get("type")?.as_str()?;
    match json.get("index") {
        None | Some(Json::Null) => Some(kind.to_owned()),
        Some(index) => Some(format!("{kind}:{}", index.as_i64()?)),
    }
}

pub(super) fn device_json(device: &str) -> Json {
    match device.split_once(':').and_then(|(kind, index)| Some((kind, index.parse::<i64>().ok()?))) {
        Some((kind, index)) => json!({"type": kind, "index": index}),
        None => json!({"type": device, "index": null}),
    }
}

/// A float, or one of the three words that stand for floats JSON cannot write.
pub(super) fn float(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64(),
        Json::String(word) => match word.as_str() {
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::NAN),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn float_json(value: f64) -> Json {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else {
        value.into()
    }
}

/// A size or stride: `{"as_int": n}` or `{"as_expr": {"expr_str": .., "hint": ..}}`.
pub(super) fn dim(json: &Json, ranges: &Ranges) -> Option<Dim> {
    if let Some(number) = json.get("as_int") {
        return number.as_i64().map(Dim::Fixed);
    }
    let expression = json.get("as_expr")?;
    let text = expression.get("expr_str")?.as_str()?;
    let (min, max) = symbol_name(text).and_then(|name| ranges.get(name)).copied().unwrap_or_default();
    Some(Dim::Symbolic(Symbol {
        expression: text.to_owned(),
        hint: expression.get("hint").and_then(|hint| hint.get("as_int")).and_then(Json::as_i64),
        min,
        max,
    }))
}

/// `s77` of `Symbol('s77', positive=True, integer=True)`; `None` for compound expressions.
fn symbol_name(expression: &str) -> Option<&str> {
    let rest = expression.strip_prefix("Symbol('")?;
    let (name, rest) = rest.split_once('\'')?;
    (rest.ends_with(')') && !rest.contains('(')).then_some(name)
}

pub(super) fn dim_json(dim: &Dim) -> Json {
    match dim {
        Dim::Fixed(number) => json!({"as_int": number}),
        Dim::Symbolic(symbol) => {
            let hint = symbol.hint.map_or(Json::Null, |hint| json!({"as_int": hint}));
            json!({"as_expr": {"expr_str": symbol.expression, "hint": hint}})
        }
    }
}

pub(super) fn tensor_meta(json: &Json, ranges: &Ranges) -> Option<TensorMeta> {
    let dims =
        |name: &str| -> Option<Vec<Dim>> { json.get(name)?.as_array()?.iter().map(|item| dim(item, ranges)).collect() };
    Some(TensorMeta {
        dtype: scalar_type(json.get("dtype")?.as_i64()?),
        sizes: dims("sizes")?,
        strides: dims("strides")?,
        storage_offset: dim(json.get("storage_offset")?, ranges)?,
        device: device(json.get("device")?)?,
        layout: json.get("layout")?.as_i64()?,
        requires_grad: json.get("requires_grad")?.as_bool()?,
    })
}

pub(super) fn tensor_meta_json(meta: &TensorMeta) -> Json {
    let dims = |dims: &[Dim]| Json::Array(dims.iter().map(dim_json).collect());
    json!({
        "dtype": scalar_type_code(meta.dtype),
        "sizes": dims(&meta.sizes),
        "requires_grad": meta.requires_grad,
        "device": device_json(&meta.device),
        "strides": dims(&meta.strides),
        "storage_offset": dim_json(&meta.storage_offset),
        "layout": meta.layout,
    })
}

/// `range_constraints` of a program.
pub(super) fn ranges(json: Option<&Json>) -> Ranges {
    let entry = |(name, range): (&String, &Json)| {
        let bound = |key: &str| range.get(key).and_then(Json::as_i64);
        (name.clone(), (bound("min_val"), bound("max_val")))
    };
    json.and_then(Json::as_object).map(|map: &Map<String, Json>| map.iter().map(entry).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_both_directions() {
        for code in 0..40 {
            assert_eq!(scalar_type_code(scalar_type(code)), code);
            assert_eq!(memory_format_code(memory_format(code)), code);
        }
        for value in [0.5, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-300] {
            assert_eq!(float(&float_json(value)).map(f64::to_bits), Some(value.to_bits()));
        }
        for name in ["cpu", "cuda:0", "meta", "odd:name"] {
            assert_eq!(device(&device_json(name)).as_deref(), Some(name));
        }
    }

    #[test]
    fn only_a_bare_symbol_has_bounds() {
        let ranges = Ranges::from([("s0".to_owned(), (Some(2), Some(64)))]);
        let bounds = |text: &str| match dim(&json!({"as_expr": {"expr_str": text, "hint": null}}), &ranges) {
            Some(Dim::Symbolic(symbol)) => (symbol.min, symbol.max),
            other => panic!("{other:?}"),
        };
        assert_eq!(bounds("Symbol('s0', positive=True, integer=True)"), (Some(2), Some(64)));
        assert_eq!(bounds("Mul(Integer(2), Symbol('s0', positive=True))"), (None, None));
        assert_eq!(bounds("Symbol('s1')"), (None, None));
    }
}
