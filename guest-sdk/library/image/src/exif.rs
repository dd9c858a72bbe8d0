//! The one thing of EXIF that changes pixels: how the camera was held.
//!
//! In:  a block of EXIF, with its introduction or without. Out: 1 to 8; 1 if the block cannot be read.

const INTRODUCTION: &[u8] = b"Exif\0\0";
/// The tag of the orientation, and the type of its value: 16 bits.
const TAG: u16 = 0x0112;
const SHORT: u16 = 3;
/// Bytes of an entry.
const ENTRY: usize = 12;

/// The orientation that a block of EXIF has.
pub fn orientation(block: &[u8]) -> u8 {
    found(block)
        .filter(|value| (1..=8).contains(value))
        .and_then(|value| u8::try_from(value).ok())
        .unwrap_or(1)
}

fn found(block: &[u8]) -> Option<u16> {
    let tiff = block.strip_prefix(INTRODUCTION).unwrap_or(block);
    let is_little = match tiff.get(..2)? {
        b"II" => true,
        b"MM" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes: [u8; 2] = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let long = |at: usize| {
        let bytes: [u8; 4] = tiff.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    let table = usize::try_from(long(4)?).ok()?;
    let count = usize::from(short(table)?);
    (0..count).find_map(|entry| {
        let at = table.checked_add(2 + entry * ENTRY)?;
        (short(at)? == TAG && short(at + 2)? == SHORT).then(|| short(at + 8)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orientation_is_found_in_either_byte_order_and_1_where_there_is_none() {
        let little = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";
        assert_eq!((orientation(little), orientation(big)), (6, 8));
        for cut in 0..big.len() - 6 {
            assert_eq!(orientation(&big[..cut]), 1, "{cut}");
        }
        for broken in [&b""[..], b"Exif\0\0", b"MM\0*\xff\xff\xff\xff", b"XX\0*\0\0\0\x08\0\x01"] {
            assert_eq!(orientation(broken), 1, "{broken:?}");
        }
    }
}
