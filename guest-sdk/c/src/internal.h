/* What the SDK's files share and a handler does not see. */
#ifndef MODELHOST_INTERNAL_H
#define MODELHOST_INTERNAL_H

#include "modelhost.h"

/* In the order of the contract. */
enum { MH_ERROR_INVALID, MH_ERROR_INTERNAL, MH_ERROR_RESPOND };

struct mh_error {
    uint8_t kind;
    /* A mh_reason, and the status of one that has it, where the contract's error has a gap. */
    uint8_t reason;
    uint16_t status;
    union {
        mh_str text;
        mh_response response;
    } as;
};

struct mh_context {
    int32_t handle;
    /* What `{name}` stands for in a route's pattern. */
    mh_headers path_parameters;
};

/* A text that is there or not. */
typedef struct {
    uint8_t has;
    mh_str text;
} mh_optional_text;

/* An error of one of the host's stores; `text` is not set for a kind that has none. */
typedef struct {
    uint8_t kind;
    mh_str text;
} mh_store_error;

/* Gives the host its context back, and what the call has opened. */
void mh_context_over(const mh_context *context);

/* A handle of the host's that a call has opened, and the name that it was opened by. Its memory is not that of
 * the call, which a socket gives back with each message. */
typedef struct mh_opened {
    struct mh_opened *next;
    void (*drop)(int32_t handle);
    int32_t handle;
    mh_str name;
    /* Of malloc(), or NULL; freed when it is open no more. */
    void *memory;
    /* Of no other, also when its memory is used again. */
    uint64_t number;
} mh_opened;

/* What is open of this kind and name, or NULL. */
const mh_opened *mh_find_opened(void (*drop)(int32_t handle), mh_str name);
/* Notes that a handle is open. */
mh_opened *mh_note_opened(void (*drop)(int32_t handle), int32_t handle, mh_str name);
/* Whether this one, of this number, is open still; its memory may be gone. */
bool mh_is_open(const mh_opened *one, uint64_t number);
/* It is open no more: its handle is the caller's, to be dropped or given to the host. False: it was not open. */
bool mh_take_opened(const mh_opened *opened, mh_opened *taken);
/* Drops all that is open, the last first. Called when the function of the call has returned: later, when its memory
 * is given back, nothing of the host may be called. */
void mh_close_opened(void);

/* How much memory is taken, and what gives back all that was taken since then. */
typedef struct {
    const void *block;
    size_t used;
} mh_mark;
mh_mark mh_memory(void);
void mh_give_back(mh_mark mark);
/* The same where what was taken may have been the handler's: a writer of JSON that has kept some begins anew. */
void mh_end_message(mh_mark mark);
/* Counts calls, and the messages of a socket. */
uint32_t mh_memory_age(void);

/* An internal error with a reason. */
const mh_error *mh_because(mh_reason reason, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* How often `init` has ended. A later start of the host begins with its memory, so each instance describes
 * its metrics. */
extern uint32_t mh_inits;
/* Whether it is UTF-8: the host takes no other text, and ends an instance that gives one. */
bool mh_is_text(mh_str text);

/* The context of the call, while it is one of a single request that brings a body; else NULL. */
extern const mh_context *mh_called_with;
/* An error in the form of the host's own, with the request's id if its context is known; in a unit test it is `test`. */
mh_response mh_refusal(const mh_context *context, uint16_t status, mh_str text, const char *code);

/* The response of a request of a batch that has no answer yet. */
mh_response mh_unanswered(void);
/* The error of a request of a batch, which is one too if it has no answer still. */
const mh_error *mh_member_error(const mh_error *error, const mh_response *response);

/* A list of texts that grows. */
typedef struct {
    mh_str *items;
    size_t len, room;
} mh_growing_list;
void mh_append(mh_growing_list *texts, mh_text_list page);

#ifndef __wasm__
/* For tests of the SDK: bodies of responses that are open. */
extern size_t mh_outbound_opened;
#endif

#endif
