/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-http.conf: the configuration of the HTTP gateway, read with the parser of inferd.conf. See inferd-http.conf in
 * this folder, which documents every key. */
#ifndef CONFIG_HTTP_CONF_H
#define CONFIG_HTTP_CONF_H

#include "config/config.h"

struct inf_http_config {
	char socket[INF_CONFIG_PATH_MAX];  /* of the gateway; "": none but those that systemd passes */
	struct inf_config_names listen;    /* ADDRESS:PORT ... */
	struct inf_config_names hosts;     /* names of this machine that a Host header may have */
	char daemon[INF_CONFIG_PATH_MAX];  /* the daemon's socket for applications */
	char manager[INF_CONFIG_PATH_MAX]; /* and the one for administrators */
	bool load;                         /* whether clients may load and unload models */
	bool shared_memory;                /* whether clients may register files of /dev/shm */
	bool page;                         /* whether there is a page for browsers at / */
	int log_level;
	uint32_t connections;
	uint64_t memory;     /* bytes that all requests together may take */
	uint64_t body_limit; /* bytes of one request's body, also when it is inflated */
	uint64_t json_limit; /* bytes of the JSON in it, and of the JSON of an answer */
	uint64_t receive_timeout_ns, request_timeout_ns, send_timeout_ns, idle_timeout_ns, sequence_idle_ns;
};

/* Set the defaults. */
void inf_http_config_init(struct inf_http_config *config);
/* Read a file on top of what @config holds. 0, or negative errno with a sentence: -ENOENT (there is no such file),
 * -EINVAL, others from reading. */
int inf_http_config_load(struct inf_http_config *config, const char *path, struct inf_config_error *error);
/* The same for text in memory. @name stands for the file in errors. */
int inf_http_config_parse(struct inf_http_config *config, const char *text, const char *name,
	struct inf_config_error *error);

#endif
