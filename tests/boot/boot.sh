#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build the Debian packages of a copy of the tree, check them with lintian, and test them in a booted Debian 13:
#     boot.sh SOURCE-FOLDER WORK-FOLDER
#
# The packages stay in WORK-FOLDER. Result lines are `ok NAME` and `not ok NAME`, as those of test_boot.py.
set -euo pipefail
top=$1 work=$2
"$top/tools/debian13" --boot true </dev/null || { [ $? = 77 ] && echo "SKIP: no container can be booted here" && exit 77; exit 1; }

build() { # FOLDER: build the packages below it, at whatever path that is
	mkdir -p "$1/inferd"
	git -c safe.directory='*' -C "$top" ls-files -z --cached --others --exclude-standard |
		tar -C "$top" --null --files-from=- --ignore-failed-read -c 2>/dev/null | tar -C "$1/inferd" -x
	(cd "$1/inferd" && DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(nproc)" dpkg-buildpackage -us -uc -b) >"$1/log" 2>&1 ||
		{ tail -n 60 "$1/log"; echo "not ok the packages are built"; exit 1; }
	rm -rf "$1/inferd"
}

rm -rf "$work"
mkdir -p "$work/upgrade"
build "$work"
echo "ok the packages are built"
lintian --allow-root --fail-on error,warning "$work"/inferd_*.changes || { echo "not ok lintian finds nothing"; exit 1; }
echo "ok lintian finds nothing"
for deb in "$work"/*.deb; do # the same with a higher version, and another inferd.conf
	dpkg-deb -R "$deb" "$work/unpacked"
	sed -E -i 's/^(Version: .*|Depends: .*\(= [0-9.]+)/\1+1/' "$work/unpacked/DEBIAN/control"
	[ ! -e "$work/unpacked/etc/inferd/inferd.conf" ] ||
		echo "# of the newer version" | tee -a "$work"/unpacked/{etc,usr/share}/inferd/inferd.conf >/dev/null
	dpkg-deb --root-owner-group -b "$work/unpacked" "$work/upgrade" >/dev/null
	rm -rf "$work/unpacked"
done
cd "$work" # so that the container has it
failed=0
for name in test_boot test_restarts; do
	"$top/tools/debian13" --boot python3 -B "$top/tests/boot/$name.py" "$work" || failed=1
done
exit $failed
