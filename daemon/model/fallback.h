/* SPDX-License-Identifier: BSD-3-Clause */
/* Fallback: the Methods of a model whose backend was given up move to the model's next variant.
 *
 * A plug-in that crashes too often is given up (delegates/plugin). The daemon then scans the files of its models again,
 * and the first variant that can run becomes the successor, if it has the same inputs and outputs. A Method moves when
 * its last request in flight has ended, or at once when it is idle, and keeps its bindings. Clients see the requests
 * that failed meanwhile, with BACKEND_CRASHED, and, where the model has a state, that the state is lost. A Method stays
 * if its client asked for that backend, or if it shares a state: the next variant is another program.
 * When the backend was restarted, stateless Methods return the same way.
 *
 * Loop thread only, except for the call marked otherwise. */
#ifndef DAEMON_MODEL_FALLBACK_H
#define DAEMON_MODEL_FALLBACK_H

#include <stdbool.h>

struct inf_method;
struct inf_server;

/* A backend may have been given up: abandon the models that need it, and find a successor for each. */
void inf_fallback_check(struct inf_server *server);
/* A backend was restarted: models return to the variants that were passed over. */
void inf_fallback_return(struct inf_server *server);

/* A request of @method has ended, or other work that kept it at its model. The last one lets it move: the loop is told.
 * @method is the one whose state is used (inf_method.first). Any thread that keeps it; afterwards its model may be
 * another one. */
void inf_method_job_ended(struct inf_method *method);
/* Methods that are idle move to the successors of their models. Call before a client's request is handled, so that a
 * client that has the answer to its last request finds the Method moved. Costs nothing while no Method wants to. */
void inf_fallback_move_idle(struct inf_server *server);
/* Whether @method will move when its requests in flight have ended. */
bool inf_method_waits_to_move(const struct inf_method *method);

#endif
