/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies.
 *
 * A compressed body grows by up to a thousand times. What must always be true: its size is counted after inflation,
 * piece by piece, so that no more than the limit is ever made of it; and one call inflates no more than SLICE bytes,
 * so that one client's bomb does not hold up the others. */
#include "clients/http/body.h"

#include "clients/http/memory.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { PIECE = 64 << 10, SLICE = 512 << 10 };

static voidpf take(voidpf self, uInt n, uInt size)
{
	return http_alloc((size_t)n * size);
}

static void give(voidpf self, voidpf memory)
{
	http_free(memory);
}

unsigned http_body_init(struct http_body *body, const char *encoding, uint64_t max_bytes, const char **ret_error)
{
	body->max_bytes = max_bytes;
	if (!encoding || strcasecmp(encoding, "identity") == 0)
		return 0;
	if (strcasecmp(encoding, "gzip") != 0 && strcasecmp(encoding, "deflate") != 0) {
		*ret_error = "the Content-Encoding is none of gzip, deflate, identity";
		return 415;
	}
	z_stream *z = http_alloc(sizeof(*z));
	*ret_error = "the gateway has no memory left to inflate this request";
	if (!z)
		return 503;
	z->zalloc = take;
	z->zfree = give;
	if (inflateInit2(z, 15 + 32) != Z_OK) { /* +32: gzip or zlib, as its header says */
		http_free(z);
		return 503;
	}
	body->inflate = z;
	return 0;
}

void http_body_deinit(struct http_body *body)
{
	if (body->inflate)
		inflateEnd(body->inflate);
	http_free(body->inflate);
	body->inflate = NULL;
}

static unsigned pass(struct http_body *body, const char *data, size_t n_bytes, const char **ret_error)
{
	if (n_bytes > body->max_bytes || body->n_bytes > body->max_bytes - n_bytes) {
		*ret_error = "the body is larger than the gateway allows ('body_limit' in inferd-http.conf)";
		return 413;
	}
	body->n_bytes += n_bytes;
	*ret_error = NULL;
	return n_bytes && body->sink ? body->sink(body->userdata, data, n_bytes) : 0;
}

static unsigned feed_inflated(struct http_body *body, const char *data, size_t n_bytes, size_t *ret_n_taken,
	const char **ret_error)
{
	static char piece[PIECE];
	z_stream *z = body->inflate;
	size_t n_made = 0;
	unsigned code = 0;
	uInt n = n_bytes > UINT32_MAX ? UINT32_MAX : (uInt)n_bytes;
	z->next_in = (Bytef *)(uintptr_t)data;
	z->avail_in = n;
	*ret_error = "the compressed body has bytes behind its end";
	do {
		if (body->is_inflated)
			return 400;
		z->next_out = (Bytef *)piece;
		z->avail_out = sizeof(piece);
		int rc = inflate(z, Z_NO_FLUSH);
		body->is_inflated = rc == Z_STREAM_END;
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) {
			*ret_error = "the body is not what its Content-Encoding says";
			return 400;
		}
		n_made += sizeof(piece) - z->avail_out;
		code = pass(body, piece, sizeof(piece) - z->avail_out, ret_error);
		if (!code && !z->avail_in && z->avail_out)
			break;
		*ret_error = code ? *ret_error : "the compressed body has bytes behind its end";
		/* where nothing is left to take, what inflate still holds is little */
	} while (!code && ((n_made < SLICE && !body->is_paused) || !z->avail_in) &&
		 !(body->is_inflated && !z->avail_in));
	*ret_n_taken = n - z->avail_in;
	return code;
}

unsigned http_body_feed(struct http_body *body, const char *data, size_t n_bytes, size_t *ret_n_taken,
	const char **ret_error)
{
	unsigned code;
	*ret_n_taken = n_bytes;
	body->is_paused = false;
	if (body->is_dropping)
		return 0;
	code = body->inflate ? feed_inflated(body, data, n_bytes, ret_n_taken, ret_error)
			     : pass(body, data, n_bytes, ret_error);
	if (code) {
		body->is_dropping = true;
		*ret_n_taken = n_bytes;
	}
	return code;
}

unsigned http_body_end(const struct http_body *body, const char **ret_error)
{
	*ret_error = "the compressed body is cut off";
	return body->inflate && !body->is_inflated && !body->is_dropping ? 400 : 0;
}
