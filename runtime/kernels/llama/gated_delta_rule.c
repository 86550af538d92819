/* SPDX-License-Identifier: BSD-3-Clause */
/* llama::gated_delta_rule: linear attention with a state that decays and is corrected token by token.
 *
 * Each head has a state matrix S, keys by values. For each token, the state decays, predicts the value for the token's
 * key, is corrected by a share beta of the difference to the token's value, and is read with the token's query:
 *     predicted = (decay S)^T k;  S = decay S + k (beta (v - predicted))^T;  out = S^T q
 * ExecuTorch computes single tokens this way, and long inputs in chunks, which gives the same except for rounding, but
 * does not work for every decay. Here there is only this way; heads are shared out to the worker's threads. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"

struct rule {
	const float *q, *k, *v, *decay, *beta;
	float *out, *state, *scratch;
	size_t n_tokens, n_keys, n_values, n_queries; /* n_queries: heads of queries for one head of keys */
	bool is_scalar;                               /* one decay for all keys */
	const struct et_compute *compute;
};

static void add_row(float *to, const float *row, float factor, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += row[i] * factor;
}

static void step(const struct rule *r, size_t head, size_t token)
{
	size_t at = head * r->n_tokens + token, n = r->n_values;
	const float *k = r->k + at * r->n_keys, *v = r->v + at * n;
	const float *decay = r->decay + at * (r->is_scalar ? 1 : r->n_keys);
	float *state = r->state + head * r->n_keys * n, *delta = r->scratch + head * n;
	memset(delta, 0, n * sizeof(*delta));
	for (size_t i = 0; i < r->n_keys; i++)
		add_row(delta, state + i * n, decay[r->is_scalar ? 0 : i] * k[i], n);
	for (size_t j = 0; j < n; j++)
		delta[j] = (v[j] - delta[j]) * r->beta[at];
	for (size_t i = 0; i < r->n_keys; i++) {
		float *row = state + i * n, factor = decay[r->is_scalar ? 0 : i];
		for (size_t j = 0; j < n; j++)
			row[j] = row[j] * factor + k[i] * delta[j];
	}
	for (size_t query = head * r->n_queries; query < (head + 1) * r->n_queries; query++) {
		const float *q = r->q + (query * r->n_tokens + token) * r->n_keys;
		float *out = r->out + (query * r->n_tokens + token) * n;
		memset(out, 0, n * sizeof(*out));
		for (size_t i = 0; i < r->n_keys; i++)
			add_row(out, state + i * n, q[i], n);
	}
}

static void run_heads(void *arg, size_t begin, size_t end)
{
	const struct rule *r = arg;
	struct et_pace pace = { r->compute };
	const size_t n_steps = r->n_keys * r->n_values * (r->n_queries + 2) + 1;
	for (size_t head = begin; head < end; head++)
		for (size_t token = 0; token < r->n_tokens && !et_pace_must_stop(&pace, n_steps); token++)
			step(r, head, token);
}

static enum et_status require_fit(struct et_kernel_ctx *ctx, const struct et_tensor *const *in,
	const struct et_tensor *decay)
{
	const struct et_tensor *q = in[0], *k = in[1], *v = in[2], *beta = in[4], *state = in[5];
	static const char *const names[] = { "query", "key", "value", "decay", "beta", "initial state" };
	for (size_t i = 0; i < 6; i++) {
		size_t rank = i == 3 ? (decay->n_dims == 3 ? 3 : 4) : i == 4 ? 3 : 4;
		ET_REQUIRE(ctx, in[i]->n_dims == rank, "%s of rank %u, not %zu", names[i], in[i]->n_dims, rank);
		ET_TRY(et_require_type(ctx, in[i], ET_FLOAT32, names[i]));
		ET_TRY(et_require_contiguous(ctx, in[i], names[i]));
	}
	ET_REQUIRE(ctx, q->sizes[0] == k->sizes[0] && q->sizes[2] == k->sizes[2] && q->sizes[3] == k->sizes[3],
		"query and key do not fit");
	ET_REQUIRE(ctx, k->sizes[1] > 0 && q->sizes[1] % k->sizes[1] == 0, "%d heads of queries for %d of keys",
		q->sizes[1], k->sizes[1]);
	for (size_t d = 0; d < 3; d++)
		ET_REQUIRE(ctx,
			v->sizes[d] == k->sizes[d] && decay->sizes[d] == k->sizes[d] && beta->sizes[d] == k->sizes[d],
			"size %zu of value, decay or beta does not fit the key", d);
	ET_REQUIRE(ctx, decay->n_dims == 3 || decay->sizes[3] == k->sizes[3], "a decay for %d keys, not %d",
		decay->sizes[3], k->sizes[3]);
	ET_REQUIRE(ctx,
		state->sizes[0] == k->sizes[0] && state->sizes[1] == k->sizes[1] && state->sizes[2] == k->sizes[3] &&
			state->sizes[3] == v->sizes[3],
		"the initial state does not fit");
	return ET_OK;
}

/* query, key, value, decay, beta, initial state > out, final state */
static enum et_status run_rule(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *in[6], *q = args[0]->tensor, *k = args[1]->tensor, *v = args[2]->tensor;
	struct et_tensor *out = args[6]->tensor, *state = args[7]->tensor;
	for (size_t i = 0; i < 6; i++)
		in[i] = args[i]->tensor;
	ET_TRY(require_fit(ctx, in, in[3]));
	ET_TRY(et_require_type(ctx, out, ET_FLOAT32, "the output"));
	ET_TRY(et_require_type(ctx, state, ET_FLOAT32, "the final state"));
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ q->sizes[0], q->sizes[1], q->sizes[2], v->sizes[3] }, 4));
	ET_TRY(et_resize_like(ctx, state, in[5]));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	ET_TRY(et_require_contiguous(ctx, state, "the final state"));
	size_t n_heads = (size_t)k->sizes[0] * (size_t)k->sizes[1], n_bytes;
	struct rule r = { .q = q->data,
		.k = k->data,
		.v = v->data,
		.decay = in[3]->data,
		.beta = in[4]->data,
		.out = out->data,
		.state = state->data,
		.n_tokens = (size_t)k->sizes[2],
		.n_keys = (size_t)k->sizes[3],
		.n_values = (size_t)v->sizes[3],
		.n_queries = (size_t)(q->sizes[1] / k->sizes[1]),
		.is_scalar = in[3]->n_dims == 3,
		.compute = ctx->compute };
	if (et_tensor_n_bytes(state))
		memmove(state->data, in[5]->data, et_tensor_n_bytes(state));
	if (!et_mul(n_heads * sizeof(float), r.n_values, &n_bytes))
		return et_refuse(ctx, "too large");
	if (n_bytes == 0)
		return ET_OK;
	r.scratch = et_kernel_scratch(ctx, n_bytes);
	if (!r.scratch)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	et_parallel_for(ctx->compute, run_heads, &r, n_heads, 1);
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "llama::channelwise_gated_delta_rule.out", "TTTTTT>TT", run_rule }, /* its older name */
	{ "llama::gated_delta_rule.out", "TTTTTT>TT", run_rule },
};

ET_KERNEL_TABLE(gated_delta_rule);
