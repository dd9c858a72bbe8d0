/* Unit tests of requests to others, who answer here what the test says. */
#include "modelhost_outbound.h"

#include <string.h>

#include "../src/internal.h"
#include "check.h"

enum { MEBIBYTE = 1 << 20 };

/* The last request. */
static mh_outbound_request asked;
static char body_asked[100];

static const mh_error *answered(const mh_outbound_request *request, mh_response *response) {
    static char large[17 * MEBIBYTE];
    static mh_header headers[] = {{{"X-Kind", 6}, {"b", 1}}};
    asked = *request;
    check(request->body.len < sizeof body_asked, "a short body");
    if (request->body.len > 0) memcpy(body_asked, request->body.data, request->body.len);
    body_asked[request->body.len] = 0;
    size_t sizes[] = {150 * 1000, 16 * MEBIBYTE, 16 * MEBIBYTE + 1};
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        if (!mh_equal(request->url, mh_format("https://large/%zu", at))) continue;
        for (size_t byte = 0; byte < sizes[at]; byte++) large[byte] = (char)(byte / 1000);
        response->body = (mh_bytes){(const uint8_t *)large, sizes[at]};
        return NULL;
    }
    if (mh_equal(request->url, mh_text("https://denied"))) return mh_outbound_error(MH_REASON_DENIED, mh_text(""));
    *response = mh_text_response(mh_text("answer"));
    response->status = mh_equal(request->url, mh_text("https://gone")) ? 410 : 201;
    response->headers = (mh_headers){headers, 1};
    return NULL;
}

static mh_outbound_response sent(const char *url) {
    mh_outbound_response response;
    mh_outbound_request request = {.url = mh_text(url)};
    check(mh_outbound_send(&request, &response) == NULL, url);
    return response;
}

static void requests_go_out_as_they_are_meant(void) {
    mh_outbound_response response;
    mh_outbound_request request = {.url = mh_text("https://a")};
    check(mh_reason_of(mh_outbound_send(&request, &response)) == MH_REASON_FAILED, "nothing was said of others");
    mh_outbound_answer_with(answered);
    check(mh_outbound_send(&request, &response) == NULL && response.status == 201, "a response");
    check(mh_equal(asked.method, mh_text("GET")) && asked.timeout_ms == 30 * 1000, "what was not said");
    mh_str value;
    check(mh_outbound_header(&response, "X-Kind", &value) && mh_equal(value, mh_text("b")), "a header");
    check(mh_equal(response.headers.items[0].name, mh_text("x-kind")), "in lower case");
    check(mh_outbound_header(&response, "content-type", &value) && !mh_outbound_header(&response, "x-kin", &value), "its type");
    mh_outbound_close(&response);
    mh_header header = {mh_text("X-A"), mh_text("\xc3\xa9")};
    request = (mh_outbound_request){
        .method = mh_text("PUT"),
        .url = mh_text("https://a/b"),
        .content_type = mh_text("text/plain"),
        .headers = {&header, 1},
        .body = mh_bytes_of(mh_text("body")),
        .timeout_ms = 7,
    };
    check(mh_outbound_send(&request, &response) == NULL, "a request of all that there is");
    check(mh_equal(asked.method, mh_text("PUT")) && strcmp(body_asked, "body") == 0 && asked.timeout_ms == 7, "as it was said");
    check(asked.headers.len == 2 && mh_equal(asked.headers.items[1].value, mh_text("text/plain")), "its headers");
    check(mh_equal(asked.headers.items[0].name, mh_text("x-a")), "in lower case");
    request.headers.len = 0;
    request.url = mh_text("https://denied");
    const mh_error *error = mh_outbound_send(&request, &response);
    check(mh_reason_of(error) == MH_REASON_DENIED && response.body == NULL, "the place is not listed");
    check(mh_equal(mh_error_text(error), mh_text("`allow_outbound` does not list where the request goes")), "its text");
    header.value = mh_text("\xff");
    request.headers.len = 1;
    check(mh_reason_of(mh_outbound_send(&request, &response)) == MH_REASON_INVALID, "a header that is no text");
    request = (mh_outbound_request){.url = mh_text("https://\xff")};
    check(mh_reason_of(mh_outbound_send(&request, &response)) == MH_REASON_INVALID, "a URL that is no text");
}

static bool is_refused(mh_outbound_request request) {
    mh_outbound_response response;
    return mh_reason_of(mh_outbound_send(&request, &response)) == MH_REASON_INVALID && response.body == NULL;
}

static void what_the_library_would_refuse_is_refused_in_a_test_too(void) {
    mh_str url = mh_text("https://a");
    const char *urls[] = {"ftp://a", "a", "", "https:/"};
    for (size_t at = 0; at < sizeof urls / sizeof *urls; at++) {
        check(is_refused((mh_outbound_request){.url = mh_text(urls[at])}), urls[at]);
    }
    check(is_refused((mh_outbound_request){.method = mh_text("A B"), .url = url}), "a method");
    check(is_refused((mh_outbound_request){.url = url, .content_type = mh_text("a\n")}), "a type");
    mh_header headers[] = {
        {mh_text("x y"), mh_text("1")}, {mh_text(""), mh_text("1")}, {{"a\0", 2}, mh_text("1")},
        {mh_text("a"), mh_text("1\r\nb: 2")}, {mh_text("a"), {"\0", 1}}, {mh_text("a"), mh_text("\x7f")},
    };
    for (size_t at = 0; at < sizeof headers / sizeof *headers; at++) {
        check(is_refused((mh_outbound_request){.url = url, .headers = {&headers[at], 1}}), "a header");
    }
    const char *secrets[] = {"", "whsec_"};
    for (size_t at = 0; at < sizeof secrets / sizeof *secrets; at++) {
        mh_outbound_response response;
        mh_webhook webhook = {.url = url, .json = mh_bytes_of(mh_text("1")), .secret = mh_text(secrets[at])};
        const mh_error *error = mh_webhook_send(&webhook, &response);
        check(mh_reason_of(error) == MH_REASON_INVALID, "an empty secret");
        check(mh_equal(mh_error_text(error), mh_text("the secret is empty")), "why");
    }
    mh_outbound_response response;
    mh_webhook webhook = {.url = mh_text("ftp://a"), .json = mh_bytes_of(mh_text("1"))};
    check(mh_reason_of(mh_webhook_send(&webhook, &response)) == MH_REASON_INVALID, "a webhook's URL");
}

