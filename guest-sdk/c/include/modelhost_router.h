/* Routes of an application in C: methods and paths to functions, which the host's /openapi.json has too.
 *
 *     static const mh_route routes[] = {
 *         MH_GET("/items/{id}", item, .summary = "One item"),
 *         MH_POST("/items", add, .input = "{\"type\": \"object\"}"),
 *     };
 *     MH_ROUTES(routes)
 *
 * Routes of WebSockets are a table of their own, MH_SOCKET_ROUTES; a route that serves requests together,
 * MH_BATCH, is one of the others, and served so by MH_BATCH_ROUTES(routes) beside MH_ROUTES.
 */
#ifndef MODELHOST_ROUTER_H
#define MODELHOST_ROUTER_H

#include <modelhost_app.h>
#include <modelhost_batch.h>
#include <modelhost_socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What serves requests of a method to a path. All texts have to stay, as literals do. */
typedef struct {
    /* In capitals. `GET` serves `HEAD` too. */
    const char *method;
    /* `/items/{id}` has a parameter, which is one segment; `/files/{*path}` has one that is all the rest. A
     * function asks for them by mh_path_parameter(). */
    const char *path;
    mh_respond_function *function;
    /* What callers are told, all of it optional. */
    const char *summary;
    /* The media type of the body, "" if there is none; NULL for JSON, or none of a `GET`. */
    const char *consumes;
    /* JSON Schema of the body, as text. */
    const char *input;
    /* The media type of the response; a stream of events is `text/event-stream`. */
    const char *produces;
    /* JSON Schema of the response, as text. */
    const char *output;
    /* In place of `function`: serves several requests by one call, and each alone without MH_BATCH_ROUTES. */
    mh_batch_function *together;
} mh_route;

/* Routes, each of a path, a function, and what callers are told of it. */
#define MH_ROUTE(name, pattern, ...) {.method = name, .path = pattern, .function = __VA_ARGS__}
#define MH_GET(pattern, ...) MH_ROUTE("GET", pattern, __VA_ARGS__)
#define MH_POST(pattern, ...) MH_ROUTE("POST", pattern, __VA_ARGS__)
#define MH_PUT(pattern, ...) MH_ROUTE("PUT", pattern, __VA_ARGS__)
#define MH_DELETE(pattern, ...) MH_ROUTE("DELETE", pattern, __VA_ARGS__)
/* Requests that are served together. The path has no parameters. */
#define MH_BATCH(pattern, ...) {.method = "POST", .path = pattern, .together = __VA_ARGS__}

/* Leads a request to the first route that fits it. Without one the response is 404, or 405 with `allow` if
 * the path is there for other methods. What MH_ROUTES does, for applications that have a function of their
 * own before it. */
const mh_error *mh_route_request(const mh_route *routes, size_t count, const mh_sample *sample, const mh_context *context,
    mh_output *output, mh_response *response);

void *mh_tell_routes(const mh_route *routes, size_t count);

/* Makes an array of mh_route the application: instead of MH_RESPOND. */
#define MH_ROUTES(routes)                                                                                   \
    static const mh_error *mh_by_routes(const mh_sample *sample, const mh_context *context,                 \
        mh_output *output, mh_response *response) {                                                         \
        size_t count = sizeof(routes) / sizeof(routes[0]);                                                  \
        return mh_route_request(routes, count, sample, context, output, response);                          \
    }                                                                                                       \
    MH_RESPOND(mh_by_routes)                                                                                \
    MH_OPERATIONS(routes)

/* Tells of the routes alone, beside a MH_RESPOND that calls mh_route_request(). */
#define MH_OPERATIONS(routes)                                                                               \
    MH_C MH_EXPORT(MH_PREFIX "operations@0.1.0#operations") void *mh_operations(void);                      \
    void *mh_operations(void) { return mh_tell_routes(routes, sizeof(routes) / sizeof(routes[0])); }        \
    MH_POST_RETURN(mh_operations, "operations@0.1.0#operations")

/* --- Requests that are served together ------------------------------------------------------------------ */

/* Leads the requests of a batch to the route of their path. */
const mh_error *mh_route_batch(const mh_route *routes, size_t count, mh_member *members,
                               size_t members_count);
void *mh_tell_batches(const mh_route *routes, size_t count);

/* Has the host serve together what comes to the routes of MH_BATCH: beside MH_ROUTES. */
#define MH_BATCH_ROUTES(routes)                                                                             \
    static const mh_error *mh_by_batch_routes(mh_member *members, size_t members_count) {                   \
        return mh_route_batch(routes, sizeof(routes) / sizeof(routes[0]), members, members_count);          \
    }                                                                                                       \
    MH_BATCH_EXPORTS(mh_by_batch_routes, mh_tell_batches(routes, sizeof(routes) / sizeof(routes[0])))

/* --- WebSockets ----------------------------------------------------------------------------------------- */

/* What talks with clients at a path. */
typedef struct {
    /* As that of a mh_route. */
    const char *path;
    mh_websocket_function *function;
} mh_socket_route;

#define MH_SOCKET(pattern, function) {pattern, function}

/* Leads a handshake to the first route that fits it. Without one it is answered with 404. */
const mh_error *mh_route_socket(
    const mh_socket_route *routes, size_t count, mh_upgrade *upgrade, const mh_context *context);

/* Makes an array of mh_socket_route serve WebSockets: in place of MH_WEBSOCKET. */
#define MH_SOCKET_ROUTES(routes)                                                                            \
    static const mh_error *mh_by_socket_routes(mh_upgrade *upgrade, const mh_context *context) {            \
        return mh_route_socket(routes, sizeof(routes) / sizeof(routes[0]), upgrade, context);               \
    }                                                                                                       \
    MH_WEBSOCKET(mh_by_socket_routes)

#ifdef __cplusplus
}
#endif

#endif
