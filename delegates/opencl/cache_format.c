/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of cache files. Some drivers crash on a binary that is cut short, so magic, length and checksum are checked
 * before a driver sees a byte. The checksum tells damage, not malice: whoever can write to the folder can compile. */
#include "delegates/opencl/cache_format.h"

#include "runtime/platform/platform.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct ocl_cache_header) == 160 && (int)OCL_KEY == (int)ET_PLATFORM_DIGEST, "file");

static const char magic[16] = "inferd OpenCL 1";
const char *const ocl_cache_endings[OCL_N_CACHE_KINDS] = { "binary", "request" };

struct ocl_cache_header ocl_cache_header(enum ocl_cache_kind kind, const char *key, const uint8_t *body, size_t n)
{
	struct ocl_cache_header header = { .kind = kind, .n_body = n };
	char digest[ET_PLATFORM_DIGEST];
	et_platform_digest(body, n, digest);
	memcpy(header.magic, magic, sizeof(magic));
	memcpy(header.key, key, sizeof(header.key));
	memcpy(header.digest, digest, sizeof(header.digest));
	return header;
}

enum et_status ocl_cache_check(enum ocl_cache_kind kind, const char *key, const uint8_t *bytes, size_t n,
	const uint8_t **ret_body, size_t *ret_n, struct et_diag *diag)
{
	struct ocl_cache_header header;
	char digest[ET_PLATFORM_DIGEST];
	if (n < sizeof(header))
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it is cut short: %zu bytes", n);
	memcpy(&header, bytes, sizeof(header));
	if (memcmp(header.magic, magic, sizeof(magic)) != 0 || header.kind != kind)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it is no %s of this version of the plug-in",
			ocl_cache_endings[kind]);
	if (header.n_body != n - sizeof(header))
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it has %zu bytes, not %llu", n - sizeof(header),
			(unsigned long long)header.n_body);
	if (memcmp(header.key, key, sizeof(header.key)) != 0)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it has the key of another file");
	et_platform_digest(bytes + sizeof(header), n - sizeof(header), digest);
	if (memcmp(header.digest, digest, sizeof(header.digest)) != 0)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "its checksum is wrong");
	*ret_body = bytes + sizeof(header);
	*ret_n = n - sizeof(header);
	return ET_OK;
}

enum et_status ocl_request_read(struct ocl_request *ret_request, const uint8_t *body, size_t n, struct et_diag *diag)
{
	size_t n_family = strnlen((const char *)body, n);
	const char *definitions = (const char *)body + n_family + 1;
	if (n_family >= OCL_FAMILY || n_family + 2 > n || body[n - 1] || n - n_family - 1 > OCL_MAX_DEFINITIONS ||
		strlen(definitions) + 1 != n - n_family - 1)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it is no name and no definitions");
	for (const char *c = definitions; *c; c++)
		if ((*c < ' ' || *c > '~') && *c != '\n')
			return et_fail(diag, ET_E_INVALID_PROGRAM, "a definition has the character %d",
				(unsigned char)*c);
	memcpy(ret_request->family, body, n_family + 1);
	memcpy(ret_request->definitions, definitions, n - n_family - 1);
	return ET_OK;
}

size_t ocl_request_write(const struct ocl_request *request, uint8_t *room)
{
	size_t n_family = strlen(request->family) + 1, n_definitions = strlen(request->definitions) + 1;
	memcpy(room, request->family, n_family);
	memcpy(room + n_family, request->definitions, n_definitions);
	return n_family + n_definitions;
}
