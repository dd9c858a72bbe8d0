/* Forms with files in C: bodies of several parts, `multipart/form-data`, as browsers and curl send them.
 *
 *     mh_form form;
 *     const mh_error *error = mh_multipart(sample, &form);
 *     if (error != NULL) return error;
 *     const mh_part *photo = mh_form_file(&form, "photo");
 *     if (photo == NULL) return mh_invalid("missing file `photo`");
 */
#ifndef MODELHOST_FORM_H
#define MODELHOST_FORM_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One part of a form. */
typedef struct {
    mh_str name;
    /* Whether it is a file, and the file's name: the caller's choice, so no path to be opened. */
    bool is_file;
    mh_str filename;
    /* `text/plain` if the part says none. */
    mh_str content_type;
    /* Where it lies in the request's body. */
    mh_bytes body;
} mh_part;

/* Parts in their order. */
typedef struct {
    const mh_part *items;
    size_t len;
} mh_form;

/* Reads the parts of a body: at most 1000, with 8 KiB of headers each. A body that is no form is the caller's
 * fault; another content type is answered with 415. */
const mh_error *mh_multipart(const mh_sample *sample, mh_form *form);
/* The first field of this name, which is no file, or NULL. */
const mh_part *mh_form_field(const mh_form *form, const char *name);
/* The first file of this name, or NULL. */
const mh_part *mh_form_file(const mh_form *form, const char *name);
/* The contents of a part as UTF-8; others are the caller's fault. */
const mh_error *mh_part_text(const mh_part *part, mh_str *text);

#ifdef __cplusplus
}
#endif

#endif
