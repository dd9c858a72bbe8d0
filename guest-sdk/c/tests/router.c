/* Unit tests of routes, and of batches: requests whose context is the test's. */
#include "modelhost_router.h"

#include <string.h>

#include "../src/internal.h"
#include "check.h"

static const char *asked_method, *asked_path;

mh_str mh_method(const mh_context *context) { return (void)context, mh_text(asked_method); }

mh_str mh_path(const mh_context *context) { return (void)context, mh_text(asked_path); }

static int contexts_over;

void mh_context_over(const mh_context *context) { contexts_over += context->handle; }

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

static const mh_error *lengths(mh_member *members, size_t count) {
    for (mh_member *member = members; member < members + count; member++) {
        size_t len = member->sample.body.len;
        if (len == 0) member->error = mh_invalid("no body");
        if (len == 4) continue;
        if (len == 5) member->response.content_type = mh_text("text/plain");
        if (len == 6) member->response = (mh_response){.status = 200};
        if (len == 5 || len == 6) continue;
        member->response = mh_text_response(mh_format("%zu of %zu", len, count));
        if (len == 9) return mh_internal("all of them");
    }
    return NULL;
}

static const mh_error *room(mh_upgrade *upgrade, const mh_context *context) {
    mh_socket *socket;
    const mh_error *error = mh_upgrade_accept(upgrade, &socket);
    return error != NULL ? error : mh_socket_send_text(socket, mh_path_parameter(context, "room"));
}

static const mh_route routes[] = {
    MH_GET("/", item, .summary = "The first one"),
    MH_GET("/items/{id}", item, .produces = "text/plain"),
    MH_POST("/items/{id}", add, .input = "{}"),
    MH_POST("/items/{other}", add, .consumes = "image/png"),
    MH_GET("/items/{id}/tags/{tag}", item, .output = "true"),
    MH_DELETE("/files/{*path}", item),
    MH_BATCH("/lengths", lengths, .summary = "Lengths"),
};
enum { COUNT = sizeof routes / sizeof *routes };
MH_OPERATIONS(routes)
MH_BATCH_ROUTES(routes)

static const mh_socket_route sockets[] = {
    MH_SOCKET("/rooms/{room}", room),
    MH_SOCKET("/rooms/{*other}", room),
};
static const mh_error *talk(mh_upgrade *upgrade, const mh_context *context) {
    return mh_route_socket(sockets, sizeof sockets / sizeof *sockets, upgrade, context);
}

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
#define REST ",\"stage\":\"pre_inference\",\"request_id\":\"test\"}"
#define NOTHING "{\"error\":\"there is nothing at this path\",\"code\":\"not_found\"" REST
#define OTHERS "{\"error\":\"the path is there for other methods\",\"code\":\"method_not_allowed\"" REST
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
    check(mh_equal(told->items[6].method, mh_text("POST")), "a batch is one of requests that are posted");
}

static void handshakes_are_led_to_their_functions(void) {
    const mh_text_list none = {NULL, 0};
    asked_path = "/rooms/a%20b";
    mh_conversation said = mh_converse(talk, none, NULL, 0);
    check(said.len == 1 && mh_equal(mh_text_of(said.sent[0].data), mh_text("a b")), "a parameter");
    asked_path = "/rooms/a/b";
    check(mh_converse(talk, none, NULL, 0).sent[0].data.len == 0, "the next one that fits");
    asked_path = "/room";
    said = mh_converse(talk, none, NULL, 0);
    check(said.refusal.status == 404 && mh_equal(mh_text_of(said.refusal.body), mh_text(NOTHING)), "none");
    mh_conversations_forget();
}

/* What the host is given, which has another layout in a component. */
typedef struct {
    uint8_t is_error;
    union {
        struct {
            const struct {
                uint8_t is_error;
                union {
                    mh_response response;
                    mh_error error;
                } as;
            } *items;
            size_t len;
        } answers;
        mh_error error;
    } as;
} batch_result;

struct mh_raw_member {
    mh_sample sample;
    int32_t context;
};

static void requests_are_served_together(void) {
    const struct {
        mh_str *items;
        size_t len;
    } *paths = mh_paths();
    check(paths->len == 1 && mh_equal(paths->items[0], mh_text("/lengths")), "the path of a batch");
    asked_path = "/lengths";
    struct mh_raw_member members[] = {
        {.sample.body = mh_bytes_of(mh_text("abc")), .context = 1},
        {.sample.body = {NULL, 0}, .context = 10},
        {.sample.body = mh_bytes_of(mh_text("z")), .context = 100},
    };
    const batch_result *result = mh_respond_all(members, 3);
    check(!result->is_error && result->as.answers.len == 3 && contexts_over == 111, "an answer to each");
    check(!result->as.answers.items[0].is_error && result->as.answers.items[1].is_error,
          "errors are of one request");
    check(mh_equal(result->as.answers.items[1].as.error.as.text, mh_text("no body")), "its text");
    mh_bytes last = result->as.answers.items[2].as.response.body;
    check(mh_equal(mh_text_of(last), mh_text("1 of 3")), "the last one's answer");
    mh_respond_all_over(NULL);
    for (size_t at = 0; at < 3; at++) members[at].sample.body = mh_bytes_of((mh_str){"123456", 4 + at});
    result = mh_respond_all(members, 3);
    check(result->as.answers.items[0].is_error, "a request without an answer");
    mh_str unanswered = result->as.answers.items[0].as.error.as.text;
    check(mh_equal(unanswered, mh_text("the function has not answered this request")), "what is said of it");
    check(!result->as.answers.items[1].is_error && result->as.answers.items[1].as.response.status == 200, "a content type");
    check(!result->as.answers.items[2].is_error, "an empty answer");
    mh_respond_all_over(NULL);
    members[1].sample.body = mh_bytes_of(mh_text("123456789"));
    result = mh_respond_all(members, 3);
    check(result->is_error && mh_equal(result->as.error.as.text, mh_text("all of them")), "an error of all");
    asked_path = "/elsewhere";
    result = mh_respond_all(members, 3);
    check(result->is_error && result->as.error.kind == MH_ERROR_INTERNAL, "no function serves this path");
}

static void a_batch_of_one_is_a_request(void) {
    const mh_error *error;
    answer("POST", "/lengths", &error);
    check(error != NULL && mh_equal(mh_error_text(error), mh_text("no body")), "its error");
    mh_response response = answer("GET", "/lengths", &error);
    check(error == NULL && response.status == 405, "others are not served");
}

int main(void) {
    requests_are_led_to_their_functions();
    routes_are_told();
    handshakes_are_led_to_their_functions();
    requests_are_served_together();
    a_batch_of_one_is_a_request();
    mh_call_over();
    return 0;
}
