/* What the host's sockets do, in memory, for tests; but for limits. The client says what the test has given,
 * and what it hears is kept. */
#ifndef __wasm__
#include "in_tests.h"
#include "socket_host.h"

/* The one of the conversation that goes on. */
static struct {
    mh_text_list protocols;
    const mh_message *says;
    size_t left, room;
    mh_message *heard;
    /* The first close, of either side; its code is 0 before. */
    mh_close_frame close;
    mh_conversation *talk;
} client;

static mh_piece *pieces;
size_t mh_host_sockets_held;

void mh_conversations_forget(void) { mh_free_stored(&pieces); }

mh_conversation mh_converse(
    mh_websocket_function *function, mh_text_list protocols, const mh_message *says, size_t count) {
    mh_conversation talk = {0};
    client.protocols = protocols;
    client.says = says;
    client.left = count;
    client.room = 0;
    client.heard = NULL;
    client.close = (mh_close_frame){0};
    client.talk = &talk;
    mh_context context = {0};
    mh_host_sockets_held++;
    const mh_error *error = mh_talk(function, 1, &context);
    if (error != NULL) talk.error = mh_stored_text(&pieces, mh_error_text(error));
    talk.sent = client.heard;
    client.talk = NULL;
    return talk;
}

void mh_host_upgrade_protocols(int32_t upgrade, mh_text_list *protocols) {
    (void)upgrade;
    *protocols = client.protocols;
}

void mh_host_upgrade_accept(
    int32_t upgrade, int32_t has_protocol, const char *protocol, size_t len, mh_upgrade_result *result) {
    mh_str wanted = {protocol, len};
    bool is_offered = !has_protocol;
    for (size_t at = 0; at < client.protocols.len && !is_offered; at++) {
        is_offered = mh_equal(client.protocols.items[at], wanted);
    }
    *result = (mh_upgrade_result){.is_error = !is_offered, .as.socket = upgrade};
    if (!is_offered) {
        mh_host_sockets_held--;
        result->as.error = mh_format("the client offers no subprotocol `%.*s`", (int)len, protocol);
    } else if (has_protocol) {
        client.talk->protocol = mh_stored_text(&pieces, wanted);
    }
}

void mh_host_upgrade_refuse(int32_t upgrade, int32_t status, const char *type, size_t type_len,
                            const mh_header *headers, size_t headers_len, const uint8_t *body,
                            size_t body_len, mh_upgrade_result *result) {
    (void)upgrade;
    mh_host_sockets_held--;
    *result = (mh_upgrade_result){0};
    mh_headers kept = {mh_stored(&pieces, headers_len * sizeof *headers), headers_len};
    for (size_t at = 0; at < headers_len; at++) {
        kept.items[at].name = mh_stored_text(&pieces, headers[at].name);
        kept.items[at].value = mh_stored_text(&pieces, headers[at].value);
    }
    client.talk->refusal = (mh_response){
        .status = (uint16_t)status,
        .content_type = mh_stored_text(&pieces, (mh_str){type, type_len}),
        .headers = kept,
        .body = mh_stored_bytes(&pieces, (mh_bytes){body, body_len}),
    };
}

void mh_host_upgrade_drop(int32_t upgrade) { (void)upgrade, mh_host_sockets_held--; }

void mh_host_socket_drop(int32_t socket) { (void)socket, mh_host_sockets_held--; }

static void closed(mh_socket_result *result) {
    *result = (mh_socket_result){.is_error = 1, .as.error.kind = MH_SOCKET_CLOSED};
    result->as.error.as.closed = client.close;
}

void mh_host_socket_receive(int32_t socket, int32_t has_timeout, uint32_t timeout_ms,
                            mh_socket_result *result) {
    (void)socket, (void)timeout_ms;
    while (client.left > 0 && client.close.code == 0) {
        mh_message said = *client.says++;
        client.left--;
        if (said.kind != MH_MESSAGE_NONE) {
            /* In memory of the message, as in a component. */
            uint8_t *data = mh_alloc(said.data.len);
            if (said.data.len > 0) memcpy(data, said.data.data, said.data.len);
            *result = (mh_socket_result){.as.message = {said.kind, {data, said.data.len}}};
            return;
        }
        if (has_timeout) {
            *result = (mh_socket_result){.is_error = 1, .as.error.kind = MH_SOCKET_TIMED_OUT};
            return;
        }
    }
    if (client.close.code == 0) client.close = (mh_close_frame){1000, mh_text("")};
    closed(result);
}

void mh_host_socket_send(int32_t socket, int32_t kind, const uint8_t *data, size_t len,
                         mh_socket_result *result) {
    (void)socket;
    if (client.close.code != 0) {
        closed(result);
        return;
    }
    *result = (mh_socket_result){0};
    if (client.talk->len == client.room) {
        client.room = 2 * client.room + 8;
        mh_message *more = mh_stored(&pieces, client.room * sizeof *more);
        if (client.talk->len > 0) memcpy(more, client.heard, client.talk->len * sizeof *more);
        client.heard = more;
    }
    client.heard[client.talk->len++] =
        (mh_message){(mh_message_kind)kind, mh_stored_bytes(&pieces, (mh_bytes){data, len})};
}

void mh_host_socket_close(int32_t socket, int32_t code, const char *reason, size_t len,
                          mh_socket_result *result) {
    (void)socket;
    bool is_sent =
        (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1011) || (code >= 3000 && code <= 4999);
    *result = (mh_socket_result){.is_error = !is_sent || len > 123, .as.error.kind = MH_SOCKET_INVALID};
    if (!is_sent) {
        result->as.error.as.invalid = mh_format("code %d is not one that is sent", (int)code);
    } else if (len > 123) {
        result->as.error.as.invalid = mh_format("the reason has %zu bytes, of at most 123", len);
    } else if (client.close.code == 0) {
        client.close = (mh_close_frame){(uint16_t)code, mh_stored_text(&pieces, (mh_str){reason, len})};
        client.talk->close = client.close;
    } else {
        closed(result);
    }
}
#endif
