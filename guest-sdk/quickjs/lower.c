// Values of JavaScript to the host.
//
// Place in the flow: arguments of imports, results of exports. Out: what is in memory is kept until the call is over; typed arrays
// and texts are not copied.

#include "engine.h"

/// A text as UTF-8, kept; halves of surrogate pairs become U+FFFD.
int lowered_text(JSValueConst value, uint32_t *pointer, uint32_t *length) {
    size_t count;
    char *text = (char *)JS_ToCStringLen(context, &count, value);
    if (!text) return -1;
    keep(C_STRING, text, JS_UNDEFINED);
    for (char *at = text, *end = text + count; (at = memchr(at, 0xed, end - at)) && end - at > 2; at++) {
        if ((uint8_t)at[1] >= 0xa0) memcpy(at, "\xef\xbf\xbd", 3);
    }
    *pointer = (uint32_t)text;
    *length = count;
    return 0;
}

static int lowered_list(const struct type *element, uint32_t number, JSValueConst value, uint32_t *pointer, uint32_t *length) {
    int kind = typed_array(element->kind);
    if (kind >= 0) {
        if (JS_GetTypedArrayType(value) == kind) {
            size_t offset, bytes, size, whole;
            JSValue buffer = JS_GetTypedArrayBuffer(context, value, &offset, &bytes, &size);
            if (JS_IsException(buffer)) return -1;
            uint8_t *data = JS_GetArrayBuffer(context, &whole, buffer);
            keep(VALUE, NULL, buffer);
            *pointer = bytes ? (uint32_t)data + offset : element->align;
            *length = bytes / element->size;
            return 0;
        }
        size_t bytes;
        if (kind == JS_TYPED_ARRAY_UINT8 && JS_IsArrayBuffer(value)) {
            *pointer = (uint32_t)JS_GetArrayBuffer(context, &bytes, value);
            *length = bytes;
            keep(VALUE, NULL, JS_DupValue(context, value));
            return 0;
        }
    }
    int64_t count;
    if (!JS_IsObject(value)) return JS_ThrowTypeError(context, "not a list"), -1;
    if (JS_GetLength(context, value, &count)) return -1;
    if (count < 0 || count > UINT32_MAX / 2 / element->size) return JS_ThrowTypeError(context, "the list is too long"), -1;
    uint8_t *items = allocated(count * element->size);
    for (uint32_t at = 0; at < count; at++) {
        JSValue item = JS_GetPropertyUint32(context, value, at);
        int failed = JS_IsException(item) || store(number, item, items + at * element->size);
        JS_FreeValue(context, item);
        if (failed) return -1;
    }
    *pointer = (uint32_t)items;
    *length = count;
    return 0;
}

/// Which case of a variant a value is, and its value, which is the caller's to free.
static int chosen(const struct type *type, JSValueConst value, JSValue *inner) {
    const struct member *cases = cases_of(type);
    *inner = JS_UNDEFINED;
    if (type->kind == OPTION) {
        bool is_none = JS_IsUndefined(value) || JS_IsNull(value);
        if (!is_none) *inner = JS_DupValue(context, value);
        return !is_none;
    }
    JSValue tag = type->kind == ENUM ? JS_DupValue(context, value) : JS_GetPropertyStr(context, value, "tag");
    if (JS_IsException(tag)) return -1;
    const char *name = JS_ToCString(context, tag);
    JS_FreeValue(context, tag);
    if (!name) return -1;
    int found = -1;
    for (uint32_t at = 0; at < type->rest[0] && found < 0; at++) {
        if (!strcmp(name, text_at(cases[at].name))) found = at;
    }
    if (found < 0) JS_ThrowTypeError(context, "`%s` is none of the cases, such as `%s`", name, text_at(cases[0].name));
    JS_FreeCString(context, name);
    if (found >= 0 && cases[found].type != NONE) {
        *inner = JS_GetPropertyStr(context, value, "val");
        if (JS_IsException(*inner)) return -1;
    }
    return found;
}

static int lowered_flags(const struct type *type, JSValueConst value, uint32_t *bits) {
    *bits = 0;
    for (uint32_t at = 0; at < type->rest[0]; at++) {
        JSValue flag = JS_GetPropertyStr(context, value, text_at(type->rest[1 + at]));
        if (JS_IsException(flag)) return -1;
        if (JS_ToBool(context, flag)) *bits |= 1u << at;
        JS_FreeValue(context, flag);
    }
    return 0;
}

static int lowered_char(JSValueConst value, uint32_t *into) {
    JSValue code = JS_UNDEFINED, method = JS_GetPropertyStr(context, value, "codePointAt");
    if (!JS_IsException(method)) code = JS_Call(context, method, value, 0, NULL);
    JS_FreeValue(context, method);
    int failed = JS_ToUint32(context, into, code);
    JS_FreeValue(context, code);
    return failed;
}

