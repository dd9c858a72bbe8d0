/* WebSockets, in C++: modelhost_socket.h with types.
 *
 *     mh::result<void> echo(mh::upgrade &upgrade, const mh::context &) {
 *         auto socket = upgrade.accept();
 *         if (!socket) return std::unexpected(socket.error());
 *         while (auto message = socket->receive()) {
 *             auto sent = socket->send(*message);
 *             if (!sent) return std::unexpected(sent.error());
 *         }
 *         return {};
 *     }
 *     MODELHOST_WEBSOCKET(echo)
 *
 * A message is a view, which lasts, with all that functions have given since it came, until the next
 * receive(). What is to stay is copied into strings and vectors.
 */
#ifndef MODELHOST_SOCKET_HPP
#define MODELHOST_SOCKET_HPP

#include <modelhost.hpp>
#include <modelhost_socket.h>

#include <chrono>
#include <utility>

namespace mh {

/* A text, or bytes. */
struct message {
    bool is_text;
    std::string_view data;
};

/* Why there is no message. */
enum class no_message { closed, timed_out };

/* The end of a socket (RFC 6455, section 7.4). */
struct close_frame {
    /* 1005: the client closed without a code; 1006: it went without a close. */
    std::uint16_t code;
    std::string_view reason;
};

/* A client's socket, which is open. What is destroyed is given up; the socket is closed when the function
 * returns: with 1000, or with 1011 for an error. */
class socket {
public:
    explicit socket(mh_socket *raw) : raw_(raw) {}
    socket(socket &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    socket &operator=(socket &&other) noexcept { return std::swap(raw_, other.raw_), *this; }
    ~socket() {
        if (raw_ != nullptr) mh_socket_give_up(raw_);
    }

    /* Waits for the next message, as long as the socket is open. */
    std::expected<message, no_message> receive() { return received(MH_FOREVER); }
    /* The same, for so long at most; 0 does not wait. */
    std::expected<message, no_message> receive(std::chrono::milliseconds timeout) {
        constexpr std::chrono::milliseconds least{0}, most{MH_FOREVER - 1};
        const std::chrono::milliseconds bounded = timeout < least ? least : timeout > most ? most : timeout;
        return received(static_cast<std::uint32_t>(bounded.count()));
    }

    /* Sends a message, and waits while the client does not read. False: the socket is closed. An error: it
     * cannot be sent. */
    result<bool> send(const message &message) {
        return message.is_text ? send_text(message.data) : send_binary(message.data);
    }
    result<bool> send_text(std::string_view text) { return sent(mh_socket_send_text(raw_, raw(text))); }
    result<bool> send_binary(std::string_view bytes) {
        return sent(mh_socket_send_binary(raw_, raw_bytes(bytes)));
    }
    result<bool> send_binary(std::span<const std::uint8_t> bytes) {
        return sent(mh_socket_send_binary(raw_, {bytes.data(), bytes.size()}));
    }
    /* Sends what a writer has written as a text, and empties the writer. */
    result<bool> send_json(json_writer &written) { return sent(mh_socket_send_json(raw_, written.raw())); }

    /* Closes the socket after what was sent: 1000 to 1003, 1007 to 1011, or 3000 to 4999. The first close
     * counts. */
    result<void> close(std::uint16_t code = 1000, std::string_view reason = {}) {
        return done(mh_socket_close(raw_, code, raw(reason)));
    }
    /* How it was closed, once a call has found that out. */
    std::optional<close_frame> closed() const {
        const mh_close_frame *close = mh_socket_closed(raw_);
        return close == nullptr ? std::nullopt : std::optional(close_frame{close->code, view(close->reason)});
    }

private:
    std::expected<message, no_message> received(std::uint32_t timeout_ms) {
        mh_message next = {};
        if (!mh_socket_receive(raw_, timeout_ms, &next)) return std::unexpected(no_message::closed);
        if (next.kind == MH_MESSAGE_NONE) return std::unexpected(no_message::timed_out);
        return message{next.kind == MH_MESSAGE_TEXT, view(next.data)};
    }
    result<bool> sent(const mh_error *failed) { return done(failed, mh_socket_closed(raw_) == nullptr); }

    mh_socket *raw_;
};

/* A client's handshake, which is answered once. */
class upgrade {
public:
    explicit upgrade(mh_upgrade *raw) : raw_(raw) {}

    /* The subprotocols that the client offers, in its order of preference; none once it is answered. */
    std::vector<std::string_view> protocols() const {
        const mh_text_list found = mh_upgrade_protocols(raw_);
        std::vector<std::string_view> protocols;
        for (std::size_t at = 0; at < found.len; at++) protocols.push_back(view(found.items[at]));
        return protocols;
    }
    bool offers(const char *protocol) const { return mh_upgrade_offers(raw_, protocol); }
    /* Opens the socket. */
    result<socket> accept() {
        mh_socket *opened = nullptr;
        return made(mh_upgrade_accept(raw_, &opened), opened);
    }
    /* The same with one of the client's subprotocols. */
    result<socket> accept(std::string_view protocol) {
        mh_socket *opened = nullptr;
        return made(mh_upgrade_accept_protocol(raw_, raw(protocol), &opened), opened);
    }
    /* Answers with a response of HTTP in place of a socket. */
    result<void> refuse(const response &response) { return done(mh_upgrade_refuse(raw_, response)); }

private:
    static result<socket> made(const mh_error *failed, mh_socket *opened) {
        if (failed != nullptr) return std::unexpected(error{failed});
        return socket(opened);
    }

    mh_upgrade *raw_;
};

/* A function of C++ as one of C. */
template <auto function>
const mh_error *websocket_of(mh_upgrade *raw, const mh_context *request) {
    upgrade handshake(raw);
    result<void> talked = function(handshake, context(request));
    return talked ? nullptr : talked.error().made;
}

}  // namespace mh

#define MODELHOST_WEBSOCKET(function) MH_WEBSOCKET(mh::websocket_of<function>)

#endif
