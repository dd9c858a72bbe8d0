/* WebSockets, in C: a handler that talks with a client for as long as both like.
 *
 *     static const mh_error *echo(mh_upgrade *upgrade, const mh_context *context) {
 *         mh_socket *socket;
 *         mh_message message;
 *         const mh_error *error = mh_upgrade_accept(upgrade, &socket);
 *         while (error == NULL && mh_socket_receive(socket, MH_FOREVER, &message)) {
 *             error = mh_socket_send(socket, message);
 *         }
 *         return error;
 *     }
 *     MH_WEBSOCKET(echo)
 *
 * The function is called once for each client, beside those that serve requests or alone. Nothing has to be
 * freed or closed. A message is like a call: it lasts, with all that functions have given since it came,
 * mh_alloc() among them, until the next mh_socket_receive(). What there was before the first one lasts until
 * the function returns, and so does what is open: buckets, readers, writers. What is to stay is copied by
 * mh_keep() or malloc(). In a test mh_converse() is the client.
 */
#ifndef MODELHOST_SOCKET_H
#define MODELHOST_SOCKET_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A client's handshake, which is answered once. */
typedef struct mh_upgrade mh_upgrade;
/* A socket that is open, or was. */
typedef struct mh_socket mh_socket;

/* Talks with a client. When it returns, the socket is closed: with 1000, or with 1011 if it returns an error,
 * whose text is for the log. The context is that of the handshake.
 *
 * If it has not answered the handshake, an error of mh_invalid() or mh_respond() is the answer to it, as to
 * any request; else the answer is a 500. */
typedef const mh_error *mh_websocket_function(mh_upgrade *upgrade, const mh_context *context);

/* --- The handshake -------------------------------------------------------------------------------------- */

/* The subprotocols that the client offers, in its order of preference; none once it is answered. */
mh_text_list mh_upgrade_protocols(const mh_upgrade *upgrade);
/* Whether a subprotocol is among them. */
bool mh_upgrade_offers(const mh_upgrade *upgrade, const char *protocol);
/* Opens the socket, without a subprotocol. */
const mh_error *mh_upgrade_accept(mh_upgrade *upgrade, mh_socket **socket);
/* The same with one of the client's subprotocols. */
const mh_error *mh_upgrade_accept_protocol(mh_upgrade *upgrade, mh_str protocol, mh_socket **socket);
/* Answers with a response of HTTP, whose status is 200 unless set, in place of a socket. */
const mh_error *mh_upgrade_refuse(mh_upgrade *upgrade, mh_response response);

/* --- Messages ------------------------------------------------------------------------------------------- */

/* In the order of the contract. */
enum { MH_MESSAGE_TEXT, MH_MESSAGE_BINARY, MH_MESSAGE_NONE };
typedef uint8_t mh_message_kind;

typedef struct {
    mh_message_kind kind;
    /* Of a text its UTF-8. */
    mh_bytes data;
} mh_message;

/* As long as the socket is open. */
#define MH_FOREVER UINT32_MAX

/* Waits for the next message. If none comes in so many milliseconds, it is MH_MESSAGE_NONE; 0 does not wait.
 * False: the socket is closed, and all that the client sent has been received. */
bool mh_socket_receive(mh_socket *socket, uint32_t timeout_ms, mh_message *message);

/* Sends a message, and waits while the client does not read. An error is for what cannot be sent: more than
 * `limits.socket_message`, or a text that is no UTF-8. If the socket is closed, nothing is sent and there is
 * no error: mh_socket_closed() tells. */
const mh_error *mh_socket_send(mh_socket *socket, mh_message message);
const mh_error *mh_socket_send_text(mh_socket *socket, mh_str text);
const mh_error *mh_socket_send_binary(mh_socket *socket, mh_bytes bytes);
/* Sends what a writer has written as a text, and empties the writer, whose memory serves again. */
const mh_error *mh_socket_send_json(mh_socket *socket, mh_json_writer *json);

/* --- The end -------------------------------------------------------------------------------------------- */

/* The end of a socket (RFC 6455, section 7.4). */
typedef struct {
    /* 1005: the client closed without a code; 1006: it went without a close. */
    uint16_t code;
    /* At most 123 bytes; may be empty. */
    mh_str reason;
} mh_close_frame;

/* Closes the socket after what was sent, with 1000 to 1003, 1007 to 1011, or 3000 to 4999; an error for
 * another code, or a longer reason. The first close counts. */
const mh_error *mh_socket_close(mh_socket *socket, uint16_t code, mh_str reason);
/* How the socket was closed, once a call has found that out; NULL before. */
const mh_close_frame *mh_socket_closed(const mh_socket *socket);
/* Gives the socket up, which is closed when the function returns; may be called again. */
void mh_socket_give_up(mh_socket *socket);

/* --- Tests ---------------------------------------------------------------------------------------------- */

/* All that was said over a socket of a test; lasts until mh_conversations_forget(). */
typedef struct {
    /* The messages that the function sent. */
    const mh_message *sent;
    size_t len;
    /* The subprotocol that it chose; `data` is NULL for none. */
    mh_str protocol;
    /* How it closed the socket by itself; the code 0 if it did not. */
    mh_close_frame close;
    /* The response with which the handshake was refused; its status is 0 if it was not. */
    mh_response refusal;
    /* The text of the error that it returned with an open socket, or without an answer to the handshake;
     * `data` is NULL for none. */
    mh_str error;
} mh_conversation;

/* For tests: a function serves a client that offers these subprotocols, says these messages, and then closes
 * with 1000. For MH_MESSAGE_NONE nothing comes in the time that is waited. */
mh_conversation mh_converse(
    mh_websocket_function *function, mh_text_list protocols, const mh_message *says, size_t count);
/* For tests: frees all that was said. */
void mh_conversations_forget(void);

/* --- What the component exports ------------------------------------------------------------------------- */

void *mh_run_websocket(mh_websocket_function *function, int32_t upgrade, int32_t context);

/* Makes a function serve WebSockets: of an application at all paths, of other handlers at the endpoint's. */
#define MH_WEBSOCKET(function)                                                                              \
    MH_C MH_EXPORT(MH_PREFIX "websocket@0.1.0#websocket") void *mh_websocket(                               \
        int32_t upgrade, int32_t context);                                                                  \
    void *mh_websocket(int32_t upgrade, int32_t context) {                                                  \
        return mh_run_websocket(function, upgrade, context);                                                \
    }                                                                                                       \
    MH_POST_RETURN(mh_websocket, "websocket@0.1.0#websocket")

#ifdef __cplusplus
}
#endif

#endif