static JSValue member_of(const struct type *type, JSValueConst value, const struct member *members, uint32_t at) {
    if (!JS_IsObject(value)) return JS_ThrowTypeError(context, type->kind == TUPLE ? "not an array" : "not an object");
    return type->kind == TUPLE ? JS_GetPropertyUint32(context, value, at)
                               : JS_GetProperty(context, value, members[at].name);
}

int store(uint32_t number, JSValueConst value, uint8_t *into) {
    const struct type *type = type_at(number);
    int32_t whole;
    double real;
    switch (type->kind) {
        case BOOL: *into = JS_ToBool(context, value); return 0;
        case S8: case U8:
            if (JS_ToInt32(context, &whole, value)) return -1;
            *into = whole;
            return 0;
        case S16: case U16:
            if (JS_ToInt32(context, &whole, value)) return -1;
            *(uint16_t *)into = whole;
            return 0;
        case S32: case U32: return JS_ToInt32(context, (int32_t *)into, value);
        case S64: case U64:
            return JS_IsBigInt(value) ? JS_ToBigInt64(context, (int64_t *)into, value) : JS_ToInt64(context, (int64_t *)into, value);
        case F32:
            if (JS_ToFloat64(context, &real, value)) return -1;
            *(float *)into = real;
            return 0;
        case F64: return JS_ToFloat64(context, (double *)into, value);
        case CHAR: return lowered_char(value, (uint32_t *)into);
        case STRING: return lowered_text(value, (uint32_t *)into, (uint32_t *)into + 1);
        case LIST: return lowered_list(type_at(type->rest[0]), type->rest[0], value, (uint32_t *)into, (uint32_t *)into + 1);
        case RECORD:
        case TUPLE: {
            const struct member *members = members_of(type);
            for (uint32_t at = 0; at < type->rest[0]; at++) {
                JSValue member = member_of(type, value, members, at);
                int failed = JS_IsException(member) || store(members[at].type, member, into + members[at].offset);
                JS_FreeValue(context, member);
                if (failed) return -1;
            }
            return 0;
        }
        case VARIANT:
        case OPTION:
        case RESULT:
        case ENUM: {
            JSValue inner;
            int which = chosen(type, value, &inner);
            if (which < 0) return -1;
            memcpy(into, &which, type->rest[1]);
            uint32_t of = cases_of(type)[which].type;
            int failed = of != NONE && store(of, inner, into + type->rest[2]);
            JS_FreeValue(context, inner);
            return failed;
        }
        case FLAGSET: {
            uint32_t bits;
            if (lowered_flags(type, value, &bits)) return -1;
            memcpy(into, &bits, type->size);
            return 0;
        }
        default: return lowered_handle(value, type, (uint32_t *)into);
    }
}

int lower(uint32_t number, JSValueConst value, uint64_t **into) {
    const struct type *type = type_at(number);
    uint64_t *slots = *into;
    switch (type->kind) {
        case STRING:
        case LIST: {
            uint32_t pointer, length;
            int failed = type->kind == STRING ? lowered_text(value, &pointer, &length)
                                              : lowered_list(type_at(type->rest[0]), type->rest[0], value, &pointer, &length);
            if (failed) return -1;
            slots[0] = pointer, slots[1] = length;
            *into += 2;
            return 0;
        }
        case RECORD:
        case TUPLE: {
            const struct member *members = members_of(type);
            for (uint32_t at = 0; at < type->rest[0]; at++) {
                JSValue member = member_of(type, value, members, at);
                int failed = JS_IsException(member) || lower(members[at].type, member, into);
                JS_FreeValue(context, member);
                if (failed) return -1;
            }
            return 0;
        }
        case VARIANT:
        case OPTION:
        case RESULT:
        case ENUM: {
            JSValue inner;
            int which = chosen(type, value, &inner);
            if (which < 0) return -1;
            memset(slots, 0, type->flat * sizeof *slots);
            slots[0] = which;
            uint64_t *payload = slots + 1;
            uint32_t of = cases_of(type)[which].type;
            int failed = of != NONE && lower(of, inner, &payload);
            JS_FreeValue(context, inner);
            *into += type->flat;
            return failed;
        }
        default: {
            // Signed numbers are sign-extended to 32 bits; the rest is what is in memory.
            int32_t whole = 0;
            slots[0] = 0;
            if (type->kind == S8 || type->kind == S16) {
                if (JS_ToInt32(context, &whole, value)) return -1;
                slots[0] = (uint32_t)(type->kind == S8 ? (int8_t)whole : (int16_t)whole);
            } else if (store(number, value, (uint8_t *)slots)) return -1;
            *into += 1;
            return 0;
        }
    }
}
