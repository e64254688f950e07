//! CRC-32C (Castagnoli), the checksum of the records in the engine's log and manifest.

/// Tables for computing a CRC-32C eight bytes at a time: one table per byte position in a word, indexed by the byte.
static CRC_TABLES: [[u32; 256]; 8] = crc_tables();

const fn crc_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][index] = crc;
        index += 1;
    }
    let mut place = 1;
    while place < 8 {
        let mut index = 0;
        while index < 256 {
            let crc = tables[place - 1][index];
            tables[place][index] = (crc >> 8) ^ tables[0][(crc & 0xFF) as usize];
            index += 1;
        }
        place += 1;
    }
    tables
}

/// Continues a CRC-32C (Castagnoli) with more bytes.
pub(super) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = !crc;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes().map(usize::from);
        crc = CRC_TABLES[7][a] ^ CRC_TABLES[6][b] ^ CRC_TABLES[5][c] ^ CRC_TABLES[4][d];
        crc ^= CRC_TABLES[3][e] ^ CRC_TABLES[2][f] ^ CRC_TABLES[1][g] ^ CRC_TABLES[0][h];
    }
    for byte in rest {
        crc = (crc >> 8) ^ CRC_TABLES[0][((crc ^ u32::from(*byte)) & 0xFF) as usize];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_crc32c() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), 0xE306_9283);
        assert_eq!(crc32c(0, &[0; 32]), 0x8A91_36AA);
    }
}
