//! An allocator for one thread, and the memory functions that the compiler calls, without a C library.

use core::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ptr,
};

use crate::sys;

/// Block sizes are powers of two from 16 bytes to 64 KiB; larger blocks come from the kernel and are never freed.
const MIN_BLOCK_SHIFT: u32 = 4;
const SIZE_CLASSES: usize = 13;
/// Bytes that are requested from the kernel at once.
const REGION_BYTES: usize = 256 * 1024;

/// Keeps freed blocks in a linked list for each size, with the links in the blocks themselves.
struct BlockAllocator(UnsafeCell<AllocatorState>);

struct AllocatorState {
    free: [*mut u8; SIZE_CLASSES],
    region: *mut u8,
    left: usize,
}

// SAFETY: the program has one thread.
unsafe impl Sync for BlockAllocator {}

#[global_allocator]
static BLOCKS: BlockAllocator = BlockAllocator(UnsafeCell::new(AllocatorState {
    free: [ptr::null_mut(); SIZE_CLASSES],
    region: ptr::null_mut(),
    left: 0,
}));

/// Returns the index of a block's list, if there is one.
fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(1 << MIN_BLOCK_SHIFT);
    let class = (size.next_power_of_two().trailing_zeros() - MIN_BLOCK_SHIFT) as usize;
    (class < SIZE_CLASSES).then_some(class)
}

// SAFETY: a block is handed out to one owner until it is freed, and is at least as large as requested. Its size is a
// power of two, to which it is aligned: regions begin at a page, and blocks are cut at multiples of their size. No
// requested alignment exceeds that size.
unsafe impl GlobalAlloc for BlockAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the program has one thread, and this function does not call itself.
        let state = unsafe { &mut *self.0.get() };
        let Some(class) = class(layout) else { return sys::map_memory(layout.size()) };
        let block = state.free[class];
        if !block.is_null() {
            // SAFETY: a block in the list begins with a pointer to the next block.
            state.free[class] = unsafe { block.cast::<*mut u8>().read() };
            return block;
        }
        let size = 1_usize << (class as u32 + MIN_BLOCK_SHIFT);
        let skipped = state.region.align_offset(size.min(4096));
        if state.region.is_null() || state.left < skipped + size {
            // The rest of the old region, which is smaller than a block of this size, is lost.
            state.region = sys::map_memory(REGION_BYTES);
            state.left = REGION_BYTES;
            if state.region.is_null() {
                return ptr::null_mut();
            }
            return carve_block(state, 0, size);
        }
        carve_block(state, skipped, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        let state = unsafe { &mut *self.0.get() };
        let Some(class) = class(layout) else { return };
        // SAFETY: the block is free and large enough for a pointer.
        unsafe { block.cast::<*mut u8>().write(state.free[class]) };
        state.free[class] = block;
    }
}

fn carve_block(state: &mut AllocatorState, skipped: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller has seen that this much is left of the region.
    let block = unsafe { state.region.add(skipped) };
    // SAFETY: as for `block`.
    state.region = unsafe { block.add(size) };
    state.left -= skipped + size;
    block
}

/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises; the instruction copies that many bytes, upwards.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for at in 0..count {
        // SAFETY: as the caller promises.
        unsafe { to.add(at).write(from.add(at).read()) };
    }
    to
}

/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if (to as usize) < from as usize {
        // SAFETY: as the caller promises; copying upwards reads each byte before it is overwritten.
        return unsafe { memcpy(to, from, count) };
    }
    for at in (0..count).rev() {
        // SAFETY: as the caller promises.
        unsafe { to.add(at).write(from.add(at).read()) };
    }
    to
}

/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises; the instruction writes that many bytes.
    unsafe {
        core::arch::asm!(
            "rep stosb",
            inout("rcx") count => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for at in 0..count {
        // SAFETY: as the caller promises.
        unsafe { to.add(at).write(byte as u8) };
    }
    to
}

/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    for at in 0..count {
        // SAFETY: as the caller promises.
        let (a, b) = unsafe { (a.add(at).read(), b.add(at).read()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { memcmp(a, b, count) }
}

/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: as the caller promises.
    while unsafe { text.add(length).read() } != 0 {
        length += 1;
    }
    length
}

/// The standard library was compiled to unwind and refers to this symbol; nothing here unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
