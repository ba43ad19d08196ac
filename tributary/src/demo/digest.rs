//! A fingerprint of all parameter bits: equal digests mean equal networks, to the last bit.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// SHA-256 of the parameters, in order, as little-endian f32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ParameterDigest([u8; 32]);

/// A text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a parameter digest: expected 64 hexadecimal digits")]
pub struct ParseDigestError(String);

impl ParameterDigest {
    /// The digest of these parameters. Tells 0.0 from -0.0, as training may.
    pub fn of(parameters: &[f32]) -> Self {
        let mut hash = Sha256::new();
        for value in parameters {
            hash.update(value.to_le_bytes());
        }
        Self(hash.finalize().into())
    }

    /// The first 8 digits, for a table.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for ParameterDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ParameterDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ParameterDigest({self})")
    }
}

impl FromStr for ParameterDigest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let wrong = || ParseDigestError(text.to_owned());
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl From<ParameterDigest> for String {
    fn from(digest: ParameterDigest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for ParameterDigest {
    type Error = ParseDigestError;

    fn try_from(text: String) -> Result<Self, ParseDigestError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_sees_every_bit() {
        let digest = ParameterDigest::of(&[1.0, 2.0]);
        assert_eq!(digest, ParameterDigest::of(&[1.0, 2.0]));
        assert_ne!(digest, ParameterDigest::of(&[2.0, 1.0]));
        assert_ne!(
            digest,
            ParameterDigest::of(&[1.0, f32::from_bits(2.0f32.to_bits() + 1)])
        );
        assert_ne!(ParameterDigest::of(&[0.0]), ParameterDigest::of(&[-0.0]));
    }

    #[test]
    fn digest_is_sha_256_and_survives_text() {
        let empty = ParameterDigest::of(&[]);
        assert_eq!(
            empty.to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(empty.to_string().parse(), Ok(empty));
        assert_eq!(empty.short(), "e3b0c442");
        assert!("e3b0".parse::<ParameterDigest>().is_err());
        assert!("é".repeat(32).parse::<ParameterDigest>().is_err());
    }
}
