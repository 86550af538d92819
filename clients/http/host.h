/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a request over TCP may come from a page in a browser that was led here: the headers Host and Origin. */
#ifndef CLIENTS_HTTP_HOST_H
#define CLIENTS_HTTP_HOST_H

#include "config/http_conf.h"

/* Whether @host, the value of a Host header, is a numeric address, localhost, or one of @names, where "*" is any
 * name; a port may follow. Another name may be one whose DNS leads here only for a while (DNS rebinding). */
bool http_host_is_fine(const char *host, const struct inf_config_names *names);

/* Whether @origin, the value of an Origin header, is the page of this gateway itself: http or https at @host, which is
 * fine, and not just as one of "*". */
bool http_host_is_own_origin(const char *origin, const char *host, const struct inf_config_names *names);

#endif
