/* Inside the direct adapter: what direct.c, payload.c and run.c share. */
#ifndef DELEGATES_DIRECT_BACKEND_H
#define DELEGATES_DIRECT_BACKEND_H

#include "delegates/direct/direct.h"
#include "delegates/interface.h"

struct et_backend {
	struct et_delegate_ops ops; /* with what this table has */
	struct inferd_delegate table;
	struct et_allocator allocator;
	const struct et_log *log;
	struct et_pool pool; /* what the host table points to, and the devices */
	struct inferd_delegate_host host;
	void *self;
	struct inferd_delegate_device *devices;
	uint32_t n_devices;
};

struct et_lane {
	struct et_backend *backend;
	struct inferd_delegate_lane *lane; /* NULL: the delegate has none for this device */
	struct et_compute compute;
};

struct et_compiled {
	struct et_backend *backend;
	struct et_pool pool; /* what the payload points to */
	const struct et_program *program;
	const struct et_store *kept;
	struct inferd_delegate_store store;
	struct inferd_delegate_payload payload;
	struct inferd_delegate_model *model;
	uint32_t n_inputs, n_outputs, device;
	bool is_on_lane;
};

/* Pairs as the interface has them, in @pool; NULL: no memory. */
struct et_direct_pairs {
	struct inferd_delegate_pair *items;
	const struct inferd_delegate_pair **pointers;
};
bool et_direct_pairs_new(struct et_direct_pairs *ret_pairs, uint32_t n, struct et_pool *pool);
bool et_direct_pair_set(struct et_direct_pairs *pairs, uint32_t i, const char *key, const void *value,
	size_t n_bytes, struct et_pool *pool);

/* An empty message. */
static inline void et_direct_message_init(struct inferd_delegate_message *message)
{
	message->struct_size = sizeof *message;
	message->reserved = 0;
	message->text[0] = '\0';
}
/* What it says about @result. */
enum et_status et_direct_status(int result, struct inferd_delegate_message *message, struct et_diag *diag);

/* --- payload.c and run.c, as the delegate interface of the runtime has them -------------------------- */

enum et_status et_direct_probe(struct et_backend *backend, const struct et_payload *payload,
	enum et_readiness *ret_readiness, struct et_diag *diag);
enum et_status et_direct_compile(struct et_backend *backend, const struct et_payload *payload,
	struct et_compiled **ret_compiled, struct et_compiled_info *ret_info, struct et_diag *diag);
void et_direct_compiled_free(struct et_compiled *compiled);
enum et_status et_direct_keep(struct et_compiled *compiled, struct et_diag *diag);

enum et_status et_direct_context_new(struct et_compiled *compiled, struct et_lane *lane,
	struct et_context **ret_context, struct et_diag *diag);
void et_direct_context_free(struct et_context *context);
enum et_status et_direct_context_reset(struct et_context *context);
enum et_status et_direct_execute(struct et_context *context, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag);
enum et_status et_direct_profile(struct et_context *context, struct et_evalue *const *args,
	const struct et_trace *trace, uint32_t instruction, struct et_diag *diag);

#endif
