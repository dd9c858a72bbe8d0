//! The one checksum that `object_store` names, CRC-64/NVME, in place of the crate of this name.
//!
//! Place in the flow: `[patch.crates-io]` in the workspace's manifest puts it there. That crate has the
//! tables of all checksums in the program, 700 kB, of which `object_store` uses one, and only where a store
//! is built with a checksum for uploads, which this program does not ask for.

/// A checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// CRC-64/NVME.
    Crc64Nvme,
}

/// The polynomial 0xAD93D23594C93659, its bits reversed.
const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

/// A checksum of what has been seen so far.
#[derive(Debug, Clone)]
pub struct Digest(u64);

impl Digest {
    /// Of nothing.
    pub fn new(algorithm: CrcAlgorithm) -> Digest {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Digest(u64::MAX),
        }
    }

    /// Adds these bytes.
    pub fn update(&mut self, data: &[u8]) {
        for byte in data {
            self.0 ^= u64::from(*byte);
            for _ in 0..8 {
                self.0 = (self.0 >> 1) ^ if self.0 & 1 == 1 { POLYNOMIAL } else { 0 };
            }
        }
    }

    /// The checksum.
    pub fn finalize(&self) -> u64 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that the catalogue of checksums has for this text.
    #[test]
    fn the_checksum_is_the_published_one() {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(b"1234");
        digest.update(b"56789");
        assert_eq!(digest.finalize(), 0xAE8B_1486_0A79_9888);
    }
}