static void webhooks_are_posts(void) {
    mh_outbound_response response;
    mh_webhook webhook = {.url = mh_text("https://a"), .json = mh_bytes_of(mh_text("[1]")), .secret = mh_text("s"), .attempts = 3};
    check(mh_webhook_send(&webhook, &response) == NULL && response.status == 201, "a webhook");
    check(mh_equal(asked.method, mh_text("POST")) && strcmp(body_asked, "[1]") == 0, "a post");
    check(mh_equal(asked.headers.items[0].value, mh_text("application/json")) && asked.timeout_ms == 30 * 1000, "of JSON");
    size_t before = mh_outbound_opened;
    webhook.url = mh_text("https://gone");
    const mh_error *error = mh_webhook_send(&webhook, &response);
    check(mh_reason_of(error) == MH_REASON_STATUS && mh_status_of(error) == 410, "a status");
    check(mh_outbound_opened == before && response.body == NULL, "nothing of it is open");
    check(mh_equal(mh_error_text(error), mh_text("the receiver answered with status 410")), "why it failed");
    webhook.url = mh_text("https://denied");
    error = mh_webhook_send(&webhook, &response);
    check(mh_reason_of(error) == MH_REASON_DENIED && mh_status_of(error) == 0, "no status");
    webhook.secret = mh_text("\xff");
    check(mh_reason_of(mh_webhook_send(&webhook, &response)) == MH_REASON_INVALID, "a secret that is no text");
}

static void bodies_are_read_in_pieces(void) {
    mh_call_over();
    mh_outbound_response response = sent("https://large/0");
    size_t total = 0, pieces = 0;
    mh_bytes piece;
    mh_mark before = mh_memory();
    while (mh_outbound_read(&response, &piece) == NULL && piece.data != NULL) {
        for (size_t at = 0; at < piece.len; at++) check(piece.data[at] == (uint8_t)((total + at) / 1000), "a byte");
        total += piece.len;
        pieces++;
    }
    mh_mark after = mh_memory();
    check(total == 150 * 1000 && pieces == 3 && response.body == NULL, "it is at its end, and closed");
    check(before.block == after.block && before.used == after.used && mh_outbound_opened == 0, "and takes no memory");
    check(mh_outbound_read(&response, &piece) == NULL && piece.data == NULL, "the end stays");
    response = sent("https://large/0");
    check(mh_outbound_read(&response, &piece) == NULL && piece.len > 0, "a piece");
    mh_outbound_close(&response);
    mh_outbound_close(&response);
    check(mh_outbound_opened == 0, "what is given up is closed");
}

static void whole_bodies_have_a_limit(void) {
    mh_bytes content;
    mh_outbound_response response = sent("https://a");
    check(mh_outbound_read_whole(&response, &content) == NULL && mh_equal(mh_text_of(content), mh_text("answer")), "all of it");
    check(mh_outbound_read_whole(&response, &content) == NULL && content.data != NULL && content.len == 0, "no rest");
    response = sent("https://large/1");
    check(mh_outbound_read_whole(&response, &content) == NULL && content.len == 16 * MEBIBYTE, "16 MiB");
    check(content.data[1500 * 1000] == (uint8_t)1500, "as they were");
    response = sent("https://large/2");
    const mh_error *error = mh_outbound_read_whole(&response, &content);
    check(mh_reason_of(error) == MH_REASON_TOO_LONG && content.data == NULL && response.body == NULL, "and no more");
    check(mh_equal(mh_error_text(error), mh_text("the body is longer than 16777216 bytes")), "why");
    check(mh_outbound_opened == 0, "all are closed");
}

static void what_is_open_is_closed_when_the_call_is_over(void) {
    mh_bytes piece;
    mh_outbound_response one = sent("https://large/0"), other = sent("https://a");
    check(mh_outbound_read(&one, &piece) == NULL && other.body != NULL && mh_outbound_opened == 2, "two are open");
    mh_call_over();
    check(mh_outbound_opened == 0, "none is open");
    mh_outbound_response next = sent("https://a");
    for (int again = 0; again < 2; again++) {
        check(mh_reason_of(mh_outbound_read(&one, &piece)) == MH_REASON_FAILED && piece.data == NULL, "what was kept");
        const mh_error *error = mh_outbound_read_whole(&other, &piece);
        check(mh_equal(mh_error_text(error), mh_text("the request failed: the response is closed")), "is closed");
    }
    mh_outbound_close(&one);
    mh_outbound_close(&other);
    check(mh_outbound_opened == 1 && mh_outbound_read(&next, &piece) == NULL && piece.len == 6, "another one's stays");
    mh_outbound_close(&next);
}

int main(void) {
    requests_go_out_as_they_are_meant();
    what_the_library_would_refuse_is_refused_in_a_test_too();
    webhooks_are_posts();
    bodies_are_read_in_pieces();
    whole_bodies_have_a_limit();
    what_is_open_is_closed_when_the_call_is_over();
    return 0;
}
