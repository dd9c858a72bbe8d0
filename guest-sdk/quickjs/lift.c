// Values of the host to JavaScript, as components for JavaScript have them: whole numbers of 64 bits are bigints, lists of numbers
// typed arrays, which take over the host's bytes, names are in camel case, none is undefined.
//
// Place in the flow: arguments of exports, results of imports. In: a type's number, and memory or flat slots.

#include "engine.h"

/// The kind of typed array that a list of these is.
int typed_array(uint32_t kind) {
    switch (kind) {
        case S8: return JS_TYPED_ARRAY_INT8;
        case U8: return JS_TYPED_ARRAY_UINT8;
        case S16: return JS_TYPED_ARRAY_INT16;
        case U16: return JS_TYPED_ARRAY_UINT16;
        case S32: return JS_TYPED_ARRAY_INT32;
        case U32: return JS_TYPED_ARRAY_UINT32;
        case S64: return JS_TYPED_ARRAY_BIG_INT64;
        case U64: return JS_TYPED_ARRAY_BIG_UINT64;
        case F32: return JS_TYPED_ARRAY_FLOAT32;
        case F64: return JS_TYPED_ARRAY_FLOAT64;
        default: return -1;
    }
}

static void *free_buffer(JSRuntime *rt, void *opaque, void *pointer, size_t size) {
    (void)rt, (void)opaque;
    if (size) return realloc(pointer, size);
    free(pointer);
    return NULL;
}

static JSValue text_of(const char *text, uint32_t length) {
    JSValue value = JS_NewStringLen(context, text, length);
    if (length) free((void *)text);
    return value;
}

static JSValue list_of(const struct type *element, uint32_t number, uint8_t *items, uint32_t count) {
    int kind = typed_array(element->kind);
    if (kind >= 0) {
        uint8_t *own = count ? items : NULL;
        JSValue buffer = own ? JS_NewArrayBuffer(context, own, count * element->size, 0, free_buffer, NULL, false)
                             : JS_NewArrayBufferCopy(context, (const uint8_t *)"", 0);
        JSValue array = JS_NewTypedArray(context, 1, &buffer, kind);
        JS_FreeValue(context, buffer);
        return array;
    }
    JSValue array = JS_NewArray(context);
    for (uint32_t at = 0; at < count; at++) {
        JS_DefinePropertyValueUint32(context, array, at, load(number, items + at * element->size), JS_PROP_C_W_E);
    }
    if (count) free(items);
    return array;
}

JSValue tagged(const char *tag, JSValue value, bool has_value) {
    JSValue object = JS_NewObject(context);
    JS_DefinePropertyValueStr(context, object, "tag", JS_NewString(context, tag), JS_PROP_C_W_E);
    if (has_value) JS_DefinePropertyValueStr(context, object, "val", value, JS_PROP_C_W_E);
    return object;
}

static JSValue flags_of(const struct type *type, uint32_t bits) {
    JSValue object = JS_NewObject(context);
    for (uint32_t at = 0; at < type->rest[0]; at++) {
        JS_DefinePropertyValueStr(context, object, text_at(type->rest[1 + at]), JS_NewBool(context, bits >> at & 1), JS_PROP_C_W_E);
    }
    return object;
}

static JSValue char_of(uint32_t c) {
    char text[4];
    int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (length == 1) text[0] = c;
    else {
        for (int at = length - 1; at > 0; at--, c >>= 6) text[at] = 0x80 | (c & 0x3f);
        text[0] = (0xf00 >> length & 0xff) | c;
    }
    return JS_NewStringLen(context, text, length);
}

/// What a case of a variant is in JavaScript; its value is read by `read` from `from`.
#define CASE(type, which, read)                                                                                            \
    ({                                                                                                                     \
        const struct member *of = cases_of(type);                                                                          \
        uint32_t inner = of[which].type;                                                                                   \
        JSValue value = inner == NONE ? JS_UNDEFINED : (read);                                                             \
        (type)->kind == OPTION ? value                                                                                     \
        : (type)->kind == ENUM ? JS_NewString(context, text_at(of[which].name))                                            \
                               : tagged(text_at(of[which].name), value, inner != NONE);                                    \
    })

/// Puts the value of member `at` into the object of a record, or the array of a tuple.
static void put(JSValue object, const struct type *type, uint32_t at, JSValue value) {
    if (type->kind == TUPLE) JS_DefinePropertyValueUint32(context, object, at, value, JS_PROP_C_W_E);
    else JS_DefinePropertyValue(context, object, members_of(type)[at].name, value, JS_PROP_C_W_E);
}

JSValue load(uint32_t number, const uint8_t *from) {
    const struct type *type = type_at(number);
    switch (type->kind) {
        case BOOL: return JS_NewBool(context, *from);
        case S8: return JS_NewInt32(context, *(int8_t *)from);
        case U8: return JS_NewInt32(context, *from);
        case S16: return JS_NewInt32(context, *(int16_t *)from);
        case U16: return JS_NewInt32(context, *(uint16_t *)from);
        case S32: return JS_NewInt32(context, *(int32_t *)from);
        case U32: return JS_NewUint32(context, *(uint32_t *)from);
        case S64: return JS_NewBigInt64(context, *(int64_t *)from);
        case U64: return JS_NewBigUint64(context, *(uint64_t *)from);
        case F32: return JS_NewFloat64(context, *(float *)from);
        case F64: return JS_NewFloat64(context, *(double *)from);
        case CHAR: return char_of(*(uint32_t *)from);
        case STRING: return text_of(*(char **)from, ((uint32_t *)from)[1]);
        case LIST: return list_of(type_at(type->rest[0]), type->rest[0], *(uint8_t **)from, ((uint32_t *)from)[1]);
        case RECORD:
        case TUPLE: {
            JSValue object = type->kind == TUPLE ? JS_NewArray(context) : JS_NewObject(context);
            const struct member *members = members_of(type);
            for (uint32_t at = 0; at < type->rest[0]; at++)
                put(object, type, at, load(members[at].type, from + members[at].offset));
            return object;
        }
        case VARIANT:
        case OPTION:
        case RESULT:
        case ENUM: {
            uint32_t width = type->rest[1], which = width == 1 ? *from : width == 2 ? *(uint16_t *)from : *(uint32_t *)from;
            return CASE(type, which, load(inner, from + type->rest[2]));
        }
        case FLAGSET: return flags_of(type, type->size == 1 ? *from : type->size == 2 ? *(uint16_t *)from : *(uint32_t *)from);
        default: return handle_of(*(uint32_t *)from, type->rest[0], type->kind == OWN);
    }
}

JSValue lift(uint32_t number, const uint64_t **from) {
    const struct type *type = type_at(number);
    const uint64_t *slots = *from;
    switch (type->kind) {
        case STRING: *from += 2; return text_of((char *)(uint32_t)slots[0], slots[1]);
        case LIST: *from += 2; return list_of(type_at(type->rest[0]), type->rest[0], (uint8_t *)(uint32_t)slots[0], slots[1]);
        case RECORD:
        case TUPLE: {
            JSValue object = type->kind == TUPLE ? JS_NewArray(context) : JS_NewObject(context);
            const struct member *members = members_of(type);
            for (uint32_t at = 0; at < type->rest[0]; at++)
                put(object, type, at, lift(members[at].type, from));
            return object;
        }
        case VARIANT:
        case OPTION:
        case RESULT:
        case ENUM: {
            const uint64_t *payload = slots + 1;
            *from += type->flat;
            return CASE(type, (uint32_t)slots[0], lift(inner, &payload));
        }
        default: *from += 1; return load(number, (const uint8_t *)slots);
    }
}
