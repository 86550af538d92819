#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install the file FROM as TO unless there is a TO, which may have been edited: install_once.sh FROM TO
#
# meson does not know of the copy, so that `ninja uninstall` keeps it.
set -eu
to=${DESTDIR:-}$2
if [ -e "$to" ] || [ -L "$to" ]; then
	echo "Keeping $to"
else
	echo "Installing $2"
	install -D -m 644 "$1" "$to"
fi
