//! A tensor that the host holds for a guest, and tensors that are made of it without a copy.
//!
//! Place in the flow: behind the handles that [`run`](super::run) gives out. In: a tensor and the bytes
//! that are held for it. Out: the same data with another shape, or some rows of them. Invariants: a
//! shape has at most [`LARGEST_RANK`] extents; where the elements of texts begin is found once, for a
//! tensor and all that is made of it together.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Error;
use super::held::Held;
use crate::blocking;
use crate::tensor::{Datatype, LARGEST_RANK, ShownShape, Tensor, TensorError, element_count};

/// Elements of texts from one whose place is known to the next.
const STEP: usize = 128;

/// A tensor that the host holds for a guest.
pub struct Resident {
    tensor: Tensor,
    held: Arc<Held>,
    /// The bytes of its shape, if they are not among those.
    _shape: Option<Arc<Held>>,
    texts: Option<Texts>,
}

/// Texts, as a part of those that were first there.
#[derive(Clone)]
struct Texts {
    all: Bytes,
    /// Where its own first element is among them: its number, and its first byte.
    begin: (usize, usize),
    places: Arc<OnceLock<Places>>,
}

/// The first byte of every element of so many.
struct Places {
    of_every: Vec<usize>,
    _held: Arc<Held>,
}

/// Holds so many bytes, or says that they are too many.
type Hold<'a> = &'a dyn Fn(usize) -> Result<Arc<Held>, Error>;

impl Resident {
    /// A tensor whose bytes are held, those of its shape among them.
    pub(super) fn new(tensor: Tensor, held: Arc<Held>) -> Resident {
        let texts = (tensor.datatype == Datatype::Bytes).then(|| Texts {
            all: tensor.data.clone(),
            begin: (0, 0),
            places: Arc::default(),
        });
        Resident { tensor, held, _shape: None, texts }
    }

    pub(super) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The bytes that are held for its data.
    pub(super) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// The same data in another shape.
    ///
    /// # Errors
    /// It has too many extents, or other than as many elements.
    pub(super) fn reshape(&self, shape: Vec<u64>, hold: Hold<'_>) -> Result<Resident, Error> {
        if shape.len() > LARGEST_RANK {
            return Err(Error::InvalidInput(TensorError::Rank(shape.len()).to_string()));
        }
        if element_count(&shape) != Some(self.tensor.elements()) {
            return Err(Error::InvalidInput(format!(
                "{} has other than the {} elements of {}",
                ShownShape(&self.tensor.shape),
                self.tensor.elements(),
                ShownShape(&shape)
            )));
        }
        self.made(shape, self.tensor.data.clone(), self.texts.clone(), hold)
    }

    /// `count` rows from `start` along the first axis.
    ///
    /// # Errors
    /// It does not have them.
    pub(super) fn rows(&self, start: u64, count: u64, hold: Hold<'_>) -> Result<Resident, Error> {
        let outside = || {
            let shape = ShownShape(&self.tensor.shape);
            Error::InvalidInput(format!("rows {start}+{count} of a tensor of {shape}"))
        };
        let (first, last) = self.elements(start, count).ok_or_else(outside)?;
        let (bytes, texts) = match (&self.texts, self.tensor.datatype.size()) {
            (Some(texts), _) => {
                let (bytes, texts) = texts.part(first, last, hold)?.ok_or_else(outside)?;
                (bytes, Some(texts))
            }
            (None, size) => {
                let bytes = size.and_then(|size| Some((first.checked_mul(size)?, last.checked_mul(size)?)));
                (bytes.ok_or_else(outside)?, None)
            }
        };
        self.tensor.data.get(bytes.0..bytes.1).ok_or_else(outside)?;
        let mut shape = self.tensor.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = count;
        }
        self.made(shape, self.tensor.data.slice(bytes.0..bytes.1), texts, hold)
    }

    /// The numbers of the first element of these rows, and of the one behind them.
    fn elements(&self, start: u64, count: u64) -> Option<(usize, usize)> {
        let (all, row) = self.tensor.shape.split_first()?;
        let end = start.checked_add(count).filter(|end| end <= all)?;
        let elements = element_count(row)?;
        let element = |row: u64| usize::try_from(row).ok()?.checked_mul(elements);
        Some((element(start)?, element(end)?))
    }

    fn made(
        &self,
        shape: Vec<u64>,
        data: Bytes,
        texts: Option<Texts>,
        hold: Hold<'_>,
    ) -> Result<Resident, Error> {
        let of_shape = hold(size_of_val(shape.as_slice()))?;
        let (name, datatype) = (self.tensor.name.clone(), self.tensor.datatype);
        let tensor = Tensor { name, datatype, shape, data };
        Ok(Resident { tensor, held: self.held.clone(), _shape: Some(of_shape), texts })
    }
}

