#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Whether systemd understands the units, and the service stays locked in: verify.sh SYSTEMD-ANALYZE INFERD UNIT...
#
# The daemon is put where the service looks for it, in a root of its own; what systemd-analyze says about
# anything but these units is not ours.
set -eu
analyze=$1 inferd=$(realpath "$2")
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for unit; do
	name=$(basename "$unit")
	# The program is not installed while this runs, so point at the one that was built.
	sed -E "s;^(ExecStart|ExecReload)=[^ ]*;\1=$inferd;" "$unit" >"$dir/$name"
done
out=$(SYSTEMD_UNIT_PATH="$dir:" "$analyze" verify --man=no "$dir/inferd.service" "$dir/inferd.socket" \
	"$dir/inferd-manager.socket" 2>&1) && rc=0 || rc=$?
echo "$out"
if echo "$out" | grep -qiE 'inferd[^:]*:.*(unknown|invalid|ignor|fail|bad)'; then
	exit 1
fi
case $rc in
0)
	# What the service may do beyond its work, in tenths as systemd weighs it: 21 when this was written.
	"$analyze" security --offline=yes --no-pager --threshold=25 "$dir/inferd.service" >"$dir/security" ||
		{ tail -1 "$dir/security"; exit 1; }
	exit 0
	;;
*)
	# Without a running systemd it can't look at the system's own units; that is no verdict on ours.
	if echo "$out" | grep -qiE 'failed to (initialize|connect|create) |no such file or directory'; then
		exit 77
	fi
	exit 1
	;;
esac
