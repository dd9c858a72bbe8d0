/* `wasi:random/insecure-seed`, by which Rust's tables get their keys, from libc. */

#include <unistd.h>

void insecure_seed(unsigned long long *seed) __asm__(SYMBOL);

void insecure_seed(unsigned long long *seed) { getentropy(seed, 2 * sizeof *seed); }
