#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Check that systemd understands the units and that the service stays sandboxed: verify.sh SYSTEMD-ANALYZE PROGRAM THRESHOLD SERVICE SOCKET...
#
# Copies of the units point to the built daemon. Messages of systemd-analyze about other units are ignored.
set -eu
analyze=$1 program=$(realpath "$2") threshold=$3
shift 3
service=$(basename "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for unit; do
	name=$(basename "$unit")
	# The program is not installed, so point to the built one.
	sed -E "s;^(ExecStart|ExecReload)=[^ ]*;\1=$program;" "$unit" >"$dir/$name"
done
out=$(SYSTEMD_UNIT_PATH="$dir:" "$analyze" verify --man=no "$dir"/* 2>&1) && rc=0 || rc=$?
echo "$out"
if echo "$out" | grep -qiE 'inferd[^:]*:.*(unknown|invalid|ignor|fail|bad)'; then
	exit 1
fi
case $rc in
0)
	# systemd's exposure level of the service, in tenths: 5 of inferd.service when this was written.
	"$analyze" security --offline=yes --no-pager --threshold="$threshold" "$dir/$service" >"$dir/security" ||
		{ tail -1 "$dir/security"; exit 1; }
	exit 0
	;;
*)
	# Without a running systemd it cannot load the system's own units; that says nothing about these.
	if echo "$out" | grep -qiE 'failed to (initialize|connect|create) |no such file or directory'; then
		exit 77
	fi
	exit 1
	;;
esac
