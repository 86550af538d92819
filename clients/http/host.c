/* SPDX-License-Identifier: BSD-3-Clause */
/* DNS rebinding: a page of evil.example lets that name resolve to 127.0.0.1, and its scripts then talk to this
 * gateway as to their own server. The browser sends the page's name as Host. A numeric Host cannot be led elsewhere. */
#include "clients/http/host.h"

#include "runtime/base/checked.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Whether @host is numeric, localhost or one of @names; "*" among these is every name if @takes_any. */
static bool is_ours(const char *host, const struct inf_config_names *names, bool takes_any)
{
	char name[256], known[INF_CONFIG_NAME_MAX];
	unsigned char address[16];
	bool is_bracketed = host[0] == '[';
	if (is_bracketed)
		host++;
	size_t n = strcspn(host, is_bracketed ? "]" : ":");
	const char *rest = host + n;
	if (is_bracketed && *rest++ != ']')
		return false;
	if (*rest && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")]))
		return false;
	if (n == 0 || n >= sizeof(name))
		return false;
	memcpy(name, host, n);
	name[n] = '\0';
	if (is_bracketed)
		return inet_pton(AF_INET6, name, address) == 1;
	if (inet_pton(AF_INET, name, address) == 1 || strcasecmp(name, "localhost") == 0)
		return true;
	for (const char *at = names->text; inf_config_next_name(&at, known);)
		if (strcasecmp(name, known) == 0 || (takes_any && strcmp(known, "*") == 0))
			return true;
	return false;
}

bool http_host_is_fine(const char *host, const struct inf_config_names *names)
{
	return is_ours(host, names, true);
}

/* The names of "*" do not count: a page led here has the same name as Host and in Origin. */
bool http_host_is_own_origin(const char *origin, const char *host, const struct inf_config_names *names)
{
	static const char *const schemes[] = { "http://", "https://" }; /* https: a proxy is in front */
	for (size_t i = 0; i < ET_ARRAY_LEN(schemes); i++) {
		size_t n = strlen(schemes[i]);
		if (strncmp(origin, schemes[i], n) == 0 && strcasecmp(origin + n, host) == 0)
			return is_ours(host, names, false);
	}
	return false;
}
