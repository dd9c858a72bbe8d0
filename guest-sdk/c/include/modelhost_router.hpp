/* Routes of an application in C++: modelhost_router.h with types.
 *
 *     constexpr mh::route routes[] = {
 *         mh::get<item>("/items/{id}"),
 *         mh::post<add>("/items", {.summary = "Adds one"}),
 *     };
 *     MODELHOST_ROUTES(routes)
 *
 * A function takes (sample, context) and returns a response, or takes (sample, context, output) and returns
 * one or none, as that of MODELHOST_RESPOND does. mh::batch<predict>("/predict") serves requests together,
 * with MODELHOST_BATCH_ROUTES(routes) beside; mh::websocket<echo>("/echo") is one of a table of its own:
 *
 *     constexpr mh::socket_route sockets[] = {mh::websocket<echo>("/echo")};
 *     MODELHOST_SOCKET_ROUTES(sockets)
 */
#ifndef MODELHOST_ROUTER_HPP
#define MODELHOST_ROUTER_HPP

#include <modelhost_app.hpp>
#include <modelhost_batch.hpp>
#include <modelhost_router.h>
#include <modelhost_socket.hpp>

namespace mh {

using route = mh_route;

/* What callers are told of a route. Texts have to stay, as literals do. */
struct told {
    const char *summary = nullptr;
    /* The media type of the body, "" if there is none; without, JSON, and none of a `GET`. */
    const char *consumes = nullptr;
    /* JSON Schema of the body. */
    const char *input = nullptr;
    const char *produces = nullptr;
    /* JSON Schema of the response. */
    const char *output = nullptr;
};

template <auto function>
const mh_error *route_of(const mh_sample *given, const mh_context *request, mh_output *raw, mh_response *answer) {
    if constexpr (std::is_invocable_v<decltype(function), const sample &, const context &, output &>) {
        return respond_of<function>(given, request, raw, answer);
    } else {
        result<response> made = function(sample(*given), context(request));
        if (!made) return made.error().made;
        *answer = *made;
        return nullptr;
    }
}

template <auto function>
constexpr route on(const char *method, const char *path, told what = {}) {
    return {method,     path,          route_of<function>, what.summary, what.consumes,
            what.input, what.produces, what.output,        nullptr};
}
/* Serves `GET` and `HEAD`. */
template <auto function>
constexpr route get(const char *path, told what = {}) { return on<function>("GET", path, what); }
template <auto function>
constexpr route post(const char *path, told what = {}) { return on<function>("POST", path, what); }
template <auto function>
constexpr route put(const char *path, told what = {}) { return on<function>("PUT", path, what); }
template <auto function>
constexpr route del(const char *path, told what = {}) { return on<function>("DELETE", path, what); }

/* Serves what is posted to a path together. The path has no parameters. */
template <auto function>
constexpr route batch(const char *path, told what = {}) {
    return {"POST",     path,          nullptr,     what.summary,      what.consumes,
            what.input, what.produces, what.output, batch_of<function>};
}

using socket_route = mh_socket_route;

/* Talks with clients at a path. */
template <auto function>
constexpr socket_route websocket(const char *path) { return {path, websocket_of<function>}; }

}  // namespace mh

#define MODELHOST_ROUTES(routes) MH_ROUTES(routes)
#define MODELHOST_BATCH_ROUTES(routes) MH_BATCH_ROUTES(routes)
#define MODELHOST_SOCKET_ROUTES(routes) MH_SOCKET_ROUTES(routes)

#endif
