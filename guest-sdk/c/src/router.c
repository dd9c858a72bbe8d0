/* Routes. A handler that has none links none of it. */
#include "modelhost_router.h"

#include <string.h>

#include "internal.h"

mh_str mh_path_parameter(const mh_context *context, const char *name) {
    for (size_t at = 0; at < context->path_parameters.len; at++) {
        if (mh_equal(context->path_parameters.items[at].name, mh_text(name))) return context->path_parameters.items[at].value;
    }
    return mh_text("");
}

/* Takes the first segment of `/a/b`, and says whether anything follows it. */
static bool next(mh_str *path, mh_str *segment) {
    if (path->len > 0 && path->data[0] == '/') *path = (mh_str){path->data + 1, path->len - 1};
    const char *end = path->len > 0 ? memchr(path->data, '/', path->len) : NULL;
    *segment = (mh_str){path->data, end == NULL ? path->len : (size_t)(end - path->data)};
    *path = (mh_str){path->data + segment->len, path->len - segment->len};
    return end != NULL;
}

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 'a' ^ 'A';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes what percent signs stand for; false if that is no text. */
static bool decoded(mh_str text, mh_str *made) {
    char *data = mh_alloc(text.len);
    size_t len = 0;
    for (size_t at = 0; at < text.len; at++) {
        const char *here = text.data + at;
        bool is_code = *here == '%' && text.len - at > 2 && digit(here[1]) >= 0 && digit(here[2]) >= 0;
        data[len++] = is_code ? (char)(digit(here[1]) * 16 + digit(here[2])) : *here;
        if (is_code) at += 2;
    }
    *made = (mh_str){data, len};
    return mh_is_text(*made);
}

/* Whether a path fits a pattern, and the parameters, for which there is room. */
static bool fits(mh_str pattern, mh_str path, mh_headers *found) {
    found->len = 0;
    for (;;) {
        mh_str own, segment;
        bool has_more = next(&pattern, &own);
        if (own.len >= 2 && own.data[0] == '{' && own.data[own.len - 1] == '}') {
            mh_header *parameter = &found->items[found->len++];
            parameter->name = (mh_str){own.data + 1, own.len - 2};
            if (parameter->name.len > 0 && parameter->name.data[0] == '*') {
                parameter->name = (mh_str){own.data + 2, own.len - 3};
                bool is_below = path.len > 0 && path.data[0] == '/';
                return decoded((mh_str){path.data + is_below, path.len - is_below}, &parameter->value);
            }
            if (next(&path, &segment) != has_more || segment.len == 0 || !decoded(segment, &parameter->value)) return false;
        } else if (next(&path, &segment) != has_more || !mh_equal(own, segment)) {
            return false;
        }
        if (!has_more) return true;
    }
}

static size_t most_parameters(mh_str pattern) {
    size_t most = 0;
    for (size_t at = 0; at < pattern.len; at++) most += pattern.data[at] == '{';
    return most;
}

static mh_response nothing_there(const mh_context *context) {
    return mh_refusal(context, 404, mh_text("there is nothing at this path"), "not_found");
}

/* The context with the parameters of a path, if it fits the pattern. */
static bool routed(const char *path, const mh_context *context, mh_str asked, mh_context *made) {
    mh_str pattern = mh_text(path);
    *made = *context;
    made->path_parameters.items = mh_alloc(most_parameters(pattern) * sizeof *made->path_parameters.items);
    return fits(pattern, asked, &made->path_parameters);
}

/* `GET, POST, HEAD`: each method once. */
static mh_str allowed(const mh_route *const *others, size_t count) {
    const char *list = "";
    bool has_get = false, has_head = false;
    for (size_t at = 0; at < count; at++) {
        const char *method = others[at]->method;
        bool is_known = false;
        for (size_t before = 0; before < at; before++) is_known = is_known || strcmp(others[before]->method, method) == 0;
        if (is_known) continue;
        has_get = has_get || strcmp(method, "GET") == 0;
        has_head = has_head || strcmp(method, "HEAD") == 0;
        list = mh_format("%s%s%s", list, *list == 0 ? "" : ", ", method).data;
    }
    return mh_format("%s%s", list, has_get && !has_head ? ", HEAD" : "");
}

