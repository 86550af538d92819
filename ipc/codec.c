/* SPDX-License-Identifier: BSD-3-Clause */
/* A codec's working memory, and the strings in it.
 *
 * What must always be true:
 *   - All memory of a message comes from the codec's pool, within the budget of that message.
 *   - The size of each allocation is stored in front of it. A received string with a NUL inside is shorter than its
 *     allocation; that is how it is detected. */
#include "ipc/codec_internal.h"

#include "runtime/base/checked.h"

#include <string.h>

enum { PIECE_ALIGN = _Alignof(max_align_t), PIECE_HEADER = PIECE_ALIGN };

void inf_codec_init(struct inf_codec *codec, const struct et_allocator *allocator)
{
	*codec = (struct inf_codec){ 0 };
	et_pool_init(&codec->pool, allocator);
}

void inf_codec_deinit(struct inf_codec *codec)
{
	et_pool_deinit(&codec->pool);
}

void inf_codec_begin(struct inf_codec *codec, size_t budget)
{
	et_pool_reset(&codec->pool);
	codec->n_left = budget;
	codec->refused = false;
}

void *inf_codec_alloc(void *self, size_t n_bytes)
{
	struct inf_codec *codec = self;
	size_t need;
	if (!et_add(n_bytes, PIECE_HEADER, &need) || need > codec->n_left)
		return NULL;
	uint8_t *piece = et_pool_scratch(&codec->pool, need, PIECE_ALIGN);
	if (!piece) {
		codec->refused = true;
		return NULL;
	}
	codec->n_left -= need;
	memcpy(piece, &n_bytes, sizeof n_bytes);
	return piece + PIECE_HEADER;
}

void *inf_codec_array(struct inf_codec *codec, size_t n, size_t item_bytes)
{
	size_t n_bytes;
	return et_mul(n, item_bytes, &n_bytes) ? inf_codec_alloc(codec, n_bytes) : NULL;
}

void inf_codec_free(void *self, void *ptr)
{
}

/* --- strings ----------------------------------------------------------------------------------------------- */

/* The length of the UTF-8 sequence at @text, which ends with a NUL; 0: not valid UTF-8. */
static size_t utf8_sequence(const uint8_t *text)
{
	uint8_t lead = text[0];
	size_t n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, beyond the last code point */
	if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f) || (lead == 0xf0 && text[1] < 0x90) ||
		(lead == 0xf4 && text[1] > 0x8f))
		return 0;
	return n;
}

bool inf_codec_is_utf8(const char *text)
{
	for (const uint8_t *at = (const uint8_t *)text; *at;) {
		size_t n = utf8_sequence(at);
		if (!n)
			return false;
		at += n;
	}
	return true;
}

const char *inf_codec_check_string(const char *text, size_t max)
{
	size_t n_piece, n = strlen(text);
	memcpy(&n_piece, text - PIECE_HEADER, sizeof n_piece);
	return n + 1 == n_piece && n <= max && inf_codec_is_utf8(text) ? text : NULL;
}

char *inf_codec_mend_string(struct inf_codec *codec, const char *text, size_t max)
{
	size_t n = strnlen(text, max), n_done = 0;
	char *copy = inf_codec_alloc(codec, n + 1);
	if (!copy)
		return NULL;
	while (n_done < n && text[n_done]) {
		size_t n_char = utf8_sequence((const uint8_t *)text + n_done);
		if (n_char > n - n_done)
			break;
		if (n_char)
			memcpy(copy + n_done, text + n_done, n_char);
		else
			copy[n_done] = '?';
		n_done += n_char ? n_char : 1;
	}
	copy[n_done] = '\0';
	return copy;
}
