//! What JSON has no numbers for: 64 bits, and bytes.

use serde::{Deserialize, Serialize};

/// 64 bits as `0x` and 16 hexadecimal digits: a JSON number is exact up to 53 bits only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Word(pub u64);

impl From<Word> for String {
    fn from(Word(word): Word) -> Self {
        format!("{word:#018x}")
    }
}

impl TryFrom<String> for Word {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 16);
        let word = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        word.map(Self)
            .ok_or_else(|| format!("{text:?} is not 0x and 16 hexadecimal digits"))
    }
}

/// Bytes as hexadecimal digits, two each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hex(pub Vec<u8>);

impl From<Hex> for String {
    fn from(Hex(bytes): Hex) -> Self {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair)
                .ok()
                .filter(|_| pair.len() == 2 && !pair.contains(&b'+'));
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not pairs of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bytes_come_back() {
        for word in [0, 1, u64::MAX, 0x7b1d_0000_0000_0001] {
            assert_eq!(Word::try_from(String::from(Word(word))), Ok(Word(word)));
        }
        for bytes in [vec![], vec![0], vec![0xff, 0x0a, 0x54]] {
            assert_eq!(Hex::try_from(String::from(Hex(bytes.clone()))), Ok(Hex(bytes)));
        }
        for text in ["1", "0x1", "0x000000000000000g", "00000000000000001"] {
            assert!(Word::try_from(text.to_owned()).is_err(), "{text}");
        }
        for text in ["1", "0g", "123", "+1", "é"] {
            assert!(Hex::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
