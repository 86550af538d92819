/* SPDX-License-Identifier: BSD-3-Clause */
/* Fallback: Methods of a model whose backend was given up go on with the model's next variant.
 *
 * A plug-in that crashes too often is given up (delegates/plugin). What its models serve is then looked at anew, and
 * the first variant that can run takes over, if it has the same inputs and outputs: the Methods change over between two
 * of their requests and keep their bindings; clients notice the requests that failed meanwhile, with BACKEND_CRASHED,
 * and, where the model has state, that it is lost. Methods of clients that asked for that backend stay with it,
 * and those that share a state: the next variant is another program.
 * When the backend was restarted, stateless Methods return the same way. Loop thread only. */
#ifndef DAEMON_MODEL_FALLBACK_H
#define DAEMON_MODEL_FALLBACK_H

#include <stdbool.h>

struct inf_method;
struct inf_server;

/* A backend may have been given up: see which models that concerns. */
void inf_fallback_check(struct inf_server *server);
/* A backend was restarted: models that fell go back. */
void inf_fallback_return(struct inf_server *server);

/* Change over to what @method's model serves now. Call before anything that counts on method->serving. False: it
 * can't yet, since requests of it are in flight, or it has begun to and is away. */
bool inf_method_follow(struct inf_method *method);

#endif
