#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Label what a camera sees, with GStreamer's own tools and the element inferdfilter:
#
#     camera.sh [MODEL [SOURCE...]]
#
# SOURCE is the beginning of a pipeline; the default is a camera. A file or a test pattern does as well:
#
#     camera.sh efficientnet_lite0 filesrc location=photo.png ! pngdec
#     camera.sh efficientnet_lite0 videotestsrc is-live=true num-buffers=30
#
# Prints time, score and label of each frame. How an image becomes an input, and the labels, are those of the model's
# model.conf. A frame that comes too late is left out.
set -euo pipefail
model=${1:-efficientnet_lite0}
shift || true
[ $# -gt 0 ] || set -- v4l2src

gst-launch-1.0 -m "$@" ! videoconvert ! videoscale ! inferdfilter model="$model" late=drop post-messages=true ! fakesink |
	sed -un 's/.*: inferdfilter, .*running-time=(guint64)\([0-9]*\).* label=(string)\("[^"]*"\|[^,]*\), confidence=(float)\([^,]*\),.*/\1\t\3\t\2/p' |
	awk -F '\t' '{ gsub(/[\\"]/, "", $3); printf "%.3f s\t%.2f\t%s\n", $1 / 1e9, $2, $3; fflush() }'
