#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Draw boxes around what a YOLO detector finds, with GStreamer's own tools and the element inferdfilter:
#
#     detect.sh LABELS [SOURCE... [-- SINK...]]
#
# LABELS is a file with the name of one class on each line. SOURCE is the beginning of a pipeline, SINK its end; without them
# a camera's frames are shown in a window. From a picture to a picture:
#
#     detect.sh coco.txt filesrc location=photo.png ! pngdec -- pngenc ! filesink location=boxes.png
#
# $MODEL is the name of the model, $THRESHOLD the lowest score of a box. Prints labels and boxes of each frame.
set -euo pipefail
labels=${1:?give a file of labels}
shift
source=() sink=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	source+=("$1")
	shift
done
[ $# -eq 0 ] || sink=("${@:2}")
[ ${#source[@]} -gt 0 ] || source=(v4l2src)
[ ${#sink[@]} -gt 0 ] || sink=(autovideosink)

gst-launch-1.0 -m "${source[@]}" ! videoconvert ! videoscale ! \
	inferdfilter model="${MODEL:-yolo11n}" labels="$labels" input-tensor-scale=255 score-threshold="${THRESHOLD:-0.25}" \
	late=drop post-messages=true ! objectdetectionoverlay ! videoconvert ! "${sink[@]}" |
	sed -un 's/.*: inferdfilter, .*boxes=(int)< *\(.*\) *>, confidences=.*labels=([a-z]*)< *\(.*\) *>;.*/\2\t\1/p' |
	sed -u 's/(int)//g'
