//! The size of JSON, without writing it.

use std::io::{self, Write};

use serde_json::Value;

/// Returns the number of bytes of a value as JSON.
#[must_use]
pub fn json_bytes(value: &Value) -> usize {
    let mut counter = ByteCounter { bytes: 0 };
    // Neither the counter nor a value refuses to be written.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.bytes
}

struct ByteCounter {
    bytes: usize,
}

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_size_is_that_of_the_text() {
        for value in [json!(null), json!([]), json!({ "a\n": ["\u{1}", "\u{e4}", -1.5, true] })] {
            assert_eq!(json_bytes(&value), value.to_string().len(), "{value}");
        }
    }
}
