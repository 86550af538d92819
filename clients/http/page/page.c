/* SPDX-License-Identifier: BSD-3-Clause */
/* The page as an answer.
 *
 * Names of models and sentences of the daemon are strangers' input to the page. Its scripts therefore make text of them
 * and never markup, and the policy stands behind that: no script but the one whose hash it has, no address but this
 * gateway's, no HTML from strings (trusted types). Nobody may frame the page, so no other page can lead a click to
 * it. */
#include "clients/http/page/page.h"

#include "clients/http/page/page_data.h"

void http_page_protect(struct MHD_Response *response)
{
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(response, "Cache-Control", "no-store");
}

struct MHD_Response *http_page_response(void)
{
	static const char *const headers[][2] = {
		{ "Content-Type", "text/html; charset=utf-8" },
		{ "Content-Security-Policy", http_page_policy },
		{ "Referrer-Policy", "no-referrer" },
		{ "X-Frame-Options", "DENY" }, /* browsers without frame-ancestors */
		{ "Cross-Origin-Opener-Policy", "same-origin" },
		{ "Permissions-Policy", "camera=(self), microphone=(), geolocation=(), display-capture=()" },
	};
	struct MHD_Response *response = MHD_create_response_from_buffer_static(http_page_n_bytes, http_page_text);
	for (size_t i = 0; response && i < sizeof(headers) / sizeof(headers[0]); i++)
		MHD_add_response_header(response, headers[i][0], headers[i][1]);
	return response;
}