/// A part of texts: where its bytes begin and end, and its elements.
type Part = ((usize, usize), Texts);

impl Texts {
    /// Where the elements from `first` up to `last` are among the bytes of these, and those elements; `None`
    /// if there are fewer.
    fn part(&self, first: usize, last: usize, hold: Hold<'_>) -> Result<Option<Part>, Error> {
        let places = match self.places.get() {
            Some(places) => places,
            None => {
                let places = Places::of(&self.all, hold)?;
                self.places.get_or_init(|| places)
            }
        };
        let place = |number: usize| {
            let number = number.checked_add(self.begin.0)?;
            Some((number, places.place(&self.all, number)?))
        };
        Ok(place(first).zip(place(last)).and_then(|(begin, end)| {
            let within = |place: usize| place.checked_sub(self.begin.1);
            let texts = Texts { begin, ..self.clone() };
            Some(((within(begin.1)?, within(end.1)?), texts))
        }))
    }
}

impl Places {
    /// Looks at every element once.
    fn of(data: &[u8], hold: Hold<'_>) -> Result<Places, Error> {
        let of_every = blocking::if_large(data.len(), || {
            let (mut of_every, mut number, mut place) = (Vec::new(), 0_usize, 0);
            loop {
                if number.is_multiple_of(STEP) {
                    of_every.push(place);
                }
                match after(data, place) {
                    Some(next) => (number, place) = (number + 1, next),
                    None => break,
                }
            }
            of_every.shrink_to_fit();
            of_every
        });
        let held = hold(size_of_val(of_every.as_slice()))?;
        Ok(Places { of_every, _held: held })
    }

    /// Where the element of this number begins, or the last one ends.
    fn place(&self, data: &[u8], number: usize) -> Option<usize> {
        let known = *self.of_every.get(number / STEP)?;
        (0..number % STEP).try_fold(known, |place, _| after(data, place))
    }
}

