//! Answers of a rule as they lie in a guest's memory, in the layout of the canonical ABI.

/// Where [`honest`] begins.
pub const START: u32 = 1_024;

/// Answers of a rule that behaves, ready to be a data segment at [`START`].
pub struct Honest {
    /// the bytes
    pub bytes: Vec<u8>,
    /// address of the manifest
    pub manifest: u32,
    /// address of a decline
    pub decline: u32,
    /// pointer and length of the text `a`
    pub text: (u32, u32),
}

/// Bytes at known addresses.
struct Segment {
    bytes: Vec<u8>,
}

impl Segment {
    fn end(&self) -> u32 {
        START + u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    fn add(&mut self, bytes: &[u8]) -> u32 {
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0);
        }
        let at = self.end();
        self.bytes.extend_from_slice(bytes);
        at
    }

    fn text(&mut self, text: &str) -> (u32, u32) {
        (self.add(text.as_bytes()), u32::try_from(text.len()).unwrap_or(u32::MAX))
    }
}

/// Writes 32-bit words at offsets of a record of `size` bytes.
fn record(size: usize, words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, word) in words {
        if let Some(place) = bytes.get_mut(*at..*at + 4) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// A manifest with one anchor and one code, and a decline with that code.
pub fn honest() -> Honest {
    let mut data = Segment { bytes: Vec::new() };
    let id = data.text("test-crafted");
    let version = data.text("1.0.0");
    let text = data.text("a");
    let op = data.text("aten.softmax.int");
    let ops = data.add(&record(8, &[(0, op.0), (4, op.1)]));
    let anchor = data.add(&record(20, &[(0, ops), (4, 1)]));
    let code = data.add(&record(16, &[(0, text.0), (4, text.1), (8, text.0), (12, text.1)]));
    let manifest = data.add(&record(
        96,
        &[
            (0, id.0),
            (4, id.1),
            (8, version.0),
            (12, version.1),
            (16, text.0),
            (20, text.1),
            (24, text.0),
            (28, text.1),
            (72, anchor),
            (76, 1),
            (80, code),
            (84, 1),
        ],
    ));
    let decline = data.add(&record(80, &[(16, text.0), (20, text.1), (24, text.0), (28, text.1)]));
    Honest { bytes: data.bytes, manifest, decline, text }
}
