/* An application that talks with clients and serves requests together, by routes. */
#include <modelhost_router.hpp>

using namespace std::chrono_literals;

namespace {

/* Says what it hears, in the subprotocol `chat` if that is offered, until it hears `bye`. */
mh::result<void> echo(mh::upgrade &upgrade, const mh::context &) {
    auto socket = upgrade.offers("chat") ? upgrade.accept("chat") : upgrade.accept();
    if (!socket) return std::unexpected(socket.error());
    while (auto message = socket->receive()) {
        if (message->is_text && message->data == "bye") return socket->close(3001, "bye");
        auto sent = socket->send(*message);
        if (!sent) return std::unexpected(sent.error());
    }
    return {};
}

mh::result<void> refused(mh::upgrade &upgrade, const mh::context &) {
    mh::json_writer json;
    mh::response response = json.begin('{').name("no").value("entry").end('}').response();
    response.status = 403;
    return upgrade.refuse(response);
}

/* Has little patience. */
mh::result<void> slow(mh::upgrade &upgrade, const mh::context &) {
    auto socket = upgrade.accept();
    if (!socket) return std::unexpected(socket.error());
    auto message = socket->receive(50ms);
    if (!message && message.error() == mh::no_message::closed) return {};
    return socket->send_text(message ? "early" : "late").transform([](bool) {});
}

mh::result<mh::response> sum(const mh::sample &sample, std::size_t count) {
    auto body = sample.json();
    if (!body) return std::unexpected(body.error());
    if (body->kind() != MH_JSON_ARRAY) return mh::invalid("the body is no list of numbers");
    double sum = 0;
    for (const mh::json &each : body->elements()) {
        if (!each.number()) return mh::invalid("the body is no list of numbers");
        sum += *each.number();
    }
    mh::json_writer json;
    return json.begin('{').name("sum").value(sum).name("of").value(count).end('}').response();
}

mh::result<void> sums(std::span<mh::member> members) {
    for (mh::member &member : members) member.answer(sum(member.sample(), members.size()));
    return {};
}

constexpr mh::route routes[] = {
    mh::batch<sums>("/sums", {.summary = "Sums", .produces = "application/json"}),
};

constexpr mh::socket_route sockets[] = {
    mh::websocket<echo>("/echo"),
    mh::websocket<refused>("/refused"),
    mh::websocket<slow>("/slow"),
};

}  // namespace

MODELHOST_ROUTES(routes)
MODELHOST_BATCH_ROUTES(routes)
MODELHOST_SOCKET_ROUTES(sockets)
