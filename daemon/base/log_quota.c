/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting lines of the log.
 *
 * A minute begins with the first line. Its end is noticed by the next line or by inf_log_quota_report, whichever comes
 * first; a count that was not reported yet stays until the report. */
#include "daemon/base/log_quota.h"

bool inf_log_quota_take(struct inf_log_quota *quota, enum inf_log_kind kind, uint64_t now_ns)
{
	if (!quota)
		return true;
	if (now_ns >= quota->kinds[kind].until_ns) {
		quota->kinds[kind].until_ns = now_ns + INF_LOG_QUOTA_WINDOW_NS;
		quota->kinds[kind].n_lines = 0;
	}
	if (quota->kinds[kind].n_lines == INF_LOG_QUOTA_LINES) {
		quota->kinds[kind].n_suppressed += quota->kinds[kind].n_suppressed < UINT32_MAX;
		return false;
	}
	quota->kinds[kind].n_lines++;
	return true;
}

void inf_log_quota_report(struct inf_log_quota *quota, const struct et_log *log, unsigned long uid, uint64_t now_ns,
	bool is_final)
{
	static const struct {
		const char *what;
		enum et_log_level level; /* of the lines themselves */
	} kinds[INF_N_LOG_KINDS] = { [INF_LOG_OPENS] = { "opens that failed", ET_LOG_WARNING },
		[INF_LOG_LOADS] = { "loads of models", ET_LOG_INFO },
		[INF_LOG_SESSIONS] = { "connections that were refused or ended", ET_LOG_INFO },
		[INF_LOG_RUNS] = { "requests that were given up", ET_LOG_WARNING } };
	for (int kind = 0; kind < INF_N_LOG_KINDS; kind++) {
		if (!quota->kinds[kind].n_suppressed || (!is_final && now_ns < quota->kinds[kind].until_ns))
			continue;
		et_logf(log, kinds[kind].level, "user %lu: %u more %s are not in the log, at most %d in a minute are",
			uid, quota->kinds[kind].n_suppressed, kinds[kind].what, INF_LOG_QUOTA_LINES);
		quota->kinds[kind].n_suppressed = 0;
	}
}
