/* sd_notify, so that nobody else includes it. The watchdog's time is systemd's limit; whoever feeds it should do so
 * at half of it. */
#include "daemon/notify.h"

#include <systemd/sd-daemon.h>
#include <time.h>

void inf_notify_ready(const char *status)
{
	sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void inf_notify_status(const char *status)
{
	sd_notifyf(0, "STATUS=%s", status);
}

void inf_notify_reloading(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
}

void inf_notify_stopping(void)
{
	sd_notify(0, "STOPPING=1\nSTATUS=Letting running requests end");
}

void inf_notify_alive(void)
{
	sd_notify(0, "WATCHDOG=1");
}

uint64_t inf_notify_watchdog_ns(void)
{
	uint64_t us;
	return sd_watchdog_enabled(0, &us) > 0 ? us * 1000 : 0;
}
