/* WebSockets. A handler that serves none links none of it. */
#include <string.h>

#include "socket_host.h"

struct mh_socket {
    int32_t handle;
    /* Whether there is a handle, and the memory that was taken before the first message. */
    bool is_held, has_received;
    mh_mark before;
    /* Its code is 0 until it is known. */
    mh_close_frame closed;
    char reason[123];
};

struct mh_upgrade {
    int32_t handle;
    bool is_answered;
    mh_socket socket;
};

/* --- The handshake -------------------------------------------------------------------------------------- */

mh_text_list mh_upgrade_protocols(const mh_upgrade *upgrade) {
    mh_text_list protocols = {NULL, 0};
    if (!upgrade->is_answered) mh_host_upgrade_protocols(upgrade->handle, &protocols);
    return protocols;
}

bool mh_upgrade_offers(const mh_upgrade *upgrade, const char *protocol) {
    mh_text_list protocols = mh_upgrade_protocols(upgrade);
    for (size_t at = 0; at < protocols.len; at++) {
        if (mh_equal(protocols.items[at], mh_text(protocol))) return true;
    }
    return false;
}

static const mh_error *told(const mh_upgrade_result *result) {
    return result->is_error ? mh_internal("%.*s", (int)result->as.error.len, result->as.error.data) : NULL;
}

static const mh_error *accepted(mh_upgrade *upgrade, bool has_protocol, mh_str protocol, mh_socket **socket) {
    *socket = &upgrade->socket;
    if (upgrade->is_answered) return mh_internal("the handshake is answered already");
    if (has_protocol && !mh_is_text(protocol)) return mh_internal("a subprotocol that is no UTF-8");
    upgrade->is_answered = true;
    mh_upgrade_result result;
    mh_host_upgrade_accept(upgrade->handle, has_protocol, protocol.data, protocol.len, &result);
    const mh_error *error = told(&result);
    if (error == NULL) upgrade->socket = (mh_socket){.handle = result.as.socket, .is_held = true};
    return error;
}

const mh_error *mh_upgrade_accept(mh_upgrade *upgrade, mh_socket **socket) {
    return accepted(upgrade, false, (mh_str){NULL, 0}, socket);
}

const mh_error *mh_upgrade_accept_protocol(mh_upgrade *upgrade, mh_str protocol, mh_socket **socket) {
    return accepted(upgrade, true, protocol, socket);
}

const mh_error *mh_upgrade_refuse(mh_upgrade *upgrade, mh_response response) {
    if (upgrade->is_answered) return mh_internal("the handshake is answered already");
    upgrade->is_answered = true;
    mh_upgrade_result result;
    mh_host_upgrade_refuse(upgrade->handle, response.status == 0 ? 200 : response.status,
                           response.content_type.data, response.content_type.len, response.headers.items,
                           response.headers.len, response.body.data, response.body.len, &result);
    return told(&result);
}

/* --- Messages ------------------------------------------------------------------------------------------- */

static void note_closed(mh_socket *socket, uint16_t code, mh_str reason) {
    if (socket->closed.code != 0) return;
    size_t len = reason.len < sizeof socket->reason ? reason.len : sizeof socket->reason;
    if (len > 0) memcpy(socket->reason, reason.data, len);
    socket->closed = (mh_close_frame){code, {socket->reason, len}};
}

/* The error of a result, and none if the socket is closed, which is noted. */
static const mh_error *checked(mh_socket *socket, const mh_socket_result *result) {
    if (!result->is_error) return NULL;
    switch (result->as.error.kind) {
        case MH_SOCKET_CLOSED: {
            mh_close_frame close = result->as.error.as.closed;
            note_closed(socket, close.code, close.reason);
            return NULL;
        }
        case MH_SOCKET_INVALID: {
            mh_str why = result->as.error.as.invalid;
            return mh_internal("%.*s", (int)why.len, why.data);
        }
        default: return NULL;
    }
}

bool mh_socket_receive(mh_socket *socket, uint32_t timeout_ms, mh_message *message) {
    *message = (mh_message){MH_MESSAGE_NONE, {NULL, 0}};
    if (!socket->is_held) return false;
    if (socket->has_received) {
        mh_end_message(socket->before);
    } else {
        /* There is a block, so that it is not made anew for each message. */
        mh_alloc(0);
        socket->before = mh_memory();
        socket->has_received = true;
    }
    mh_socket_result result;
    mh_host_socket_receive(socket->handle, timeout_ms != MH_FOREVER, timeout_ms, &result);
    if (!result.is_error) {
        *message = result.as.message;
        return true;
    }
    checked(socket, &result);
    return result.as.error.kind == MH_SOCKET_TIMED_OUT;
}

const mh_error *mh_socket_send(mh_socket *socket, mh_message message) {
    if (message.kind > MH_MESSAGE_BINARY) return mh_internal("no message to be sent");
    if (message.kind == MH_MESSAGE_TEXT && !mh_is_text(mh_text_of(message.data))) {
        return mh_internal("a text that is no UTF-8");
    }
    if (!socket->is_held) return NULL;
    mh_socket_result result;
    mh_host_socket_send(socket->handle, message.kind, message.data.data, message.data.len, &result);
    return checked(socket, &result);
}

const mh_error *mh_socket_send_text(mh_socket *socket, mh_str text) {
    return mh_socket_send(socket, (mh_message){MH_MESSAGE_TEXT, mh_bytes_of(text)});
}

const mh_error *mh_socket_send_binary(mh_socket *socket, mh_bytes bytes) {
    return mh_socket_send(socket, (mh_message){MH_MESSAGE_BINARY, bytes});
}

const mh_error *mh_socket_send_json(mh_socket *socket, mh_json_writer *json) {
    mh_str text = {json->data, json->len};
    json->len = 0;
    json->comma = false;
    return mh_socket_send_text(socket, text);
}

/* --- The end -------------------------------------------------------------------------------------------- */

const mh_error *mh_socket_close(mh_socket *socket, uint16_t code, mh_str reason) {
    if (!mh_is_text(reason)) return mh_internal("a reason that is no UTF-8");
    if (!socket->is_held) return NULL;
    mh_socket_result result;
    mh_host_socket_close(socket->handle, code, reason.data, reason.len, &result);
    const mh_error *error = checked(socket, &result);
    if (error == NULL) note_closed(socket, code, reason);
    return error;
}

const mh_close_frame *mh_socket_closed(const mh_socket *socket) {
    return socket->closed.code == 0 ? NULL : &socket->closed;
}

void mh_socket_give_up(mh_socket *socket) {
    if (socket->is_held) mh_host_socket_drop(socket->handle);
    socket->is_held = false;
}

const mh_error *mh_talk(mh_websocket_function *function, int32_t handle, const mh_context *context) {
    mh_upgrade upgrade = {.handle = handle};
    const mh_error *error = function(&upgrade, context);
    if (error != NULL && error->kind != MH_ERROR_INTERNAL && !upgrade.is_answered) {
        bool is_response = error->kind == MH_ERROR_RESPOND;
        error = mh_upgrade_refuse(
            &upgrade, is_response ? error->as.response : mh_refusal(context, 400, error->as.text, "invalid_input"));
    }
    if (!upgrade.is_answered) mh_host_upgrade_drop(handle);
    mh_socket_give_up(&upgrade.socket);
    return error;
}
