/* An application that talks with clients and serves requests together, by routes. */
#include <modelhost_router.h>

/* Says what it hears, in the subprotocol `chat` if that is offered, until it hears `bye`. */
static const mh_error *echo(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_socket *socket;
    mh_message message;
    const mh_error *error = mh_upgrade_offers(upgrade, "chat")
                                ? mh_upgrade_accept_protocol(upgrade, mh_text("chat"), &socket)
                                : mh_upgrade_accept(upgrade, &socket);
    while (error == NULL && mh_socket_receive(socket, MH_FOREVER, &message)) {
        bool is_bye = message.kind == MH_MESSAGE_TEXT && mh_equal(mh_text_of(message.data), mh_text("bye"));
        error = is_bye ? mh_socket_close(socket, 3001, mh_text("bye")) : mh_socket_send(socket, message);
    }
    return error;
}

static const mh_error *refused(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    mh_write_name(&json, "no");
    mh_write_text(&json, mh_text("entry"));
    mh_write_end(&json, '}');
    mh_response response = mh_json_response(&json);
    response.status = 403;
    return mh_upgrade_refuse(upgrade, response);
}

/* Has little patience. */
static const mh_error *slow(mh_upgrade *upgrade, const mh_context *context) {
    (void)context;
    mh_socket *socket;
    mh_message message;
    const mh_error *error = mh_upgrade_accept(upgrade, &socket);
    if (error != NULL || !mh_socket_receive(socket, 50, &message)) return error;
    return mh_socket_send_text(socket, mh_text(message.kind == MH_MESSAGE_NONE ? "late" : "early"));
}

static const mh_error *sum_of(const mh_member *member, double *sum) {
    const mh_json *numbers;
    const mh_error *error = mh_json_read(member->sample.body, &numbers);
    if (error != NULL) return error;
    if (numbers->kind != MH_JSON_ARRAY) return mh_invalid("the body is no list of numbers");
    *sum = 0;
    for (const mh_json *each = numbers->first; each != NULL; each = each->next) {
        if (each->kind != MH_JSON_NUMBER) return mh_invalid("the body is no list of numbers");
        *sum += each->number;
    }
    return NULL;
}

static const mh_error *sums(mh_member *members, size_t count) {
    for (mh_member *member = members; member < members + count; member++) {
        double sum;
        member->error = sum_of(member, &sum);
        if (member->error != NULL) continue;
        mh_json_writer json = {0};
        mh_write_begin(&json, '{');
        mh_write_name(&json, "sum");
        mh_write_number(&json, sum);
        mh_write_name(&json, "of");
        mh_write_unsigned(&json, count);
        mh_write_end(&json, '}');
        member->response = mh_json_response(&json);
    }
    return NULL;
}

static const mh_route routes[] = {
    MH_BATCH("/sums", sums, .summary = "Sums", .produces = "application/json"),
};
MH_ROUTES(routes)
MH_BATCH_ROUTES(routes)

static const mh_socket_route sockets[] = {
    MH_SOCKET("/echo", echo),
    MH_SOCKET("/refused", refused),
    MH_SOCKET("/slow", slow),
};
MH_SOCKET_ROUTES(sockets)
