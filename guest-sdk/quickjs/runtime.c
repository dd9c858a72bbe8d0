// The runtime of handlers in JavaScript: QuickJS, and the canonical ABI of components by tables.
//
// Place in the flow: one core module for all handlers. `modelhost build` adds to it what is the handler's own: the tables of its world,
// its source, and functions that turn calls of components into calls of `dispatch`.
// In:  `dispatch`, an export's number, its flat arguments in `frame`; three functions that it imports, see `linked_call`.
// Out: what the function returned, in `frame[0]`: flat, or the address of what is in memory. `post_return` frees it.
// Invariants: what the host lends for a call is given back before it ends, and no timer of one runs in another; nothing of JavaScript
// runs in `cabi_realloc` and in `post_return`, where a component may not call out.

#include "engine.h"

#include <time.h>

__attribute__((used, visibility("default"))) uint64_t frame[MOST_FLAT + 1];

const uint32_t *words;
const struct function *imports, *exports;
const struct resource *resources;
JSRuntime *runtime;
JSContext *context;
JSValue *prototypes, *classes;
static JSValue *functions, *receivers;
static bool is_started;
static char *start_error;

/// The same by the SDK, which knows the lines of the project's files, if it is there.
static char *told_by_sdk(JSValueConst error) {
    JSValue global = JS_GetGlobalObject(context);
    JSValue tell = JS_GetPropertyStr(context, global, "modelhost:told");
    JSValue line = JS_IsFunction(context, tell) ? JS_Call(context, tell, JS_UNDEFINED, 1, &error) : JS_UNDEFINED;
    const char *text = JS_IsString(line) ? JS_ToCString(context, line) : NULL;
    char *said = text ? strdup(text) : NULL;
    if (text) JS_FreeCString(context, text);
    if (JS_IsException(line)) JS_FreeValue(context, JS_GetException(context));
    JS_FreeValue(context, line);
    JS_FreeValue(context, tell);
    JS_FreeValue(context, global);
    return said;
}

/// What was thrown, for people: on stderr with its stack, and on one line.
static char *told(void) {
    JSValue error = JS_GetException(context);
    char *placed = told_by_sdk(error);
    if (placed) {
        JS_FreeValue(context, error);
        return placed;
    }
    const char *text = JS_ToCString(context, error);
    if (!text) return strdup("an error that has no text");
    JSValue stack = JS_IsError(error) ? JS_GetPropertyStr(context, error, "stack") : JS_UNDEFINED;
    const char *lines = JS_IsString(stack) ? JS_ToCString(context, stack) : NULL;
    fprintf(stderr, "%s\n%s", text, lines ? lines : "");
    char *said = NULL;
    const char *place = lines ? strstr(lines, "handler.js:") : NULL;
    int length = place ? (int)strcspn(place + 11, ":)\n") : 0;
    if (place) asprintf(&said, "%s (.modelhost/handler.js:%.*s)", text, length, place + 11);
    else said = strdup(text);
    if (lines) JS_FreeCString(context, lines);
    JS_FreeCString(context, text);
    JS_FreeValue(context, stack);
    JS_FreeValue(context, error);
    return said;
}

/// Runs what is due until a promise is settled, and gives its value. Takes other values as they are.
static JSValue settled(JSValue value) {
    JSContext *ctx;
    for (;;) {
        int ran;
        while ((ran = JS_ExecutePendingJob(runtime, &ctx)) > 0) {}
        if (ran < 0) JS_FreeValue(ctx, JS_GetException(ctx));
        if (!JS_IsPromise(value)) return value;
        JSPromiseStateEnum state = JS_PromiseState(context, value);
        if (state != JS_PROMISE_PENDING) {
            JSValue result = JS_PromiseResult(context, value);
            JS_FreeValue(context, value);
            return state == JS_PROMISE_FULFILLED ? result : JS_Throw(context, result);
        }
        JSValue due = JS_Call(context, fire_timers, JS_UNDEFINED, 0, NULL);
        double wait = -1;
        if (JS_IsException(due) || JS_ToFloat64(context, &wait, due)) JS_FreeValue(context, JS_GetException(context));
        JS_FreeValue(context, due);
        if (wait < 0) {
            JS_FreeValue(context, value);
            return JS_ThrowTypeError(context, "the function waits for something that never comes");
        }
        if (wait > 0) {
            struct timespec time = {(time_t)(wait / 1e3), (long)((wait - (time_t)(wait / 1e3) * 1e3) * 1e6)};
            nanosleep(&time, NULL);
        }
    }
}

static JSValue exported(JSValueConst namespace, const struct function *function, JSValue *receiver) {
    const char *name = text_at(function->name);
    JSValue found, interface = JS_UNDEFINED;
    if (function->interface == NONE) {
        found = JS_GetPropertyStr(context, namespace, name);
    } else {
        interface = JS_GetPropertyStr(context, namespace, text_at(function->interface));
        if (!JS_IsObject(interface)) {
            return JS_ThrowTypeError(context, "\"handler.js\" does not export a \"%s\" interface as expected by the world",
                text_at(function->interface));
        }
        found = JS_GetPropertyStr(context, interface, name);
    }
    *receiver = interface;
    if (JS_IsFunction(context, found)) return found;
    JS_FreeValue(context, found);
    return JS_ThrowTypeError(context, "\"handler.js\" does not export a function \"%s\" as expected by the world", name);
}

