/* `wasi:random/random`, by which the crate `getrandom` gets its bytes, from libc. */

#include <unistd.h>

unsigned long long get_random(void) __asm__(SYMBOL);

unsigned long long get_random(void) {
    unsigned long long number = 0;
    getentropy(&number, sizeof number);
    return number;
}
