/* Unit tests of sockets, whose clients are in memory here. */
#include <string.h>

#include "../src/socket_host.h"
#include "check.h"
#include "modelhost_blobs.h"
#include "modelhost_kv.h"

static mh_message text(const char *content) {
    return (mh_message){MH_MESSAGE_TEXT, mh_bytes_of(mh_text(content))};
}

static bool is_text(mh_message message, const char *expected) {
    return message.kind == MH_MESSAGE_TEXT && mh_equal(mh_text_of(message.data), mh_text(expected));
}

static bool is(mh_str own, const char *expected) {
    return own.data != NULL && mh_equal(own, mh_text(expected));
}

static const mh_message nothing = {MH_MESSAGE_NONE, {NULL, 0}};

/* Says what it hears, until it hears `stop`; in the subprotocol `loud` alone. */
static const mh_error *loud(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_socket *socket;
    mh_message message;
    if (!mh_upgrade_offers(upgrade, "loud")) {
        mh_response response = mh_text_response(mh_text("too quiet"));
        response.status = 403;
        return mh_upgrade_refuse(upgrade, response);
    }
    const mh_error *error = mh_upgrade_accept_protocol(upgrade, mh_text("loud"), &socket);
    check(error == NULL && mh_upgrade_protocols(upgrade).len == 0, "none are offered once it is answered");
    while (error == NULL && mh_socket_receive(socket, MH_FOREVER, &message)) {
        check(mh_socket_closed(socket) == NULL, "it is open");
        error = is_text(message, "stop") ? mh_socket_close(socket, 4000, mh_text("stopped"))
                                         : mh_socket_send(socket, message);
    }
    check(error != NULL || mh_socket_closed(socket) != NULL, "it is closed");
    return error;
}

static void what_is_said_is_kept(void) {
    mh_str offers[] = {mh_text("soft"), mh_text("loud")};
    static const uint8_t bytes[] = {0, 255};
    mh_message says[] = {text("a"), {MH_MESSAGE_BINARY, {bytes, 2}}, text(""), nothing, text("stop"),
                         text("b")};
    mh_conversation talk = mh_converse(loud, (mh_text_list){offers, 2}, says, 3);
    check(talk.len == 3 && is_text(talk.sent[0], "a") && is_text(talk.sent[2], ""), "texts");
    check(talk.sent[1].kind == MH_MESSAGE_BINARY && talk.sent[1].data.len == 2, "bytes");
    check(memcmp(talk.sent[1].data.data, bytes, 2) == 0 && is(talk.protocol, "loud"), "as they were");
    check(talk.close.code == 0 && talk.refusal.status == 0 && talk.error.data == NULL, "and no more");
    talk = mh_converse(loud, (mh_text_list){offers, 2}, says, 6);
    check(talk.len == 3 && talk.close.code == 4000 && is(talk.close.reason, "stopped"), "it closes");
    talk = mh_converse(loud, (mh_text_list){offers, 1}, says, 3);
    check(talk.refusal.status == 403 && is(mh_text_of(talk.refusal.body), "too quiet"), "it refuses");
    check(talk.len == 0 && talk.protocol.data == NULL && mh_host_sockets_held == 0,
          "nothing is said or held then");
}

static const mh_error *untouched(mh_upgrade *upgrade, const mh_context *context) {
    return (void)upgrade, (void)context, NULL;
}

static const mh_error *invalid(mh_upgrade *upgrade, const mh_context *context) {
    return (void)upgrade, (void)context, mh_invalid("no room `%s`", "x");
}

static const mh_error *answered(mh_upgrade *upgrade, const mh_context *context) {
    (void)upgrade, (void)context;
    mh_response response = mh_text_response(mh_text("pay"));
    response.status = 402;
    return mh_respond(response);
}

static const mh_error *broken(mh_upgrade *upgrade, const mh_context *context) {
    return (void)upgrade, (void)context, mh_internal("broken");
}

static const mh_error *late(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_socket *socket, *again;
    check(mh_upgrade_accept_protocol(upgrade, mh_text("\xff"), &socket) != NULL, "a protocol is a text");
    check(mh_upgrade_accept(upgrade, &socket) == NULL, "it opens");
    check(mh_upgrade_accept(upgrade, &again) != NULL, "once");
    check(mh_upgrade_refuse(upgrade, mh_text_response(mh_text("x"))) != NULL, "or it is refused");
    return mh_invalid("too late for a response");
}

static const mh_error *unoffered(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_socket *socket;
    return mh_upgrade_accept_protocol(upgrade, mh_text("chat.v2"), &socket);
}

static void errors_before_it_is_open_are_the_answer(void) {
    const mh_text_list none = {NULL, 0};
    mh_conversation talk = mh_converse(invalid, none, NULL, 0);
    check(talk.refusal.status == 400 && talk.error.data == NULL, "an error of the caller");
    check(is(mh_text_of(talk.refusal.body), "{\"error\":\"no room `x`\",\"code\":\"invalid_input\","
                                            "\"stage\":\"pre_inference\",\"request_id\":\"test\"}"),
          "its text");
    talk = mh_converse(answered, none, NULL, 0);
    check(talk.refusal.status == 402 && is(mh_text_of(talk.refusal.body), "pay"), "a response");
    talk = mh_converse(broken, none, NULL, 0);
    check(talk.refusal.status == 0 && is(talk.error, "broken"), "an error of the handler");
    talk = mh_converse(late, none, NULL, 0);
    check(talk.refusal.status == 0 && is(talk.error, "too late for a response"),
          "an error of an open socket");
    talk = mh_converse(unoffered, none, NULL, 0);
    check(is(talk.error, "the client offers no subprotocol `chat.v2`"), "a protocol that is not offered");
    talk = mh_converse(untouched, none, NULL, 0);
    check(talk.error.data == NULL && talk.refusal.status == 0 && mh_host_sockets_held == 0,
          "nothing is held");
}

