/* SPDX-License-Identifier: BSD-3-Clause */
/* ETDump: a profile as a file that ExecuTorch's Inspector reads, and that inferctl makes a trace for Perfetto from.
 *
 * One run ("Execute"). Its events are named as the original's: the whole "Method::execute", a kernel's instruction
 * "native_call_add.out", the others DELEGATE_CALL, MOVE_CALL, JF_CALL and FREE_CALL, an operator inside of a delegate
 * "Convolution (NHWC, F32) IGEMM #2". Times are nanoseconds. Instructions count through all chains; chain_index is 0.
 *
 * Source: ExecuTorch devtools/etdump/etdump_schema_flatcc.fbs (identifier ED00), with the size in front. */
#ifndef RUNTIME_PROFILE_ETDUMP_H
#define RUNTIME_PROFILE_ETDUMP_H

#include "runtime/profile/fb_write.h"
#include "runtime/profile/profile.h"
#include "runtime/program/program.h"

/* Fields, as the schema counts them. */
enum {
	ET_ETDUMP_VERSION = 0,
	ET_ETDUMP_RUNS,
	ET_ETDUMP_RUN_NAME = 0,
	ET_ETDUMP_RUN_BUNDLED_INPUT,
	ET_ETDUMP_RUN_ALLOCATORS,
	ET_ETDUMP_RUN_EVENTS,
	ET_ETDUMP_EVENT_PROFILE = 0,
	ET_ETDUMP_PROFILE_NAME = 0,
	ET_ETDUMP_PROFILE_CHAIN,
	ET_ETDUMP_PROFILE_INSTRUCTION,
	ET_ETDUMP_PROFILE_DELEGATE_INT,
	ET_ETDUMP_PROFILE_DELEGATE_TEXT,
	ET_ETDUMP_PROFILE_METADATA,
	ET_ETDUMP_PROFILE_BEGIN,
	ET_ETDUMP_PROFILE_END,
	ET_ETDUMP_PREFIX = 4, /* bytes in front of the FlatBuffer: its size */
};

/* What writing one of @max_events takes at most, the file included. */
size_t et_etdump_max_bytes(uint32_t max_events);

/* @method: what ran. The bytes are @writer's, which is to be deinited in any case. Events that have not ended (the run
 * failed there) are left out. */
enum et_status et_etdump_write(struct et_fbw *writer, const struct et_profile *profile,
	const struct et_method_spec *method, const uint8_t **ret_bytes, size_t *ret_n_bytes);

#endif
