/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside ipc/: the memory of one message, for message.c. */
#ifndef IPC_CODEC_INTERNAL_H
#define IPC_CODEC_INTERNAL_H

#include "ipc/message.h"

/* Begin a message: empty the pool, and allow @budget bytes. */
void inf_codec_begin(struct inf_codec *codec, size_t budget);
/* Memory from the pool, not zeroed; @self is the codec. NULL: the budget is used up, or the allocator failed. The
 * signatures are those of ProtobufCAllocator. */
void *inf_codec_alloc(void *self, size_t n_bytes);
/* Does nothing: the whole pool is emptied by the next inf_codec_begin. */
void inf_codec_free(void *self, void *ptr);
void *inf_codec_array(struct inf_codec *codec, size_t n, size_t item_bytes);

/* Whether all of @text is valid UTF-8. */
bool inf_codec_is_utf8(const char *text);
/* Check a received string, which protobuf-c allocated with inf_codec_alloc. NULL: it has more than @max bytes, is
 * not valid UTF-8, or has a NUL inside. */
const char *inf_codec_check_string(const char *text, size_t max);
/* Copy at most @max bytes, cut between characters; each byte that is not valid UTF-8 becomes '?'. NULL: no memory. */
char *inf_codec_mend_string(struct inf_codec *codec, const char *text, size_t max);

#endif
