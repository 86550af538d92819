#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build the Debian packages of a copy of the tree, check them with lintian, and test them in a booted Debian 13:
#     boot.sh SOURCE-FOLDER WORK-FOLDER
#
# The builder's commands of README.md's section Install run as they are written, in a checkout of their own (readme.py).
# With INFERD_TEST_REBUILD a source package is built too, the packages again from it, which must have the same bits, and
# packages for arm64.
# Result lines are `ok NAME` and `not ok NAME`, as those of the tests in the container. The packages stay in WORK-FOLDER.
set -euo pipefail
top=$1 work=$2
"$top/tools/debian13" --boot true </dev/null || { [ $? = 77 ] && echo "SKIP: no container can be booted here" && exit 77; exit 1; }
export PYTHONDONTWRITEBYTECODE=1

step() { # NAME COMMAND...: run it, with its output in a log
	local began=$SECONDS log=$work/log name=$1
	shift
	"$@" >"$log" 2>&1 </dev/null & # a condition around it would switch off `set -e` inside
	wait $! || { tail -n 60 "$log"; echo "not ok $name"; exit 1; }
	echo "ok $name ($((SECONDS - began)) s)"
}

readme() { # WHICH FOLDER: run these commands of the README in FOLDER
	local commands
	commands=$(python3 "$top/tests/boot/readme.py" "$1")
	(cd "$2" && bash -euxo pipefail -c "$commands")
}

check_out() { # a repository of its own, with what is not committed yet
	mkdir "$work/checkout"
	git -c safe.directory='*' -C "$top" ls-files -z --cached --others --exclude-standard |
		tar -C "$top" --null --files-from=- --ignore-failed-read -c 2>/dev/null | tar -C "$work/checkout" -x
	cd "$work/checkout"
	git init -q && git add -A
	git -c user.name=test -c user.email=test@localhost commit -q -m test
}

# From the source package, at another path, and without what the first build left in a cache.
build_again() {
	mkdir -p "$work/source" "$work/again/at/another/path"
	git -C "$work/checkout" archive --prefix=inferd/ HEAD | tar -C "$work/source" -x
	(cd "$work/source/inferd" && dpkg-buildpackage -us -uc -S -d)
	cd "$work/again/at/another/path"
	mkdir build-packages
	dpkg-source -x "$work"/source/inferd_*.dsc build-packages/inferd
	CCACHE_DISABLE=1 bash -euxo pipefail -c "$(python3 "$top/tests/boot/readme.py" builder | grep -w dpkg-buildpackage |
		sed "s;tools/debian13;$top/tools/debian13;")"
}

compare() { # two builds
	local deb
	for deb in "$work"/checkout/build-packages/*.deb; do
		cmp "$deb" "$work/again/at/another/path/build-packages/$(basename "$deb")"
	done
}

check_packages() { lintian --allow-root --fail-on error,warning "$@"; }

build_for_arm64() {
	git clone -q "$work/checkout" "$work/arm64"
	readme arm64 "$work/arm64"
	[ "$(ls "$work"/arm64/build-packages/*_arm64.deb | wc -l)" -ge "$(ls "$work"/checkout/build-packages/*_amd64.deb | grep -vc /gstreamer1.0-)" ]
}

# The stage of a builder who is not root and lets nobody else in.
own_stage() { cd "$work/checkout/stage" && chown -R 1234:1234 . && chmod 700 . usr usr/bin etc; }

make_upgrade() { # the same with a higher version, and another inferd.conf
	local deb
	for deb in "$work"/*.deb; do
		dpkg-deb -R "$deb" "$work/unpacked"
		sed -E -i 's/^(Version: .*|Depends: .*\(= [0-9.]+)/\1+1/' "$work/unpacked/DEBIAN/control"
		[ ! -e "$work/unpacked/etc/inferd/inferd.conf" ] ||
			echo "# of the newer version" | tee -a "$work"/unpacked/{etc,usr/share}/inferd/inferd.conf
		dpkg-deb --root-owner-group -b "$work/unpacked" "$work/upgrade"
		rm -rf "$work/unpacked"
	done
}

rm -rf "$work"
mkdir -p "$work/upgrade"
step "a checkout is made" check_out
step "the README's commands build the packages and a stage" readme builder "$work/checkout"
changes=("$work"/checkout/build-packages/*.changes)
if [ "${INFERD_TEST_REBUILD:-}" ]; then
	step "a source package is built, and the packages again from it" build_again
	step "both builds have the same bits" compare
	step "packages for arm64 are built" build_for_arm64
	changes+=("$work"/source/*.changes "$work"/arm64/build-packages/*.changes)
fi
step "lintian finds nothing" check_packages "${changes[@]}"
find "$work/checkout/build-packages" -name '*.deb' ! -name '*-dbgsym_*' -exec cp {} "$work" \;
step "packages of a newer version are made" make_upgrade
step "the stage belongs to another user" own_stage
rm -rf "$work"/{source,again,arm64} "$work/checkout/build-packages/inferd" "$work/checkout/build-release"
cd "$work" # so that the container has it
failed=0
for name in test_boot test_restarts test_readme; do
	"$top/tools/debian13" --boot python3 -B "$top/tests/boot/$name.py" "$work" || failed=1
done
exit $failed
