/* SPDX-License-Identifier: BSD-3-Clause */
/* Store: where a delegate keeps what it made from a program, for the next load of the program.
 *
 * A store is a table of functions that belongs to the contents of one program (struct et_source, program.h) and its
 * data files. It identifies them by their bytes, so kept data is found again only for exactly the same contents. The
 * delegate adds a key: a text that names the library's version and the processor for which it made the data. The store
 * returns exactly the bytes that were kept. But they come from a file: the delegate checks every number in them before
 * the number decides an address. */
#ifndef RUNTIME_STORE_H
#define RUNTIME_STORE_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
	ET_STORE_ALIGNMENT = 4096, /* alignment of the bytes that find returns */
	ET_STORE_PADDING = 64,     /* readable bytes behind them */
	ET_STORE_MAX_KEY = 255,
};

struct et_store_piece {
	const void *bytes;
	size_t n_bytes;
};

struct et_store {
	void *self;
	/* Find what was kept as @key: read-only memory, valid until @ret_handle is released. Fast. Any thread.
	 * Answers: ET_E_NOT_FOUND, also for damaged data (which is logged and deleted). */
	enum et_status (*find)(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes,
		void **ret_handle);
	void (*release)(void *self, void *handle);
	/* Keep @pieces, one after the other, as @key, in place of what was kept as @key before. Memory that find
	 * returned earlier keeps the old contents. All or nothing. Slow: it reads the whole program, writes and
	 * waits for the disk. Any thread. */
	enum et_status (*keep)(void *self, const char *key, const struct et_store_piece *pieces, size_t n_pieces,
		struct et_diag *diag);
};

#endif
