/* SPDX-License-Identifier: BSD-3-Clause */
/* Store: where a delegate keeps what it made of a program, for the next time the program is loaded.
 *
 * A table of functions that belongs to the bytes of one program (struct et_source, program.h) and of its data
 * files: it knows which bytes these are, so that what is kept is found again only for the very same ones. The
 * delegate adds a variant: a text that says for which library and which processor it made the thing. What
 * comes out is what went in, whole; but it is a file, so its numbers are checked again before one of them
 * decides an address. */
#ifndef RUNTIME_STORE_H
#define RUNTIME_STORE_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
	ET_STORE_ALIGNMENT = 4096, /* of what find gives */
	ET_STORE_PADDING = 64,     /* readable bytes behind it */
	ET_STORE_MAX_VARIANT = 255,
};

struct et_store_piece {
	const void *bytes;
	size_t n_bytes;
};

struct et_store {
	void *self;
	/* What was kept as @variant: read-only memory until @ret_handle is released. Answers: ET_E_NOT_FOUND, also for
	 * something damaged (which is logged and thrown away). Fast. Any thread. */
	enum et_status (*find)(void *self, const char *variant, const uint8_t **ret_bytes, size_t *ret_n_bytes,
		void **ret_handle);
	void (*release)(void *self, void *handle);
	/* Keep @pieces, one after the other, in place of what was kept as @variant before; those who have found that keep
	 * it. All or nothing. Slow: reads the whole program, writes and waits for the disk. Any thread. */
	enum et_status (*keep)(void *self, const char *variant, const struct et_store_piece *pieces, size_t n_pieces,
		struct et_diag *diag);
};

#endif
