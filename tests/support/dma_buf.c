/* SPDX-License-Identifier: BSD-3-Clause */
/* Make dma-bufs. udmabuf (include/uapi/linux/udmabuf.h of the kernel) needs a memfd that cannot shrink. vgem
 * (include/uapi/drm/vgem_drm.h) is a graphics device without hardware; its fences behave like those of a real
 * device. */
#include "tests/support/dma_buf.h"

#include <drm/drm.h>
#include <drm/drm_mode.h>
#include <drm/vgem_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

int test_dma_buf(size_t n_bytes, int *ret_memory)
{
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd = -1;
	if (device < 0)
		return -1;
	int memory = memfd_create("test-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory >= 0 && ftruncate(memory, (off_t)n_bytes) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
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

/* One of the cards is vgem's, if there is one. */
static int open_vgem(void)
{
	for (int i = 0; i < 16; i++) {
		char path[32], name[16] = "";
		snprintf(path, sizeof path, "/dev/dri/card%d", i);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		struct drm_version version = { .name = name, .name_len = sizeof name - 1 };
		if (fd >= 0 && ioctl(fd, DRM_IOCTL_VERSION, &version) == 0 && strcmp(name, "vgem") == 0)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	errno = ENODEV;
	return -1;
}

bool test_device_open(struct test_device *device, size_t n_bytes)
{
	*device = (struct test_device){ .fd = open_vgem(), .dma_buf = -1 };
	if (device->fd < 0)
		return false;
	struct drm_mode_create_dumb create = { .width = (uint32_t)n_bytes, .height = 1, .bpp = 8 };
	if (ioctl(device->fd, DRM_IOCTL_MODE_CREATE_DUMB, &create) == 0) {
		device->handle = create.handle;
		struct drm_prime_handle prime = { .handle = create.handle, .flags = O_RDWR | O_CLOEXEC };
		if (ioctl(device->fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) == 0) {
			device->dma_buf = prime.fd;
			return true;
		}
	}
	int cause = errno;
	close(device->fd);
	errno = cause;
	return false;
}

void test_device_close(struct test_device *device)
{
	close(device->dma_buf);
	close(device->fd);
}

void test_device_begin(struct test_device *device)
{
	struct drm_vgem_fence_attach attach = { .handle = device->handle, .flags = VGEM_FENCE_WRITE };
	if (ioctl(device->fd, DRM_IOCTL_VGEM_FENCE_ATTACH, &attach) < 0)
		abort();
	device->fence = attach.out_fence;
}

void test_device_end(struct test_device *device)
{
	struct drm_vgem_fence_signal signal = { .fence = device->fence };
	if (ioctl(device->fd, DRM_IOCTL_VGEM_FENCE_SIGNAL, &signal) < 0)
		abort();
}
