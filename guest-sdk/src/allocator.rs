//! The allocator of a handler's component: small blocks are used again without asking the C library.
//!
//! Place in the flow: everything Rust code allocates in a component, what the host writes into it
//! (`cabi_realloc`) included. A request's values are few, small and short-lived: names, shapes, a row of
//! floats, a JSON text. The C library's allocator takes about two hundred instructions for a block and its
//! return, and merges and splits what the next request wants the same way again. Here a freed block goes to
//! the front of the list of its size, and the next block of that size is taken from there.
//! In: sizes. Out: blocks; those of more than [`LARGEST`] bytes, and those of rare alignments, come from the
//! C library as before.
//! Invariants: every block of a list has that list's size and is the C library's, so that code that frees a
//! block by the C library's own `free` does no harm; a list's blocks are free, and each is on it once. A list
//! has at most [`KEPT`] of them, and before a block of [`LARGE`] bytes and more is made all go back: small
//! blocks that are kept never stand in the way of a large value.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

/// Sizes differ by this much.
const STEP: usize = 16;
/// The bytes that the C library adds to a block before it rounds up to a multiple of [`STEP`]. So the sizes
/// here are the ones that it has anyway, 12, 28, 44 and so on, and no block is larger than it would be.
const HEADER: usize = 4;
/// The largest small block, in bytes.
const LARGEST: usize = SIZES * STEP - HEADER;
/// How many sizes are small.
const SIZES: usize = 32;
/// Most free blocks of one size. A request's values of one size are fewer; what a large structure leaves
/// behind is more.
const KEPT: u32 = 16;
/// Blocks from this size on want memory in one piece.
const LARGE: usize = 64 << 10;
/// The alignment that the C library promises of every block.
const ALIGN: usize = 8;

/// The free blocks of one size.
#[derive(Clone, Copy)]
struct List {
    first: Option<NonNull<Free>>,
    count: u32,
}

/// A free block's own first bytes.
struct Free {
    next: Option<NonNull<Free>>,
}

/// How many bytes the blocks of a list have.
const fn size_of_list(index: usize) -> usize {
    (index + 1) * STEP - HEADER
}

/// Small blocks from lists, the rest from [`System`].
pub struct Recycler {
    /// One list for each size, the smallest first.
    lists: UnsafeCell<[List; SIZES]>,
}

// SAFETY: a component has one thread. With atomics it could have more, and this would not compile.
#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
unsafe impl Sync for Recycler {}

impl Recycler {
    /// With empty lists.
    pub const fn new() -> Recycler {
        Recycler { lists: UnsafeCell::new([List { first: None, count: 0 }; SIZES]) }
    }

    /// The list that blocks of `layout` are on, if they are on one.
    #[inline(always)]
    fn list(&self, layout: Layout) -> Option<(*mut List, usize)> {
        let index = layout.size().wrapping_add(HEADER - 1) / STEP;
        // SAFETY: `index` is within the array.
        (layout.size() <= LARGEST && layout.align() <= ALIGN)
            .then(|| (unsafe { self.lists.get().cast::<List>().add(index) }, size_of_list(index)))
    }

    /// Gives all free blocks back if one of `size` bytes is to be made and that is much.
    #[inline]
    fn make_room(&self, size: usize) {
        if size >= LARGE {
            self.release();
        }
    }

    #[cold]
    fn release(&self) {
        // SAFETY: a list's blocks are free, of its size, and the C library's. One call is here at a time, as
        // in every function.
        unsafe {
            for (index, list) in (*self.lists.get()).iter_mut().enumerate() {
                list.count = 0;
                while let Some(block) = list.first {
                    list.first = block.as_ref().next;
                    let layout = Layout::from_size_align_unchecked(size_of_list(index), ALIGN);
                    System.dealloc(block.as_ptr().cast(), layout);
                }
            }
        }
    }
}

