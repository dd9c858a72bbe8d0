/* What the SDK's files share and a handler does not see. */
#ifndef MODELHOST_INTERNAL_H
#define MODELHOST_INTERNAL_H

#include "modelhost.h"

/* In the order of the contract. */
enum { MH_ERROR_INVALID, MH_ERROR_INTERNAL, MH_ERROR_RESPOND };

struct mh_error {
    uint8_t kind;
    union {
        mh_str text;
        mh_response response;
    } as;
};

struct mh_context {
    int32_t handle;
};

/* Gives the host its context back. */
void mh_context_over(const mh_context *context);

#endif
