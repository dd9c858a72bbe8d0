/* The contract's `websockets` as the component model has it in a module. In a test, socket_in_tests.c defines
 * its functions. */
#ifndef MODELHOST_SOCKET_HOST_H
#define MODELHOST_SOCKET_HOST_H

#include "internal.h"
#include "modelhost_socket.h"

#ifdef __wasm__
#define SOCKETS(name) __attribute__((import_module("modelhost:handler/websockets@0.1.0"), import_name(name)))
#else
#define SOCKETS(name)
#endif

/* Its errors, in the order of the contract. */
enum { MH_SOCKET_CLOSED, MH_SOCKET_TIMED_OUT, MH_SOCKET_INVALID };

/* What `accept` and `refuse` give. */
typedef struct {
    uint8_t is_error;
    union {
        int32_t socket;
        mh_str error;
    } as;
} mh_upgrade_result;

typedef struct {
    uint8_t is_error;
    union {
        mh_message message;
        struct {
            uint8_t kind;
            union {
                mh_close_frame closed;
                mh_str invalid;
            } as;
        } error;
    } as;
} mh_socket_result;

#ifdef __wasm__
_Static_assert(sizeof(mh_upgrade_result) == 12, "the result of `accept`");
_Static_assert(sizeof(mh_socket_result) == 20 && sizeof(mh_message) == 12, "the result of `receive`");
_Static_assert(offsetof(mh_socket_result, as.error.as.closed.reason) == 12, "the contract's `close-frame`");
#endif

SOCKETS("[method]upgrade.protocols") void mh_host_upgrade_protocols(int32_t upgrade, mh_text_list *protocols);
SOCKETS("[static]upgrade.accept")
void mh_host_upgrade_accept(
    int32_t upgrade, int32_t has_protocol, const char *protocol, size_t len, mh_upgrade_result *result);
SOCKETS("[static]upgrade.refuse")
void mh_host_upgrade_refuse(int32_t upgrade, int32_t status, const char *type, size_t type_len,
                            const mh_header *headers, size_t headers_len, const uint8_t *body,
                            size_t body_len, mh_upgrade_result *result);
SOCKETS("[resource-drop]upgrade") void mh_host_upgrade_drop(int32_t upgrade);
SOCKETS("[method]socket.receive")
void mh_host_socket_receive(int32_t socket, int32_t has_timeout, uint32_t timeout_ms,
                            mh_socket_result *result);
SOCKETS("[method]socket.send")
void mh_host_socket_send(int32_t socket, int32_t kind, const uint8_t *data, size_t len,
                         mh_socket_result *result);
SOCKETS("[method]socket.close")
void mh_host_socket_close(int32_t socket, int32_t code, const char *reason, size_t len,
                          mh_socket_result *result);
SOCKETS("[resource-drop]socket") void mh_host_socket_drop(int32_t socket);

/* Has a function talk, and answers a handshake that it has left without an answer. Its error is that of the
 * call. */
const mh_error *mh_talk(mh_websocket_function *function, int32_t upgrade, const mh_context *context);

#ifndef __wasm__
/* For tests of the SDK: handshakes and sockets whose handles have not been given back. */
extern size_t mh_host_sockets_held;
#endif

#endif
