//! Entries that only those can read who know what the code was made of.
//!
//! Place in the flow: the compile cache locks what it writes and unlocks what it reads of an endpoint with
//! variables. In and out: an entry's contents, a salt and after it the code, encrypted (AES-256-GCM, which is
//! also the seal).
//! Invariants: the key is made of the variables' values, the folder's key and the salt, which is new for each
//! entry; so nothing is ever encrypted twice under one key. Who can read the folder can try values, all of an
//! endpoint's at a time, and learns nothing else.

use std::io;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes of the salt.
const SALT: usize = 32;

/// Opens the entries of one set of variables.
#[derive(Clone)]
pub(super) struct Lock([u8; blake3::KEY_LEN]);

impl Lock {
    pub(super) fn new(secret: [u8; blake3::KEY_LEN]) -> Lock {
        Lock(secret)
    }

    /// Encrypts the entry called `id` in its place.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn close(&self, key: &[u8], id: &blake3::Hash, code: &mut Vec<u8>) -> io::Result<()> {
        let failed = |_| io::Error::other("it cannot be encrypted");
        let mut salt = [0; SALT];
        SystemRandom::new().fill(&mut salt).map_err(failed)?;
        let key = self.key(key, &salt).map_err(failed)?;
        key.seal_in_place_append_tag(nonce(), Aad::from(id.as_bytes()), code).map_err(failed)?;
        code.splice(..0, salt);
        Ok(())
    }

    /// Decrypts it in its place; `None` if it is not what was written under this name, or not for this lock.
    pub(super) fn open<'a>(&self, key: &[u8], id: &blake3::Hash, contents: &'a mut [u8]) -> Option<&'a [u8]> {
        let (salt, code) = contents.split_at_mut_checked(SALT)?;
        let key = self.key(key, salt).ok()?;
        key.open_in_place(nonce(), Aad::from(id.as_bytes()), code).ok().map(|code| &*code)
    }

    /// The key of the entry with this salt, in the folder with this key.
    fn key(&self, folder: &[u8], salt: &[u8]) -> Result<LessSafeKey, ring::error::Unspecified> {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let key = hasher.update(folder).update(salt).finalize();
        UnboundKey::new(&AES_256_GCM, key.as_bytes()).map(LessSafeKey::new)
    }
}

/// Each key encrypts once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; ring::aead::NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_locked_opens_and_only_with_all_that_locked_it() {
        let (lock, folder, id) = (Lock([1; 32]), [2; 32], blake3::hash(b"name"));
        let code = b"machine code, and a token".to_vec();
        let mut entry = code.clone();
        lock.close(&folder, &id, &mut entry).unwrap();
        let open = |lock: &Lock, folder: &[u8], id: &blake3::Hash, entry: &[u8]| {
            lock.open(folder, id, &mut entry.to_vec()).map(<[u8]>::to_vec)
        };
        assert_eq!(open(&lock, &folder, &id, &entry), Some(code.clone()));
        assert_eq!(open(&Lock([3; 32]), &folder, &id, &entry), None, "other variables");
        assert_eq!(open(&lock, &[3; 32], &id, &entry), None, "another folder");
        assert_eq!(open(&lock, &folder, &blake3::hash(b"other"), &entry), None, "another name");
        for at in 0..entry.len() {
            let mut changed = entry.clone();
            changed[at] ^= 1;
            assert_eq!(open(&lock, &folder, &id, &changed), None, "byte {at}");
            assert_eq!(open(&lock, &folder, &id, &entry[..at]), None, "cut at {at}");
        }
        let mut again = code.clone();
        lock.close(&folder, &id, &mut again).unwrap();
        assert_ne!(again, entry, "another salt");
        assert!(!entry.windows(5).any(|window| window == b"token"));
    }
}
