//! JSON in which nothing can be read in two ways.
//!
//! Metadata is signed as a value, not as bytes, so two readers that take different values from the same bytes
//! would both see a good signature. What is refused here is what readers differ on: a key that comes twice,
//! numbers that are no plain integers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Checks that `bytes` are one JSON value without a key that comes twice in an object, without fractions and
/// without integers beyond 53 bits.
///
/// # Errors
/// What is wrong, with line and column.
pub(super) fn check(bytes: &[u8]) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Value.deserialize(&mut deserializer)?;
    deserializer.end()
}

/// Largest integer that every reader of JSON holds exactly.
const MOST: u64 = 1 << 53;

/// A key; a copy only where it holds escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

struct Value;

impl<'de> DeserializeSeed<'de> for Value {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        if number > MOST { Err(E::custom(format_args!("the number {number} is too large"))) } else { Ok(()) }
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.visit_u64(number.unsigned_abs())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        Err(E::custom(format_args!("the number {number} is no integer")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Value)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut keys: BTreeSet<Cow<'de, str>> = BTreeSet::new();
        while let Some(key) = entries.next_key_seed(Key)? {
            if keys.contains(&key) {
                let shown: String = key.chars().take(60).flat_map(char::escape_default).collect();
                return Err(A::Error::custom(format_args!("the key `{shown}` comes twice")));
            }
            keys.insert(key);
            entries.next_value_seed(Value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_all_readers_read_alike_is_taken() {
        for good in ["{}", r#"{"a":{"b":1},"c":{"b":-2}}"#, "[1, null, true, \"x\"]"] {
            assert!(check(good.as_bytes()).is_ok(), "{good}");
        }
        let deep = "[".repeat(100_000);
        for (bad, why) in [
            (r#"{"a":1,"a":1}"#, "the key `a` comes twice"),
            (r#"{"x":[{"a":1,"b":2,"\u0061":1}]}"#, "the key `a` comes twice"),
            (r#"{"a":1.5}"#, "1.5 is no integer"),
            (r#"{"a":1e3}"#, "1000 is no integer"),
            (r#"{"a":9007199254740993}"#, "too large"),
            (r#"{"a":18446744073709551616}"#, "no integer"),
            ("{} {}", "trailing characters"),
            ("", "EOF"),
            ("{\"a\":", "EOF"),
            (deep.as_str(), "recursion limit"),
        ] {
            let error = check(bad.as_bytes()).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
