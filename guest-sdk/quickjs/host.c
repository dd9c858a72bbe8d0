// The interfaces that the world imports: a module each, with functions, and classes for resources.

#include "engine.h"

/// A value as the error of a call: `payload` has it.
static JSValue thrown(JSValue payload) {
    JSValue error = JS_Call(context, host_error, JS_UNDEFINED, 1, &payload);
    JS_FreeValue(context, payload);
    return JS_IsException(error) ? error : JS_Throw(context, error);
}

/// The result of a call, which is in memory or flat: the value, or an exception.
static JSValue returned(uint32_t number, const uint8_t *memory, const uint64_t *flat) {
    if (number == NONE) return JS_UNDEFINED;
    const struct type *type = type_at(number);
    if (type->kind != RESULT) return memory ? load(number, memory) : lift(number, &flat);
    bool is_error = memory ? *memory : *flat++;
    uint32_t inner = cases_of(type)[is_error].type;
    JSValue value = inner == NONE ? JS_UNDEFINED : memory ? load(inner, memory + type->rest[2]) : lift(inner, &flat);
    return is_error ? thrown(value) : value;
}

static JSValue call_host(JSContext *ctx, JSValueConst this, int count, JSValueConst *values, int number, JSValueConst *data) {
    (void)ctx, (void)data;
    const struct function *function = &imports[number];
    const struct type *parameters = type_at(function->parameters);
    const struct member *members = members_of(parameters);
    uint32_t mark = kept_count;
    uint64_t slots[MOST_FLAT + 1], *next = slots;
    uint8_t *indirect = function->is_indirect ? allocated(parameters->size) : NULL;
    int failed = 0;
    int before = function->kind == METHOD;
    for (uint32_t at = 0; at < parameters->rest[0] && !failed; at++) {
        int given = (int)at - before;
        JSValueConst value = given < 0 ? this : given < count ? values[given] : JS_UNDEFINED;
        failed = indirect ? store(members[at].type, value, indirect + members[at].offset) : lower(members[at].type, value, &next);
    }
    JSValue value = JS_EXCEPTION;
    if (!failed) {
        if (indirect) *next++ = (uint32_t)indirect;
        uint8_t *result = function->result_mode == IN_MEMORY ? allocated(type_at(function->result)->size) : NULL;
        if (result) *next++ = (uint32_t)result;
        linked_call(number, slots);
        if (before) made_by(this);
        value = returned(function->result, result, slots);
        made_by(JS_UNDEFINED);
    }
    let_go(mark);
    return value;
}


static int fill_module(JSContext *ctx, JSModuleDef *module) {
    JSAtom atom = JS_GetModuleName(ctx, module);
    const char *name = JS_AtomToCString(ctx, atom);
    JS_FreeAtom(ctx, atom);
    JSValue all = JS_NewObject(ctx);
    for (uint32_t at = 0; at < words[IMPORTS]; at++) {
        if (imports[at].kind != FREE || strcmp(text_at(imports[at].interface), name)) continue;
        const char *own = text_at(imports[at].name);
        JSValue function = JS_NewCFunctionData2(ctx, call_host, own, 0, at, 0, NULL);
        JS_SetPropertyStr(ctx, all, own, JS_DupValue(ctx, function));
        JS_SetModuleExport(ctx, module, own, function);
    }
    for (uint32_t at = 0; at < words[RESOURCES]; at++) {
        if (strcmp(text_at(resources[at].interface), name)) continue;
        JS_SetPropertyStr(ctx, all, text_at(resources[at].name), JS_DupValue(ctx, classes[at]));
        JS_SetModuleExport(ctx, module, text_at(resources[at].name), JS_DupValue(ctx, classes[at]));
    }
    JS_SetModuleExport(ctx, module, "default", all);
    JS_FreeCString(ctx, name);
    return 0;
}

JSModuleDef *host_module(JSContext *ctx, const char *name, void *opaque) {
    (void)opaque;
    JSModuleDef *module = NULL;
    for (uint32_t at = 0; at < words[IMPORTS]; at++) {
        if (strcmp(text_at(imports[at].interface), name)) continue;
        if (!module) {
            module = JS_NewCModule(ctx, name, fill_module);
            JS_AddModuleExport(ctx, module, "default");
            for (uint32_t of = 0; of < words[RESOURCES]; of++) {
                if (!strcmp(text_at(resources[of].interface), name)) JS_AddModuleExport(ctx, module, text_at(resources[of].name));
            }
        }
        if (imports[at].kind == FREE) JS_AddModuleExport(ctx, module, text_at(imports[at].name));
    }
    if (!module) JS_ThrowReferenceError(ctx, "wit/world.wit does not import `%s`", name);
    return module;
}

static JSValue construct(JSContext *ctx, JSValueConst this, int count, JSValueConst *values, int number, JSValueConst *data) {
    if (number >= 0) return call_host(ctx, this, count, values, number, data);
    return JS_ThrowTypeError(ctx, "it has no constructor");
}

void make_classes(void) {
    JSValue global = JS_GetGlobalObject(context), symbol = JS_GetPropertyStr(context, global, "Symbol");
    JSValue disposing = JS_GetPropertyStr(context, symbol, "dispose");
    JSAtom atom = JS_ValueToAtom(context, disposing);
    for (uint32_t at = 0; at < words[RESOURCES]; at++) {
        JSValue prototype = JS_NewObject(context), class = JS_UNDEFINED;
        int constructor = -1;
        for (uint32_t of = 0; of < words[IMPORTS]; of++) {
            if (imports[of].kind == CONSTRUCTOR && imports[of].resource == at) constructor = of;
        }
        class = JS_NewCFunctionData2(context, construct, text_at(resources[at].name), 0, constructor, 0, NULL);
        JS_SetConstructorBit(context, class, true);
        JS_SetConstructor(context, class, prototype);
        for (uint32_t of = 0; of < words[IMPORTS]; of++) {
            if ((imports[of].kind != METHOD && imports[of].kind != STATIC) || imports[of].resource != at) continue;
            const char *own = text_at(imports[of].name);
            JSValue function = JS_NewCFunctionData2(context, call_host, own, 0, of, 0, NULL);
            JS_DefinePropertyValueStr(context, imports[of].kind == METHOD ? prototype : class, own, function,
                JS_PROP_CONFIGURABLE | JS_PROP_WRITABLE);
        }
        JS_DefinePropertyValue(context, prototype, atom, JS_NewCFunction(context, dispose, "dispose", 0),
            JS_PROP_CONFIGURABLE | JS_PROP_WRITABLE);
        prototypes[at] = prototype;
        classes[at] = class;
    }
    JS_FreeAtom(context, atom);
    JS_FreeValue(context, disposing);
    JS_FreeValue(context, symbol);
    JS_FreeValue(context, global);
}
