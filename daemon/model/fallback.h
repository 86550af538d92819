/* SPDX-License-Identifier: BSD-3-Clause */
/* Fallback: the Methods of a model whose backend was given up move to the model's next variant.
 *
 * A plug-in that crashes too often is given up (delegates/plugin), and so is a variant whose runs fail too often
 * (failure/run_failures.h), if there is another one. The fallback then opens the plug-in's models, or that model,
 * again, and the first variant that can run and has the same inputs and outputs becomes the model's successor. The
 * Methods move between two of their requests and keep their bindings (daemon/client/method.h). Clients see the
 * requests that failed meanwhile, with BACKEND_CRASHED or INTERNAL, and, where the model has a state, that the state is
 * lost. When the backend was restarted, or the model was loaded by an administrator, stateless Methods return the same
 * way. Loop thread only. */
#ifndef DAEMON_MODEL_FALLBACK_H
#define DAEMON_MODEL_FALLBACK_H

struct et_log;
struct et_registry;
struct inf_repository;

/* The owner sets it once, before the first call; everything must outlive the repository's opens. */
struct inf_fallback {
	const struct et_registry *registry;
	struct inf_repository *repository;
	const struct et_log *log;
	/* A model has a new successor, or is loaded anew for its damaged weights, or that has failed: have idle Methods
	 * move, and requests wait or go on, but not inside this call. */
	void (*successor_found)(void *self);
	void *self;
};

/* A backend may have been given up: abandon the models that need it, and look for a successor of each. Look for one of
 * each model whose runs failed too often, and abandon the model when there is one. Also have the models loaded anew
 * whose persisted weights were found damaged. */
void inf_fallback_check(struct inf_fallback *fallback);
/* A backend was restarted: models return to the variants that were passed over. */
void inf_fallback_return(struct inf_fallback *fallback);
/* Variants of @model are not passed over any more (inf_repository_retry): it returns to them. */
void inf_fallback_retry(struct inf_fallback *fallback, const char *model);

#endif
