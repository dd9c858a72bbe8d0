/* Clocks that the crate `libc` names, and WASI 0.2 does not have. */

__attribute__((visibility("hidden"))) const int _CLOCK_PROCESS_CPUTIME_ID = 2;
__attribute__((visibility("hidden"))) const int _CLOCK_THREAD_CPUTIME_ID = 3;
