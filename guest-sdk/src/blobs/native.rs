//! Containers in the memory of a thread, for unit tests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read as _};

use super::{BlobError, Info, Result};

thread_local! {
    /// By container and name.
    static OBJECTS: RefCell<BTreeMap<(String, String), Vec<u8>>> = RefCell::default();
}

#[derive(Debug)]
pub struct Container(String);

impl Container {
    pub fn open(name: &str) -> Result<Container> {
        Ok(Container(name.to_owned()))
    }

    fn place(&self, name: &str) -> Result<(String, String)> {
        match name.len() {
            1..=512 => Ok((self.0.clone(), name.to_owned())),
            length => Err(BlobError(format!("a name of {length} bytes, expected 1 to 512"))),
        }
    }

    pub fn read(&self, name: &str, first: u64, last: u64) -> Result<(Reader, u64)> {
        let place = self.place(name)?;
        let content = OBJECTS.with_borrow(|objects| objects.get(&place).cloned());
        let content = content.ok_or_else(|| BlobError(format!("there is no object `{name}`")))?;
        let end =
            usize::try_from(last).map_or(content.len(), |last| content.len().min(last.saturating_add(1)));
        let first = usize::try_from(first).map_or(end, |first| first.min(end));
        let part = content.get(first..end).unwrap_or_default().to_vec();
        let size = part.len() as u64;
        Ok((Reader(io::Cursor::new(part)), size))
    }

    pub fn write(&self, name: &str) -> Result<Writer> {
        Ok(Writer { place: self.place(name)?, content: Vec::new() })
    }

    pub fn info(&self, name: &str) -> Result<Option<Info>> {
        let place = self.place(name)?;
        Ok(OBJECTS.with_borrow(|objects| {
            objects.get(&place).map(|content| Info { size: content.len() as u64, created: 0 })
        }))
    }

    pub fn delete(&self, name: &str) -> Result<()> {
        let place = self.place(name)?;
        OBJECTS.with_borrow_mut(|objects| objects.remove(&place));
        Ok(())
    }

    pub fn clear(&self) -> Result<()> {
        OBJECTS.with_borrow_mut(|objects| objects.retain(|(container, _), _| *container != self.0));
        Ok(())
    }

    pub fn names(&self, most: Option<usize>) -> Result<Vec<String>> {
        Ok(OBJECTS.with_borrow(|objects| {
            let own = objects.keys().filter(|(container, _)| *container == self.0);
            own.map(|(_, name)| name.clone()).take(most.unwrap_or(usize::MAX)).collect()
        }))
    }
}

#[derive(Debug)]
pub struct Reader(io::Cursor<Vec<u8>>);

impl Reader {
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

#[derive(Debug)]
pub struct Writer {
    place: (String, String),
    content: Vec<u8>,
}

impl Writer {
    pub fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.content.extend_from_slice(piece);
        Ok(piece.len())
    }

    pub fn finish(self) -> Result<()> {
        OBJECTS.with_borrow_mut(|objects| objects.insert(self.place, self.content));
        Ok(())
    }
}
