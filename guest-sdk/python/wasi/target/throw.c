/* What C++ code throws by. The libc++abi of componentize-py is built without exceptions: a throw ends the instance. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("hidden"))) void *__cxa_allocate_exception(unsigned long size) { return malloc(size); }

__attribute__((visibility("hidden"))) void __cxa_throw(void *thrown, void *type, void (*destructor)(void *)) {
    (void)thrown, (void)type, (void)destructor;
    fputs("a C++ exception was thrown, which a component cannot catch\n", stderr);
    abort();
}
