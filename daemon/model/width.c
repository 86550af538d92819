/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a model's next run uses one core or all of them.
 *
 * More cores do not always help: a small model has finished before its threads have met, and beside other processes
 * the threads wait for one that does not run, up to seconds. So runs on all cores are tried, and compared with the
 * average on one core. What must always be true:
 *   - A trial costs at most what it could win: a run that is not done after one and a half times the average on one
 *     core goes on with one core, and it counts as a loss. The worker sees to that between two instructions, so a
 *     trial can cost more by the rest of one instruction. Within it the pool of threads bounds the waiting, in
 *     XNNPACK's calls and in kernels' loops alike (delegates/xnnpack/pool/): the calling thread does what no other has
 *     begun, and after a loss goes on alone for at most a second.
 *   - All cores are not used while other processes use them.
 *   - A model gets all cores after N_GAINS trials in a row that gained, each after a run on one core, and loses them
 *     after MAX_LOSSES runs in a row that did not gain.
 *   - After each loss the next trial comes after twice as many runs and twice as much time. The very first trial is
 *     forgiven, because it finds cold caches. Patience ends when the model has gained for a while.
 *
 * Runs of one model may differ in the sizes of their inputs. Each size has its own width, two for each doubling;
 * sizes 16 times apart share one. What remains, such as the length of a sequence in a state, averages forgive: a single
 * outlier counts for little.
 *
 * Each value is right by itself, but two values read together may be one run apart. */
#include "daemon/model/width.h"

#define SECOND_NS UINT64_C(1000000000)
enum { N_FIRST = 3, N_GAINS = 3, MAX_LOSSES = 2, N_PATIENT_GAINS = 32, SINGLE_CORE_EVERY = 32, TRY_AGAIN = 32 };
/* The longest pauses between two trials: 8,192 runs and 68 minutes. */
enum { MAX_RUN_DOUBLINGS = 8, MAX_PATIENCE = 12 };

static uint64_t get(const _Atomic(uint64_t) *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static uint32_t get32(const _Atomic(uint32_t) *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static void set32(_Atomic(uint32_t) *value, uint32_t to)
{
	atomic_store_explicit(value, to, memory_order_relaxed);
}

static uint32_t count(_Atomic(uint32_t) *value)
{
	return atomic_fetch_add_explicit(value, 1, memory_order_relaxed) + 1;
}

static bool uses_all_cores(const struct inf_width *width)
{
	return atomic_load_explicit(&width->uses_all_cores, memory_order_relaxed);
}

static void set_all_cores(struct inf_width *width, bool to)
{
	atomic_store_explicit(&width->uses_all_cores, to, memory_order_relaxed);
}

/* A moving average; a single outlier counts for little. */
static void average(_Atomic(uint64_t) *average_ns, uint32_t n, uint64_t ns)
{
	uint64_t before = get(average_ns);
	if (n <= N_FIRST) /* the first runs find cold caches: the best of them is closest */
		before = n == 1 || ns < before ? ns : before;
	else
		before = before - before / 4 + (ns < 4 * before ? ns : 4 * before) / 4;
	atomic_store_explicit(average_ns, before ? before : 1, memory_order_relaxed);
}

static void wait_longer(struct inf_width *width, uint64_t now_ns)
{
	uint32_t patience = get32(&width->patience);
	patience = patience < MAX_PATIENCE ? patience + 1 : patience;
	set32(&width->patience, patience);
	atomic_store_explicit(&width->next_trial_ns, now_ns + (SECOND_NS << patience), memory_order_relaxed);
}

static void add_gain(struct inf_width *width)
{
	uint32_t n_gains = count(&width->n_gains);
	set32(&width->n_losses, 0);
	if (n_gains >= N_GAINS)
		set_all_cores(width, true);
	if (n_gains >= N_PATIENT_GAINS)
		set32(&width->patience, 0);
}

static void add_loss(struct inf_width *width, bool is_first, uint64_t now_ns)
{
	uint32_t n_losses = count(&width->n_losses);
	if (uses_all_cores(width) && n_losses < MAX_LOSSES)
		return;
	set_all_cores(width, false);
	set32(&width->n_gains, 0);
	if (!is_first)
		wait_longer(width, now_ns);
}

void inf_width_add(struct inf_width *width, bool is_all_cores, uint64_t run_ns, uint64_t now_ns)
{
	if (!is_all_cores) {
		average(&width->single_core_ns, count(&width->n_single_core), run_ns);
		count(&width->n_since_all_cores);
		set32(&width->n_since_single_core, 0);
		return;
	}
	uint64_t single_core_ns = get(&width->single_core_ns);
	uint32_t n = count(&width->n_all_cores);
	average(&width->all_cores_ns, n, run_ns);
	count(&width->n_since_single_core);
	set32(&width->n_since_all_cores, 0);
	if (run_ns < single_core_ns - single_core_ns / 8)
		add_gain(width);
	else
		add_loss(width, n == 1, now_ns);
}

/* Trials that gain, and the first ones, come after a single run on one core. */
static bool is_trial_due(const struct inf_width *width, uint64_t now_ns)
{
	uint32_t patience = get32(&width->patience), n_since_all_cores = get32(&width->n_since_all_cores);
	if (!patience || get32(&width->n_gains))
		return n_since_all_cores >= 1;
	uint32_t doublings = patience < MAX_RUN_DOUBLINGS ? patience : MAX_RUN_DOUBLINGS;
	return n_since_all_cores >= (uint32_t)TRY_AGAIN << doublings && now_ns >= get(&width->next_trial_ns);
}

bool inf_width_choose(struct inf_width *width, uint64_t now_ns, bool (*is_busy)(void *self), void *self)
{
	/* now and then one core, so that the comparison is with how things are now */
	bool is_wanted = uses_all_cores(width) ? get32(&width->n_since_single_core) < SINGLE_CORE_EVERY - 1
					       : is_trial_due(width, now_ns);
	if (is_wanted && now_ns >= width->next_check_ns) {
		width->is_busy = is_busy(self);
		width->next_check_ns = now_ns + INF_WIDTH_CHECK_NS;
	}
	return is_wanted && !width->is_busy;
}

struct inf_width *inf_widths_find(struct inf_widths *widths, uint64_t n_bytes)
{
	uint32_t doublings = 63 - (uint32_t)__builtin_clzll(n_bytes | 2);
	uint32_t half = n_bytes >> (doublings - 1) & 1;
	widths->last = (2 * doublings + half) % INF_N_WIDTHS;
	return &widths->of[widths->last];
}

uint64_t inf_width_limit_ns(const struct inf_width *width)
{
	uint64_t single_core_ns = get(&width->single_core_ns);
	return single_core_ns + single_core_ns / 2;
}

bool inf_width_uses_all_cores(const struct inf_width *width)
{
	return uses_all_cores(width) && !width->is_busy;
}

const char *inf_width_reason(const struct inf_width *width)
{
	if (!get32(&width->n_single_core))
		return "no run yet";
	if (uses_all_cores(width))
		return width->is_busy ? "other processes use the cores" : "all cores are faster";
	if (is_trial_due(width, UINT64_MAX) && width->is_busy)
		return "other processes use the cores";
	if (get32(&width->patience))
		return "all cores were not faster";
	return "all cores are being tried";
}