/// Where the element ends that begins here among strings with their lengths before them.
fn after(data: &[u8], place: usize) -> Option<usize> {
    let length = data.get(place..)?.first_chunk().copied().map(u32::from_le_bytes)?;
    place.checked_add(4)?.checked_add(usize::try_from(length).ok()?).filter(|end| *end <= data.len())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::tensor::push_bytes_element;

    /// The bytes that are held, and the most of them.
    struct Memory(Arc<AtomicUsize>, usize);

    impl Memory {
        fn hold(&self, bytes: usize) -> Result<Arc<Held>, Error> {
            Held::new(bytes, &self.0, self.1)
        }

        fn held(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn memory(most: usize) -> Memory {
        Memory(Arc::default(), most)
    }

    fn resident(datatype: Datatype, shape: &[u64], data: &[u8], memory: &Memory) -> Resident {
        let data = Bytes::copy_from_slice(data);
        let tensor = Tensor::new("".into(), datatype, shape.to_vec(), data).unwrap();
        let held = memory.hold(super::super::held::bytes_of(&tensor)).unwrap();
        Resident::new(tensor, held)
    }

    #[test]
    fn rows_are_slices() {
        let memory = memory(1 << 20);
        let hold: Hold<'_> = &|bytes| memory.hold(bytes);
        let of_numbers = [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0];
        let numbers = resident(Datatype::Uint16, &[3, 2], &of_numbers, &memory);
        let texts = resident(Datatype::Bytes, &[3], b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc", &memory);
        for (resident, start, count, expected) in [
            (&numbers, 0, 3, Some((vec![3, 2], &of_numbers[..]))),
            (&numbers, 1, 1, Some((vec![1, 2], &[2, 0, 3, 0][..]))),
            (&numbers, 3, 0, Some((vec![0, 2], &[][..]))),
            (&numbers, 2, 2, None),
            (&numbers, u64::MAX, 2, None),
            (&texts, 1, 2, Some((vec![2], &b"\0\0\0\0\x02\0\0\0bc"[..]))),
            (&texts, 0, 1, Some((vec![1], &b"\x01\0\0\0a"[..]))),
            (&texts, 3, 0, Some((vec![0], &[][..]))),
            (&texts, 3, 1, None),
        ] {
            let sliced = resident.rows(start, count, hold).ok();
            let seen = sliced.as_ref().map(|it| (it.tensor.shape.clone(), &it.tensor.data[..]));
            assert_eq!(seen, expected, "{start}+{count} of {:?}", resident.tensor.shape);
        }
        assert!(resident(Datatype::Bool, &[], &[1], &memory).rows(0, 0, hold).is_err());
    }

    /// Rows of rows of many texts are those that a plain list has, and their places are found once.
    #[test]
    fn rows_of_texts_are_found_without_looking_at_all_of_them_again() {
        let texts: Vec<String> = (0..1000).map(|number: u32| "x".repeat(number as usize % 7)).collect();
        let encoded = |texts: &[String]| {
            let mut data = Vec::new();
            texts.iter().for_each(|text| assert!(push_bytes_element(&mut data, text.as_bytes())));
            data
        };
        let memory = memory(1 << 20);
        let hold: Hold<'_> = &|bytes| memory.hold(bytes);
        let all = resident(Datatype::Bytes, &[500, 2], &encoded(&texts), &memory);
        let before = memory.held();
        let part = all.rows(100, 300, hold).unwrap();
        let shape = 2 * size_of::<u64>();
        assert_eq!(memory.held(), before + shape + 1000_usize.div_ceil(STEP) * size_of::<usize>());
        for (start, count) in [(0, 0), (0, 1), (63, 2), (64, 64), (299, 1), (300, 0), (0, 300)] {
            let rows = part.rows(start, count, hold).unwrap();
            let from = 200 + 2 * start as usize;
            assert_eq!(rows.tensor.data, encoded(&texts[from..from + 2 * count as usize]), "{start}+{count}");
            let reshaped = rows.reshape(vec![2 * count], hold).unwrap();
            assert_eq!(reshaped.rows(0, 2 * count, hold).unwrap().tensor.data, rows.tensor.data);
            let found = [&part, &rows, &reshaped].map(|it| Arc::as_ptr(&it.texts.as_ref().unwrap().places));
            assert_eq!(found, [Arc::as_ptr(&all.texts.as_ref().unwrap().places); 3]);
        }
        drop((all, part));
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn a_shape_has_few_extents_and_its_bytes_are_held() {
        let memory = memory(1000);
        let hold: Hold<'_> = &|bytes| memory.hold(bytes);
        let one = resident(Datatype::Uint8, &[1], &[7], &memory);
        let before = memory.held();
        let reshaped = one.reshape(vec![1; LARGEST_RANK], hold).unwrap();
        assert_eq!(memory.held(), before + 8 * LARGEST_RANK);
        // Each of them is refused in a short text, in no time.
        let most = u64::MAX;
        for shape in [vec![1; LARGEST_RANK + 1], vec![1; 6_000_000], vec![most; LARGEST_RANK], vec![2]] {
            let Err(Error::InvalidInput(text)) = one.reshape(shape, hold) else { panic!("reshaped") };
            assert!(text.len() < 400, "{text}");
        }
        let Err(Error::InvalidInput(text)) = reshaped.rows(most, 1, hold) else { panic!("rows") };
        assert!(text.len() < 400, "{text}");
        let mut made = Vec::new();
        let refused = loop {
            match one.reshape(vec![1; LARGEST_RANK], hold) {
                Ok(reshaped) => made.push(reshaped),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Limit(_)) && made.len() < 4);
        drop((made, reshaped));
        assert_eq!(memory.held(), before);
    }
}
