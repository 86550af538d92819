/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths.
 *
 * A path is split at '/' before it is decoded, so that an encoded slash is a character of a name, which no name may
 * have. What must always be true: model and version are valid names (config/model_name.h) or empty. */
#include "clients/http/route.h"

#include "config/model_name.h"
#include "runtime/base/checked.h"

#include <stddef.h>
#include <string.h>

enum { MAX_PARTS = 8, MAX_PART = 256 };

struct parts {
	char text[MAX_PARTS][MAX_PART];
	size_t n;
};

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* False: not a path that anything here has. */
static bool split(struct parts *parts, const char *path)
{
	if (*path != '/')
		return false;
	for (const char *at = path; *at == '/';) {
		if (parts->n == MAX_PARTS)
			return false;
		char *to = parts->text[parts->n];
		size_t n = 0;
		for (at++; *at && *at != '/' && *at != '?'; at++) {
			int c = (unsigned char)*at;
			if (c == '%') {
				int high = hex(at[1]), low = high < 0 ? -1 : hex(at[2]);
				if (low < 0)
					return false;
				c = high << 4 | low;
				at += 2;
			}
			if (c < 0x20 || c == 0x7f || c == '/' || n == MAX_PART - 1)
				return false;
			to[n++] = (char)c;
		}
		to[n] = '\0';
		if (strcmp(to, ".") == 0 || strcmp(to, "..") == 0)
			return false;
		parts->n++;
	}
	if (parts->n > 1 && !parts->text[parts->n - 1][0]) /* a slash at the end */
		parts->n--;
	return true;
}

static bool is(const struct parts *parts, size_t i, const char *text)
{
	return i < parts->n && strcmp(parts->text[i], text) == 0;
}

static void found(struct http_route *r, enum http_route_kind kind, bool is_get, bool is_post)
{
	r->kind = kind;
	r->is_get = is_get;
	r->is_post = is_post;
	r->refusal = NULL;
}

static bool take_model(struct http_route *r, const char *name)
{
	if (!inf_model_name_is_valid(name)) {
		r->refusal = "a model's name has 1 to 255 characters, no '/', and no '.' at its start";
		return false;
	}
	memcpy(r->model, name, strlen(name) + 1);
	return true;
}

/* v2/models/... */
static void parse_models(struct http_route *r, const struct parts *p)
{
	static const struct {
		const char *name;
		enum http_route_kind kind;
		bool is_get, is_post;
	} leaves[] = { { "ready", HTTP_ROUTE_MODEL_READY, true, false }, { "config", HTTP_ROUTE_CONFIG, true, false },
		{ "stats", HTTP_ROUTE_STATS, true, false }, { "infer", HTTP_ROUTE_INFER, false, true } };
	if (p->n == 3 && is(p, 2, "stats")) {
		found(r, HTTP_ROUTE_STATS, true, false);
		return;
	}
	if (p->n < 3 || !take_model(r, p->text[2]))
		return;
	if (p->n == 5 && is(p, 3, "trace") && is(p, 4, "setting")) {
		found(r, HTTP_ROUTE_TRACE, true, true);
		return;
	}
	size_t at = 3;
	if (is(p, 3, "versions") && p->n > 4) {
		if (!inf_version_is_valid(p->text[4])) {
			r->refusal = "a version is a whole number of at most 9 digits";
			return;
		}
		memcpy(r->version, p->text[4], strlen(p->text[4]) + 1);
		at = 5;
	}
	if (p->n == at)
		found(r, HTTP_ROUTE_MODEL, true, false);
	for (size_t i = 0; i < ET_ARRAY_LEN(leaves) && p->n == at + 1; i++)
		if (is(p, at, leaves[i].name))
			found(r, leaves[i].kind, leaves[i].is_get, leaves[i].is_post);
}

static void parse_repository(struct http_route *r, const struct parts *p)
{
	if (p->n == 3 && is(p, 2, "index"))
		found(r, HTTP_ROUTE_INDEX, false, true);
	else if (p->n == 5 && is(p, 2, "models") && is(p, 4, "load") && take_model(r, p->text[3]))
		found(r, HTTP_ROUTE_LOAD, false, true);
	else if (p->n == 5 && is(p, 2, "models") && is(p, 4, "unload") && take_model(r, p->text[3]))
		found(r, HTTP_ROUTE_UNLOAD, false, true);
}

static void parse_memory(struct http_route *r, const struct parts *p, bool is_cuda)
{
	size_t at = 2;
	r->is_cuda = is_cuda;
	if (is(p, 2, "region") && p->n > 3 && p->text[3][0]) {
		memcpy(r->region, p->text[3], sizeof(r->region));
		at = 4;
	}
	if (p->n != at + 1)
		return;
	if (is(p, at, "status"))
		found(r, HTTP_ROUTE_MEMORY_STATUS, true, false);
	else if (is(p, at, "register") && at == 4)
		found(r, HTTP_ROUTE_MEMORY_REGISTER, false, true);
	else if (is(p, at, "unregister"))
		found(r, HTTP_ROUTE_MEMORY_UNREGISTER, false, true);
}

bool http_route_is_of_page(const struct http_route *route)
{
	return route->kind == HTTP_ROUTE_PAGE || route->kind == HTTP_ROUTE_OVERVIEW_STATUS ||
	       route->kind == HTTP_ROUTE_OVERVIEW_MODELS;
}

void http_route_parse(struct http_route *ret, const char *path)
{
	struct parts p = { .n = 0 };
	memset(ret, 0, sizeof(*ret));
	ret->refusal = "there is no such path; the Open Inference Protocol begins at /v2";
	if (!split(&p, path))
		return;
	if (p.n == 1 && is(&p, 0, "metrics"))
		found(ret, HTTP_ROUTE_METRICS, true, false);
	if (p.n == 1 && is(&p, 0, ""))
		found(ret, HTTP_ROUTE_PAGE, true, false);
	if (!is(&p, 0, "v2"))
		return;
	if (p.n == 1)
		found(ret, HTTP_ROUTE_SERVER, true, false);
	else if (p.n == 3 && is(&p, 1, "health") && is(&p, 2, "live"))
		found(ret, HTTP_ROUTE_LIVE, true, false);
	else if (p.n == 3 && is(&p, 1, "health") && is(&p, 2, "ready"))
		found(ret, HTTP_ROUTE_READY, true, false);
	else if (is(&p, 1, "models"))
		parse_models(ret, &p);
	else if (is(&p, 1, "repository"))
		parse_repository(ret, &p);
	else if (p.n == 3 && is(&p, 1, "trace") && is(&p, 2, "setting"))
		found(ret, HTTP_ROUTE_TRACE, true, true);
	else if (p.n == 2 && is(&p, 1, "logging"))
		found(ret, HTTP_ROUTE_LOGGING, true, true);
	else if (p.n == 3 && is(&p, 1, "inferd") && is(&p, 2, "status"))
		found(ret, HTTP_ROUTE_OVERVIEW_STATUS, true, false);
	else if (p.n == 3 && is(&p, 1, "inferd") && is(&p, 2, "models"))
		found(ret, HTTP_ROUTE_OVERVIEW_MODELS, true, false);
	else if (is(&p, 1, "systemsharedmemory") || is(&p, 1, "cudasharedmemory"))
		parse_memory(ret, &p, is(&p, 1, "cudasharedmemory"));
}
