//! Sizes as people write them.

/// Reads `8GiB`, `500 MB`, `1.5g`, `4096`; letters without `i` are powers of 1000, a lone letter and `iB`
/// powers of 1024.
///
/// # Errors
/// A phrase that says what is allowed.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size like `8GiB`, `500MB` or a number of bytes".to_string();
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    let factor: f64 = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(wrong()),
    };
    let bytes = number * factor;
    if !(1.0..9e18).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("4096", 4096), ("1k", 1024), ("1.5 GiB", 3 << 29), ("500MB", 500_000_000), ("2g", 2 << 30)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "0", "1 parsec", "1e9", "99999999T", "1..2"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