/* Calls the function of a route; one of batches with this request alone. */
static const mh_error *served(const mh_route *route, const mh_sample *sample, const mh_context *context,
                              mh_output *output, mh_response *response) {
    if (route->together == NULL) return route->function(sample, context, output, response);
    mh_member only = {.sample = *sample, .context = context, .response = mh_unanswered()};
    const mh_error *error = route->together(&only, 1);
    *response = only.response;
    return error != NULL ? error : mh_member_error(only.error, &only.response);
}

const mh_error *mh_route_request(const mh_route *routes, size_t count, const mh_sample *sample, const mh_context *context,
    mh_output *output, mh_response *response) {
    mh_str method = mh_method(context), path = mh_path(context);
    const mh_route **others = mh_alloc(count * sizeof *others);
    size_t others_count = 0;
    for (const mh_route *route = routes; route < routes + count; route++) {
        mh_str own = mh_text(route->method);
        mh_context own_context;
        if (!routed(route->path, context, path, &own_context)) continue;
        bool is_head_of_get = mh_equal(method, mh_text("HEAD")) && mh_equal(own, mh_text("GET"));
        if (mh_equal(own, method) || is_head_of_get) {
            return served(route, sample, &own_context, output, response);
        }
        others[others_count++] = route;
    }
    if (others_count == 0) {
        *response = nothing_there(context);
        return NULL;
    }
    mh_str text = mh_text("the path is there for other methods");
    *response = mh_refusal(context, 405, text, "method_not_allowed");
    mh_header *allow = mh_alloc(sizeof *allow);
    *allow = (mh_header){mh_text("allow"), allowed(others, others_count)};
    response->headers = (mh_headers){allow, 1};
    return NULL;
}

const mh_error *mh_route_batch(const mh_route *routes, size_t count, mh_member *members,
                               size_t members_count) {
    mh_str path = members_count == 0 ? mh_text("") : mh_path(members->context);
    for (const mh_route *route = routes; route < routes + count; route++) {
        bool is_meant = route->together != NULL && mh_equal(mh_text(route->path), path);
        if (is_meant) return route->together(members, members_count);
    }
    return mh_internal("no function serves requests to this path together");
}

const mh_error *mh_route_socket(
    const mh_socket_route *routes, size_t count, mh_upgrade *upgrade, const mh_context *context) {
    mh_str path = mh_path(context);
    for (const mh_socket_route *route = routes; route < routes + count; route++) {
        mh_context own_context;
        if (routed(route->path, context, path, &own_context)) return route->function(upgrade, &own_context);
    }
    return mh_upgrade_refuse(upgrade, nothing_there(context));
}

/* The contract's `operation`. */
typedef struct {
    mh_str method, path, summary, consumes;
    mh_optional_text input;
    mh_str produces;
    mh_optional_text output;
} operation;

#ifdef __wasm__
_Static_assert(sizeof(operation) == 64 && offsetof(operation, produces) == 44, "`operation`");
#endif

static mh_str said(const char *text) { return mh_text(text != NULL ? text : ""); }

static mh_optional_text schema(const char *text) { return (mh_optional_text){text != NULL, said(text)}; }

static mh_str consumed(const mh_route *route) {
    if (route->consumes != NULL) return mh_text(route->consumes);
    return mh_text(strcmp(route->method, "GET") == 0 ? "" : "application/json");
}

void *mh_tell_routes(const mh_route *routes, size_t count) {
    static struct {
        operation *items;
        size_t len;
    } told;
    told.items = mh_alloc(count * sizeof *told.items);
    told.len = count;
    for (size_t at = 0; at < count; at++) {
        const mh_route *route = &routes[at];
        told.items[at] = (operation){
            .method = mh_text(route->method),
            .path = mh_text(route->path),
            .summary = said(route->summary),
            .consumes = consumed(route),
            .input = schema(route->input),
            .produces = said(route->produces),
            .output = schema(route->output),
        };
    }
    return &told;
}

void *mh_tell_batches(const mh_route *routes, size_t count) {
    const char **paths = mh_alloc(count * sizeof *paths);
    size_t found = 0;
    for (const mh_route *route = routes; route < routes + count; route++) {
        if (route->together != NULL) paths[found++] = route->path;
    }
    return mh_tell_paths(paths, found);
}
