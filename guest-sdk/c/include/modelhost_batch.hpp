/* Requests served together, in C++: modelhost_batch.h with types.
 *
 *     mh::result<void> predict(std::span<mh::member> members) {
 *         for (mh::member &member : members) member.answer(answer_to(member.sample()));
 *         return {};
 *     }
 *
 * mh::batch makes it a route (modelhost_router.hpp), MODELHOST_RESPOND_ALL the component's export beside
 * MODELHOST_RESPOND.
 */
#ifndef MODELHOST_BATCH_HPP
#define MODELHOST_BATCH_HPP

#include <modelhost.hpp>
#include <modelhost_batch.h>

namespace mh {

/* One request of a batch, and the answer to it: unless one is given, an error. */
class member {
public:
    explicit member(mh_member *raw) : raw_(raw) {}
    mh::sample sample() const { return mh::sample(raw_->sample); }
    mh::context context() const { return mh::context(raw_->context); }
    /* Answers this request; an error is that of no other. */
    void answer(const result<response> &made) {
        raw_->error = made ? nullptr : made.error().made;
        if (made) raw_->response = *made;
    }

private:
    mh_member *raw_;
};

/* A function of C++ as one of C. An error that it returns is that of all requests. */
template <auto function>
const mh_error *batch_of(mh_member *raw, std::size_t count) {
    std::vector<member> members;
    for (std::size_t at = 0; at < count; at++) members.emplace_back(&raw[at]);
    result<void> served = function(std::span(members));
    return served ? nullptr : served.error().made;
}

}  // namespace mh

#define MODELHOST_RESPOND_ALL(function, ...) MH_RESPOND_ALL(mh::batch_of<function>, __VA_ARGS__)

#endif
