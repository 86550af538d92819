/* udmabuf, from the kernel's include/uapi/linux/udmabuf.h: it wants a memory file that can't shrink. */
#include "tests/support/dma_buf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

int test_dma_buf(size_t n_bytes, int *ret_memory)
{
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd = -1;
	if (device < 0)
		return -1;
	int memory = memfd_create("test-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory >= 0 && ftruncate(memory, (off_t)n_bytes) == 0 &&
		fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
		struct udmabuf_create create = {
			.memfd = (uint32_t)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .size = n_bytes
		};
		fd = ioctl(device, UDMABUF_CREATE, &create);
	}
	int cause = errno;
	close(device);
	if (fd < 0 && memory >= 0)
		close(memory);
	errno = cause;
	*ret_memory = memory;
	return fd;
}
