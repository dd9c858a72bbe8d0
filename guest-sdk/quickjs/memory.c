// What is kept until it is no longer needed, and handles of the host's resources.
//
// Invariants: nothing of JavaScript runs in `cabi_realloc`, where a component may not call out; a handle that a method made is
// dropped before the one whose method it was, in whatever order their objects end, as the host asks for.

#include "engine.h"

static struct { enum kept_kind kind; void *pointer; JSValue value; } *kept;
uint32_t kept_count;
static uint32_t kept_room;

void keep(enum kept_kind kind, void *pointer, JSValue value) {
    if (kept_count == kept_room) {
        kept_room = kept_room ? 2 * kept_room : 64;
        kept = realloc(kept, kept_room * sizeof *kept);
        if (!kept) abort();
    }
    kept[kept_count].kind = kind;
    kept[kept_count].pointer = pointer;
    kept[kept_count++].value = value;
}

void *allocated(size_t size) {
    void *pointer = malloc(size ? size : 1);
    if (!pointer) abort();
    keep(MEMORY, pointer, JS_UNDEFINED);
    return pointer;
}

void let_go(uint32_t count) {
    while (kept_count > count) {
        kept_count--;
        if (kept[kept_count].kind == MEMORY) free(kept[kept_count].pointer);
        else if (kept[kept_count].kind == C_STRING) JS_FreeCString(context, kept[kept_count].pointer);
        else JS_FreeValue(context, kept[kept_count].value);
    }
}

EXPORT("cabi_realloc") void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size;
    if (!size) return (void *)align;
    void *pointer = realloc(old, size);
    if (!pointer) abort();
    return pointer;
}


static JSClassID handle_class;

/// `made`: how many handles there are that methods of this one made. `maker`: the one whose method made this one.
struct handle { uint32_t handle, resource, made; bool is_owned, has_object; struct handle *maker; };

static void drop(struct handle *it) {
    if (!it->handle) return;
    uint64_t slots[1] = {it->handle};
    it->handle = 0;
    linked_call(resources[it->resource].drop, slots);
}

/// Drops what has no object and made nothing that is left; then its maker, if it was the last.
static void end(struct handle *it) {
    while (it && !it->has_object && !it->made) {
        struct handle *maker = it->maker;
        if (it->is_owned) drop(it);
        if (maker) maker->made--;
        free(it);
        it = maker;
    }
}

static void finalize(JSRuntime *rt, JSValueConst value) {
    (void)rt;
    struct handle *it = JS_GetOpaque(value, handle_class);
    if (!it) return;
    it->has_object = false;
    end(it);
}

static struct handle *maker_now;

void made_by(JSValueConst value) { maker_now = JS_GetOpaque(value, handle_class); }

/// The handles that were lent for the call of an export.
static JSValue *lent;
static uint32_t lent_count, lent_room;

JSValue handle_of(uint32_t number, uint32_t resource, bool is_owned) {
    struct handle *it = malloc(sizeof *it);
    if (!it) abort();
    *it = (struct handle){.handle = number, .resource = resource, .is_owned = is_owned, .has_object = true};
    // What a method makes of its own kind, such as a part of a tensor, stands by itself.
    if (is_owned && maker_now && maker_now->resource != resource) {
        it->maker = maker_now;
        maker_now->made++;
    }
    JSValue value = JS_NewObjectProtoClass(context, prototypes[resource], handle_class);
    JS_SetOpaque(value, it);
    if (!is_owned) {
        if (lent_count == lent_room) {
            lent_room = lent_room ? 2 * lent_room : 16;
            lent = realloc(lent, lent_room * sizeof *lent);
            if (!lent) abort();
        }
        lent[lent_count++] = JS_DupValue(context, value);
    }
    return value;
}

void give_back(void) {
    while (lent_count) {
        JSValue value = lent[--lent_count];
        drop(JS_GetOpaque(value, handle_class));
        JS_FreeValue(context, value);
    }
}

int lowered_handle(JSValueConst value, const struct type *type, uint32_t *into) {
    struct handle *it = JS_GetOpaque(value, handle_class);
    const char *name = text_at(resources[type->rest[0]].name);
    if (!it || it->resource != type->rest[0]) return JS_ThrowTypeError(context, "not a %s", name), -1;
    if (!it->handle) return JS_ThrowTypeError(context, "the %s was given up", name), -1;
    if (type->kind == OWN && !it->is_owned) return JS_ThrowTypeError(context, "the %s is only lent", name), -1;
    *into = it->handle;
    if (type->kind == OWN) it->handle = 0;
    return 0;
}

JSValue dispose(JSContext *ctx, JSValueConst this, int count, JSValueConst *values) {
    (void)ctx, (void)count, (void)values;
    struct handle *it = JS_GetOpaque(this, handle_class);
    if (!it || !it->is_owned) return JS_UNDEFINED;
    drop(it);
    struct handle *maker = it->maker;
    it->maker = NULL;
    if (maker) maker->made--;
    end(maker);
    return JS_UNDEFINED;
}

void make_handles(void) {
    JS_NewClassID(runtime, &handle_class);
    JS_NewClass(runtime, handle_class, &(JSClassDef){.class_name = "Handle", .finalizer = finalize});
}
