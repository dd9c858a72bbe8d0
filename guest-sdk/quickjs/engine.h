// What the parts of the runtime know of each other; `runtime.c` says what it is.

#pragma once

#include "quickjs.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(name) __attribute__((import_module("handler"), import_name(name)))

// Of the handler's own: a call of an import with its flat arguments, whose result is left in their place; the bytes of the tables,
// and a copy of them.
IMPORT("call") void linked_call(uint32_t import, uint64_t *slots);
IMPORT("length") uint32_t linked_length(void);
IMPORT("copy") void linked_copy(void *into);

// The tables, in words of 32 bits: what is at a number is at `words[number]`; a text is at a number of bytes.
enum { MAGIC = 0x3251484d, NONE = 0xffffffff };
enum { AT_MAGIC, AT_TYPES, TYPES, AT_IMPORTS, IMPORTS, AT_RESOURCES, RESOURCES, AT_EXPORTS, EXPORTS, AT_SOURCE, SOURCE, FLAGS };
enum { OWN_INIT = 1 };
enum kind {
    BOOL, S8, U8, S16, U16, S32, U32, S64, U64, F32, F64, CHAR, STRING, LIST, RECORD, TUPLE, VARIANT, OPTION, RESULT, ENUM, FLAGSET,
    OWN, BORROW,
};
struct function { uint32_t interface, name, kind, resource, parameters, result, is_indirect, result_mode; };
/// The last is the contract's `init`, among the exports.
enum { FREE, METHOD, STATIC, CONSTRUCTOR, INIT };
enum { NOTHING, FLAT, IN_MEMORY };
struct resource { uint32_t interface, name, drop; };
/// `rest`: of a list its element; of a record or tuple a count and members; of what has cases a count, the width of the tag, where
/// the value is, and members; of flags a count and names; of a handle the resource.
struct type { uint32_t kind, size, align, flat, rest[]; };
/// The name of a record's member is an atom of the engine.
struct member { uint32_t name, type, offset; };

enum { MOST_FLAT = 16 };

extern const uint32_t *words;
extern const struct function *imports, *exports;
extern const struct resource *resources;
extern JSRuntime *runtime;
extern JSContext *context;
extern JSValue *prototypes, *classes;
extern JSValue fire_timers, drop_timers, host_error;
/// Whether random numbers have a seed, which no copy of the memory may have.
extern bool is_seeded;

static inline const struct type *type_at(uint32_t number) { return (const void *)&words[words[words[AT_TYPES] + number]]; }
static inline const char *text_at(uint32_t place) { return (const char *)words + place; }
static inline const struct member *members_of(const struct type *type) { return (const void *)&type->rest[1]; }
static inline const struct member *cases_of(const struct type *type) { return (const void *)&type->rest[3]; }

// memory.c: what is kept until it is no longer needed; handles of resources.
enum kept_kind { MEMORY, C_STRING, VALUE };
extern uint32_t kept_count;
void keep(enum kept_kind kind, void *pointer, JSValue value);
void *allocated(size_t size);
/// Lets go of all that was kept since there were `count`.
void let_go(uint32_t count);
void make_handles(void);
/// Whose method makes the handles from here on; anything else than a handle: nobody's.
void made_by(JSValueConst value);
JSValue handle_of(uint32_t number, uint32_t resource, bool is_owned);
int lowered_handle(JSValueConst value, const struct type *type, uint32_t *into);
JSValue dispose(JSContext *ctx, JSValueConst self, int count, JSValueConst *values);
/// Gives back what was lent for the call of an export.
void give_back(void);

// lift.c: values of the host to JavaScript, from memory or from flat slots. What the host has put in memory is freed.
int typed_array(uint32_t kind);
JSValue tagged(const char *tag, JSValue value, bool has_value);
JSValue load(uint32_t number, const uint8_t *from);
JSValue lift(uint32_t number, const uint64_t **from);

// lower.c: the other way. What memory it takes is kept. -1: an exception.
int lowered_text(JSValueConst value, uint32_t *pointer, uint32_t *length);
int store(uint32_t number, JSValueConst value, uint8_t *into);
int lower(uint32_t number, JSValueConst value, uint64_t **into);

// host.c: the interfaces that the world imports, as modules.
void make_classes(void);
JSModuleDef *host_module(JSContext *ctx, const char *name, void *opaque);

// platform.c: what JavaScript finds of the web.
void make_platform(void);
