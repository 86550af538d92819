/* SPDX-License-Identifier: BSD-3-Clause */
/* ETDump: a profile as a file that ExecuTorch's Inspector reads, and from which inferctl makes a trace for Perfetto.
 *
 * The file has one run ("Execute"). Events are named as in ExecuTorch: "Method::execute" for the whole run,
 * "native_call_add.out" for a kernel's instruction; DELEGATE_CALL, MOVE_CALL, JF_CALL and FREE_CALL for the others;
 * "Convolution (NHWC, F32) IGEMM #2" for an operator inside a delegate. Times are in nanoseconds. Instructions are
 * numbered through all chains; chain_index is 0.
 *
 * Source: ExecuTorch devtools/etdump/etdump_schema_flatcc.fbs (identifier ED00), with the size in front. */
#ifndef RUNTIME_PROFILE_ETDUMP_H
#define RUNTIME_PROFILE_ETDUMP_H

#include "runtime/profile/fb_write.h"
#include "runtime/profile/profile.h"
#include "runtime/program/program.h"

/* Numbers of the fields in the schema. */
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
	ET_ETDUMP_PREFIX = 4, /* bytes in front of the FlatBuffer, which hold its size */
};

/* The most memory that writing a profile of @max_events takes, the file included. */
size_t et_etdump_max_bytes(uint32_t max_events);

/* Write the profile. @method: the name of what ran. The bytes belong to @writer, which the caller deinits in any
 * case. Events without an end are left out: the run failed there. */
enum et_status et_etdump_write(struct et_fbw *writer, const struct et_profile *profile,
	const struct et_method_spec *method, const uint8_t **ret_bytes, size_t *ret_n_bytes);

#endif
