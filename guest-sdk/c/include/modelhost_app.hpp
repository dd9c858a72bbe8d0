/* Applications in C++: modelhost_app.h with types. */
#ifndef MODELHOST_APP_HPP
#define MODELHOST_APP_HPP

#include <modelhost.hpp>
#include <modelhost_app.h>

namespace mh {

/* The response of one request, in pieces. */
class output {
public:
    explicit output(mh_output *raw) : raw_(raw) {}
    /* Sends the head, once, and its body as the first piece. */
    result<void> begin(const response &head) { return done(mh_begin(raw_, head)); }
    /* Sends a piece, and waits while the client does not read. False: there is no client any more. */
    bool write(std::string_view piece) { return mh_write(raw_, raw_bytes(piece)); }
    /* Sends what a writer has written as a server-sent event, and empties the writer. */
    bool event(json_writer &written) { return mh_event(raw_, written.raw()); }
    /* Sends a whole response and ends it, so that the function may work on. */
    result<void> send(const response &whole) { return done(mh_send(raw_, whole)); }

private:
    mh_output *raw_;
};

/* A function of C++ as one of C: it returns a response, or answers by the output and returns none. */
template <auto function>
const mh_error *respond_of(const mh_sample *given, const mh_context *request, mh_output *raw, mh_response *answer) {
    output sent(raw);
    result<std::optional<response>> made = function(sample(*given), context(request), sent);
    if (!made) return made.error().made;
    if (*made) *answer = **made;
    return nullptr;
}

}  // namespace mh

#define MODELHOST_RESPOND(function) MH_RESPOND(mh::respond_of<function>)

#endif