// SAFETY: blocks are the C library's. A small one has the size of its list, at least that of every layout
// which leads to the list, and its alignment is the C library's; it is off the list while it is in use.
unsafe impl GlobalAlloc for Recycler {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this trait's, passed on. The links of a list were written by `dealloc`, and its blocks are
        // in no other use. The size of a list is far from overflowing.
        unsafe {
            let Some((list, size)) = self.list(layout) else {
                self.make_room(layout.size());
                return System.alloc(layout);
            };
            match (*list).first {
                Some(block) => {
                    (*list).first = block.as_ref().next;
                    (*list).count -= 1;
                    block.as_ptr().cast()
                }
                None => System.alloc(Layout::from_size_align_unchecked(size, ALIGN)),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: this trait's: `block` is of this layout, so of this list's size, and no longer in use.
        unsafe {
            let Some((list, size)) = self.list(layout) else { return System.dealloc(block, layout) };
            if (*list).count == KEPT {
                return System.dealloc(block, Layout::from_size_align_unchecked(size, ALIGN));
            }
            let block = block.cast::<Free>();
            block.write(Free { next: (*list).first });
            (*list).first = NonNull::new(block);
            (*list).count += 1;
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this trait's, passed on; a block has at least the layout's size.
        unsafe {
            if self.list(layout).is_none() {
                self.make_room(layout.size());
                // The C library knows what memory is zero already.
                return System.alloc_zeroed(layout);
            }
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        // SAFETY: this trait's: `size` with the old alignment makes a layout. Both blocks have at least the
        // bytes that are copied.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, old.align());
            match (self.list(old), self.list(new)) {
                (None, None) => {
                    self.make_room(size);
                    System.realloc(block, old, size)
                }
                (Some((old, _)), Some((new, _))) if ptr::eq(old, new) => block,
                _ => {
                    let moved = self.alloc(new);
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(block, old.size().min(size));
                        self.dealloc(block, old);
                    }
                    moved
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size around the borders, every alignment, in an order that mixes them: no block overlaps
    /// another, none moves without its bytes, each is aligned.
    #[test]
    fn blocks_are_aligned_apart_and_keep_their_bytes() {
        let allocator = Recycler::new();
        let mut random = 1u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
        // SAFETY: each block is used within its layout and freed once, with it.
        unsafe {
            for step in 0..200_000usize {
                let mark = step as u8;
                let layout = Layout::from_size_align(1 + draw(LARGEST * 2), 1 << draw(6)).unwrap();
                match draw(4) {
                    0 | 1 if blocks.len() < 200 => {
                        let zeroed = draw(2) == 0;
                        let block =
                            if zeroed { allocator.alloc_zeroed(layout) } else { allocator.alloc(layout) };
                        assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                        if zeroed {
                            assert!(
                                std::slice::from_raw_parts(block, layout.size())
                                    .iter()
                                    .all(|byte| *byte == 0)
                            );
                        }
                        block.write_bytes(mark, layout.size());
                        blocks.push((block, layout, mark));
                    }
                    2 if !blocks.is_empty() => {
                        let (block, old, mark) = blocks.swap_remove(draw(blocks.len()));
                        let new = Layout::from_size_align(layout.size(), old.align()).unwrap();
                        let block = allocator.realloc(block, old, new.size());
                        assert!(!block.is_null() && block.addr().is_multiple_of(new.align()));
                        let kept = std::slice::from_raw_parts(block, old.size().min(new.size()));
                        assert!(kept.iter().all(|byte| *byte == mark), "{old:?} to {new:?}");
                        block.write_bytes(mark, new.size());
                        blocks.push((block, new, mark));
                    }
                    _ if !blocks.is_empty() => {
                        let (block, layout, mark) = blocks.swap_remove(draw(blocks.len()));
                        let kept = std::slice::from_raw_parts(block, layout.size());
                        assert!(kept.iter().all(|byte| *byte == mark), "{layout:?}");
                        allocator.dealloc(block, layout);
                    }
                    _ => {}
                }
            }
            for (block, layout, _) in blocks {
                allocator.dealloc(block, layout);
            }
        }
    }

    #[test]
    fn a_freed_block_is_the_next_of_its_size_and_of_no_other() {
        let allocator = Recycler::new();
        let layout = |size| Layout::from_size_align(size, 1).unwrap();
        // SAFETY: each block is freed once, with its layout.
        unsafe {
            let kept = || (*allocator.lists.get()).iter().map(|list| list.count).sum::<u32>();
            let first = allocator.alloc(layout(20));
            allocator.dealloc(first, layout(20));
            let (other, same) = (allocator.alloc(layout(33)), allocator.alloc(layout(28)));
            assert_ne!(other, first);
            assert_eq!(same, first);
            assert_eq!(allocator.realloc(same, layout(28), 17), same, "as large");
            allocator.dealloc(same, layout(17));
            allocator.dealloc(other, layout(33));
            assert_eq!(kept(), 2);

            let many = [(); 20].map(|()| allocator.alloc(layout(LARGEST)));
            for block in many {
                allocator.dealloc(block, layout(LARGEST));
            }
            assert_eq!(kept(), 2 + KEPT, "and the C library has the rest");
            let medium = allocator.alloc(layout(LARGE - 1));
            assert_eq!(kept(), 2 + KEPT);
            let large = allocator.realloc(medium, layout(LARGE - 1), LARGE);
            assert_eq!(kept(), 0, "nothing small is left in the way");
            allocator.dealloc(large, layout(LARGE));
        }
    }
}
