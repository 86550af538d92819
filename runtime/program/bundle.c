/* SPDX-License-Identifier: BSD-3-Clause */
/* Bundled programs: finding the program inside.
 *
 * What must always be true: only the FlatBuffer's root is read, and the program that is found lies within the
 * bundle's bytes. The program is not opened here; et_program_open does that, with the same bytes. The test cases are
 * read in bundle_cases.c, which is not part of the core, because only tools that check programs need them. */
#include "runtime/program/bundle.h"
#include "runtime/program/flatbuffer.h"

bool et_bundle_is(const uint8_t *bytes, size_t n_bytes)
{
	return n_bytes >= 8 && bytes[4] == 'B' && bytes[5] == 'P' && bytes[6] >= '0' && bytes[6] <= '9' &&
	       bytes[7] >= '0' && bytes[7] <= '9';
}

enum et_status et_bundle_find_program(const uint8_t **ret_program, size_t *ret_n_program_bytes, const uint8_t *bytes,
	size_t n_bytes, struct et_diag *diag)
{
	struct et_fb fb;
	struct et_fb_table root = et_fb_open(&fb, bytes, n_bytes, ET_BUNDLE_IDENTIFIER, diag);
	struct et_fb_vector program = et_fb_blob(&fb, root, ET_BUNDLE_PROGRAM);
	if (program.n == 0)
		et_fb_fail(&fb, ET_E_INVALID_PROGRAM, "the bundle holds no program");
	if (et_fb_status(&fb) != ET_OK)
		return et_fb_status(&fb);
	*ret_program = program.items;
	*ret_n_program_bytes = program.n;
	return ET_OK;
}
