/* Unit tests of routes: requests whose context is the test's. */
#include "modelhost_router.h"

#include <string.h>

#include "../src/internal.h"
#include "check.h"

static const char *asked_method, *asked_path;

mh_str mh_method(const mh_context *context) { return (void)context, mh_text(asked_method); }

mh_str mh_path(const mh_context *context) { return (void)context, mh_text(asked_path); }

static const mh_error *item(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)output;
    mh_str id = mh_path_parameter(context, "id"), tag = mh_path_parameter(context, "tag");
    mh_str rest = mh_path_parameter(context, "path");
    *response = mh_text_response(
        mh_format("item %.*s %.*s %.*s", (int)id.len, id.data, (int)tag.len, tag.data, (int)rest.len, rest.data));
    return NULL;
}

static const mh_error *add(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)context, (void)output, (void)response;
    return mh_invalid("none is added");
}

static const mh_route routes[] = {
    MH_GET("/", item, .summary = "The first one"),
    MH_GET("/items/{id}", item, .produces = "text/plain"),
    MH_POST("/items/{id}", add, .input = "{}"),
    MH_POST("/items/{other}", add, .consumes = "image/png"),
    MH_GET("/items/{id}/tags/{tag}", item, .output = "true"),
    MH_DELETE("/files/{*path}", item),
};
enum { COUNT = sizeof routes / sizeof *routes };
MH_OPERATIONS(routes)

static mh_response answer(const char *method, const char *path, const mh_error **error) {
    mh_context context = {0};
    mh_sample sample = {0};
    mh_response response = {.status = 200};
    asked_method = method;
    asked_path = path;
    *error = mh_route_request(routes, COUNT, &sample, &context, NULL, &response);
    return response;
}

static void requests_are_led_to_their_functions(void) {
    static const struct {
        const char *method, *path;
        uint16_t status;
        const char *body, *allow;
    } cases[] = {
#define NOTHING "{\"error\":\"there is nothing at this path\",\"code\":\"not_found\"}"
#define OTHERS "{\"error\":\"the path is there for other methods\",\"code\":\"method_not_allowed\"}"
        {"GET", "/", 200, "item   ", NULL},
        {"GET", "/items/7", 200, "item 7  ", NULL},
        {"HEAD", "/items/7", 200, "item 7  ", NULL},
        {"GET", "/items/a%20b%2Fc%C3%a4%zz%4", 200, "item a b/c\xc3\xa4%zz%4  ", NULL},
        {"GET", "/items/7/tags/x", 200, "item 7 x ", NULL},
        {"DELETE", "/files/a/b.txt", 200, "item   a/b.txt", NULL},
        {"DELETE", "/files/", 200, "item   ", NULL},
        {"DELETE", "/files", 404, NOTHING, NULL},
        {"GET", "/items/", 404, NOTHING, NULL},
        {"GET", "/items", 404, NOTHING, NULL},
        {"GET", "/items/%ff", 404, NOTHING, NULL},
        {"GET", "/items/7/tags", 404, NOTHING, NULL},
        {"GET", "/items/7/", 404, NOTHING, NULL},
        {"PUT", "/items/7", 405, OTHERS, "GET, POST, HEAD"},
        {"GET", "/files/a", 405, OTHERS, "DELETE"},
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        const mh_error *error;
        mh_response response = answer(cases[at].method, cases[at].path, &error);
        check(error == NULL && response.status == cases[at].status, cases[at].path);
        check(mh_equal(mh_text_of(response.body), mh_text(cases[at].body)), cases[at].path);
        mh_str allow = response.headers.len > 0 ? response.headers.items[0].value : (mh_str){NULL, 0};
        check(cases[at].allow == NULL ? allow.data == NULL : mh_equal(allow, mh_text(cases[at].allow)), cases[at].path);
        mh_call_over();
    }
    const mh_error *error;
    answer("POST", "/items/7", &error);
    check(error != NULL && mh_equal(mh_error_text(error), mh_text("none is added")), "an error is the function's");
}

static void routes_are_told(void) {
    const struct {
        const struct {
            mh_str method, path, summary, consumes;
            mh_optional_text input;
            mh_str produces;
            mh_optional_text output;
        } *items;
        size_t len;
    } *told = mh_operations();
    check(told->len == COUNT && mh_equal(told->items[0].summary, mh_text("The first one")), "all of them");
    check(told->items[0].consumes.len == 0 && !told->items[0].input.has, "no body");
    check(mh_equal(told->items[1].produces, mh_text("text/plain")), "what it produces");
    check(mh_equal(told->items[2].consumes, mh_text("application/json")) && told->items[2].input.has, "a body");
    check(mh_equal(told->items[3].consumes, mh_text("image/png")), "another body");
    check(told->items[4].output.has && !told->items[5].output.has, "a schema");
}

int main(void) {
    requests_are_led_to_their_functions();
    routes_are_told();
    mh_call_over();
    return 0;
}
