/* SPDX-License-Identifier: BSD-3-Clause */
/* A FlatBuffer builder for tests: just enough to make valid and hostile buffers.
 *
 * It writes back to front, so an object is made before the objects that refer to it. A reference is the distance
 * from the buffer's end, which does not change as the buffer grows; fbb_at converts it to an offset when the buffer
 * is finished, for tests that damage the buffer there. It uses malloc and aborts when memory runs out: it is for
 * tests and tools alone. */
#ifndef TESTS_SUPPORT_FB_BUILD_H
#define TESTS_SUPPORT_FB_BUILD_H

#include <stddef.h>
#include <stdint.h>

enum { FBB_MAX_FIELDS = 32 };

/* A thing in the buffer; 0 = nothing, which fbb_add_ref leaves out. */
typedef uint32_t fbb_ref;

struct fb_build {
	uint8_t *bytes; /* the buffer is its last n_used bytes */
	size_t n_capacity;
	size_t n_used;
	size_t field_at[FBB_MAX_FIELDS]; /* of the table being built: distance from the end, 0 = absent */
	size_t table_begin;
};

void fbb_init(struct fb_build *b);
void fbb_deinit(struct fb_build *b);

/* Strings and vectors copy what they are given. */
fbb_ref fbb_string(struct fb_build *b, const char *text);
fbb_ref fbb_string_n(struct fb_build *b, const char *text, size_t n);
/* n items of @item_bytes each; the first is aligned to @align. */
fbb_ref fbb_vector(struct fb_build *b, const void *items, size_t n, size_t item_bytes, size_t align);
fbb_ref fbb_bytes(struct fb_build *b, const void *bytes, size_t n);
fbb_ref fbb_refs(struct fb_build *b, const fbb_ref *refs, size_t n);

/* One table at a time: begin, add fields, end. References are made before begin. */
void fbb_table_begin(struct fb_build *b);
void fbb_add_u8(struct fb_build *b, unsigned field, uint8_t value);
void fbb_add_u16(struct fb_build *b, unsigned field, uint16_t value);
void fbb_add_u32(struct fb_build *b, unsigned field, uint32_t value);
void fbb_add_u64(struct fb_build *b, unsigned field, uint64_t value);
void fbb_add_f32(struct fb_build *b, unsigned field, float value);
void fbb_add_f64(struct fb_build *b, unsigned field, double value);
void fbb_add_ref(struct fb_build *b, unsigned field, fbb_ref ref);
fbb_ref fbb_table_end(struct fb_build *b);

/* Write the root's offset and the identifier (NULL: none), with @n_header zeroed bytes behind them. */
void fbb_finish(struct fb_build *b, fbb_ref root, const char *identifier, size_t n_header);
uint8_t *fbb_data(struct fb_build *b, size_t *ret_n_bytes);
/* Where @ref lies in the finished buffer. */
size_t fbb_at(const struct fb_build *b, fbb_ref ref);

#endif