static int evaluate(void) {
    const char *source = text_at(words[AT_SOURCE]);
    JSValue module = JS_Eval(context, source, words[SOURCE], "handler.js", JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(module)) return -1;
    JSModuleDef *definition = JS_VALUE_GET_PTR(module);
    JSValue value = settled(JS_EvalFunction(context, module));
    if (JS_IsException(value)) return -1;
    JS_FreeValue(context, value);
    JSValue namespace = JS_GetModuleNamespace(context, definition);
    for (uint32_t at = 0; at < words[EXPORTS]; at++) {
        bool is_own = exports[at].kind == INIT && words[FLAGS] & OWN_INIT;
        functions[at] = receivers[at] = JS_UNDEFINED;
        if (!is_own) functions[at] = exported(namespace, &exports[at], &receivers[at]);
        if (JS_IsException(functions[at])) return -1;
    }
    JS_FreeValue(context, namespace);
    return 0;
}

static JSValue *values(uint32_t count) {
    JSValue *made = calloc(count + 1, sizeof *made);
    if (!made) abort();
    return made;
}

/// Makes the engine, and runs the source. Once; the text of an error if it failed.
static const char *start(void) {
    if (is_started) return start_error;
    is_started = true;
    uint32_t *tables = malloc(linked_length());
    if (!tables) abort();
    linked_copy(tables);
    words = tables;
    if (words[AT_MAGIC] != MAGIC) return start_error = "the handler was built for another version of the engine";
    imports = (const void *)&words[words[AT_IMPORTS]];
    exports = (const void *)&words[words[AT_EXPORTS]];
    resources = (const void *)&words[words[AT_RESOURCES]];
    prototypes = values(words[RESOURCES]), classes = values(words[RESOURCES]);
    functions = values(words[EXPORTS]), receivers = values(words[EXPORTS]);
    runtime = JS_NewRuntime();
    // The host's stack for machine code ends before that of the module, so it is this that makes an error of deep recursion.
    JS_SetMaxStackSize(runtime, 160 << 10);
    context = JS_NewContext(runtime);
    for (uint32_t number = 0; number < words[TYPES]; number++) {
        struct type *type = (void *)type_at(number);
        struct member *members = (void *)&type->rest[1];
        for (uint32_t at = 0; type->kind == RECORD && at < type->rest[0]; at++) {
            members[at].name = JS_NewAtom(context, text_at(members[at].name));
        }
    }
    make_handles();
    JS_SetModuleLoaderFunc(runtime, NULL, host_module, NULL);
    make_platform();
    make_classes();
    if (evaluate()) start_error = told();
    return start_error;
}


/// The end of an instance, said on stderr.
static _Noreturn void end(const char *text) {
    fprintf(stderr, "%s\n", text);
    abort();
}

static bool is_text_or_none(uint32_t type) { return type == NONE || type_at(type)->kind == STRING; }

/// What a function of the world returned or threw, lowered; -1 if it cannot be.
static int lower_result(const struct function *function, JSValue value) {
    const struct type *type = function->result == NONE ? NULL : type_at(function->result);
    bool is_error = JS_IsException(value);
    uint32_t inner = function->result;
    if (is_error) {
        if (!type || type->kind != RESULT) return -1;
        value = JS_GetException(context);
        JSValue payload = JS_IsObject(value) ? JS_GetPropertyStr(context, value, "payload") : JS_UNDEFINED;
        if (!JS_IsUndefined(payload)) {
            JS_FreeValue(context, value);
            value = payload;
        } else if (JS_IsError(value) && !is_text_or_none(cases_of(type)[1].type)) {
            // Nothing that the world has for it: the host reads it in what the instance printed.
            JS_Throw(context, value);
            return -1;
        }
    }
    uint8_t *result = function->result_mode == IN_MEMORY ? allocated(type->size) : NULL;
    if (result) memset(result, 0, type->size);
    uint8_t *into = result;
    uint64_t *flat = frame;
    if (type && type->kind == RESULT) {
        // Its tag is a byte, and what is flat has nothing else.
        inner = cases_of(type)[is_error].type;
        if (result) {
            *result = is_error;
            into = result + type->rest[2];
        } else {
            *flat++ = is_error;
        }
    }
    int failed = inner != NONE && (result ? store(inner, value, into) : lower(inner, value, &flat));
    if (result) frame[0] = (uint32_t)result;
    JS_FreeValue(context, value);
    return failed;
}

EXPORT("dispatch") void dispatch(uint32_t number) {
    uint64_t given[MOST_FLAT + 1];
    memcpy(given, frame, sizeof given);
    const char *error = start();
    if (!context) end(error);
    JS_UpdateStackTop(runtime);
    const struct function *function = &exports[number];
    bool is_init = function->kind == INIT;
    if (error && !is_init) end(error);
    const struct type *parameters = type_at(function->parameters);
    const struct member *members = members_of(parameters);
    uint32_t count = parameters->rest[0];
    JSValue arguments[count + 1];
    const uint64_t *next = given;
    uint8_t *indirect = function->is_indirect ? (uint8_t *)(uint32_t)given[0] : NULL;
    for (uint32_t at = 0; at < count; at++) {
        arguments[at] = indirect ? load(members[at].type, indirect + members[at].offset) : lift(members[at].type, &next);
    }
    if (indirect) free(indirect);
    JSValue value = error                                           ? JS_Throw(context, JS_NewString(context, error))
                    : is_init && words[FLAGS] & OWN_INIT            ? JS_UNDEFINED
                                                                    : settled(JS_Call(context, functions[number], receivers[number],
                                                                          (int)count, arguments));
    for (uint32_t at = 0; at < count; at++) JS_FreeValue(context, arguments[at]);
    if (lower_result(function, value)) end(told());
    JS_FreeValue(context, JS_Call(context, drop_timers, JS_UNDEFINED, 0, NULL));
    give_back();
    if (is_init) {
        JS_RunGC(runtime);
        is_seeded = false;
    }
}

EXPORT("post_return") void post_return(void) { let_go(0); }