static const mh_error *careful(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_socket *socket;
    mh_message message;
    check(mh_upgrade_accept(upgrade, &socket) == NULL, "it opens");
    check(mh_socket_receive(socket, 50, &message) && message.kind == MH_MESSAGE_NONE,
          "nothing comes in time");
    check(mh_socket_receive(socket, 0, &message) && is_text(message, "a"), "and then a text");
    check(mh_socket_send_text(socket, mh_text("\xff")) != NULL && mh_socket_send(socket, nothing) != NULL,
          "no message");
    check(mh_socket_close(socket, 1005, mh_text("")) != NULL &&
              mh_socket_close(socket, 4000, mh_text("\xff")) != NULL,
          "no close");
    check(mh_socket_close(socket, 1000, mh_format("%0124d", 1)) != NULL, "a reason that is too long");
    check(!mh_socket_receive(socket, MH_FOREVER, &message) && message.data.len == 0,
          "the client has closed it");
    const mh_close_frame *close = mh_socket_closed(socket);
    check(close->code == 1000 && close->reason.len == 0, "with its code");
    check(mh_socket_close(socket, 4000, mh_text("x")) == NULL && close->code == 1000,
          "the first close counts");
    check(mh_socket_send_text(socket, mh_text("late")) == NULL,
          "what is closed sends nothing, and that is no error");
    mh_socket_give_up(socket);
    mh_socket_give_up(socket);
    check(!mh_socket_receive(socket, 1, &message) && mh_socket_send_text(socket, mh_text("x")) == NULL,
          "given up");
    check(mh_socket_close(socket, 4000, mh_text("")) == NULL, "what is given up stays so");
    return NULL;
}

static void what_cannot_be_sent_is_told(void) {
    mh_message says[] = {nothing, text("a")};
    mh_conversation talk = mh_converse(careful, (mh_text_list){NULL, 0}, says, 2);
    check(talk.error.data == NULL && talk.len == 0 && talk.close.code == 0, "nothing is sent");
    check(mh_host_sockets_held == 0, "nothing is held");
}

enum { MANY = 1000 };

/* Keeps nothing of a message but what it has open, and what there was before. */
static const mh_error *counts(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_socket *socket;
    mh_message message;
    mh_json_writer json = {0};
    mh_blob_writer writer = {0};
    mh_str before = mh_format("%s", "before");
    mh_mark first = {NULL, 0};
    const mh_error *error = mh_upgrade_accept(upgrade, &socket);
    for (int number = 0; error == NULL && mh_socket_receive(socket, MH_FOREVER, &message); number++) {
        mh_mark now = mh_memory();
        if (number == 0) first = now;
        check(number == 0 || (now.block == first.block && now.used == first.used),
              "memory is that of a message");
        check(is(before, "before"), "what there was before stays");
        const mh_json *value;
        mh_bucket bucket;
        mh_container container;
        int64_t sum;
        error = mh_json_read(message.data, &value);
        if (error == NULL) error = mh_kv_open("default", &bucket);
        if (error == NULL) error = mh_kv_increment(bucket, mh_text("sum"), (int64_t)value->number, 0, &sum);
        if (error == NULL) error = mh_blob_open("default", &container);
        if (error == NULL && number == 0) error = mh_blob_write_to(container, mh_text("all"), &writer);
        if (error == NULL) error = mh_blob_write(&writer, message.data);
        if (error != NULL) break;
        /* A writer of JSON has memory of one message, and takes more for the next. */
        mh_str zeros = mh_format("%0*d", number % 2 == 0 ? 10 : 5000, 0);
        mh_write_begin(&json, '{');
        mh_write_name(&json, "sum");
        mh_write_integer(&json, sum);
        mh_write_end(&json, '}');
        for (size_t at = 0; at < zeros.len; at++) check(zeros.data[at] == '0', "what is written lies apart");
        mh_alloc(100 * 1000);
        error = mh_socket_send_json(socket, &json);
    }
    return error != NULL ? error : mh_blob_finish(&writer);
}

static void a_long_conversation_takes_no_memory(void) {
    static mh_message says[MANY];
    for (size_t at = 0; at < MANY; at++) says[at] = text("2");
    mh_call_over();
    mh_conversation talk = mh_converse(counts, (mh_text_list){NULL, 0}, says, MANY);
    check(talk.error.data == NULL && talk.len == MANY, "all are answered");
    check(is_text(talk.sent[0], "{\"sum\":2}") && is_text(talk.sent[MANY - 1], "{\"sum\":2000}"),
          "with their sum");
    mh_container container;
    mh_blob_info info;
    check(mh_blob_open("default", &container) == NULL, "the container");
    check(mh_blob_look(container, mh_text("all"), &info) == NULL && info.size == MANY,
          "an object of all of them");
}

int main(void) {
    what_is_said_is_kept();
    errors_before_it_is_open_are_the_answer();
    what_cannot_be_sent_is_told();
    a_long_conversation_takes_no_memory();
    mh_call_over();
    mh_conversations_forget();
    mh_kv_forget();
    mh_blobs_forget();
    return 0;
}
