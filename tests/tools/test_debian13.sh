#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tools/debian13, tried from outside: what it prints, what it returns, what it
# leaves. Cheap, for the gate: the root exists by then or is made by the first
# call. Each line of the report is `ok NAME`, `not ok NAME` or `skip NAME: WHY`.
#
# What is deliberately not tried here: making a root, which takes minutes; the
# first call of a fresh machine's gate is that test.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
tool=$top/tools/debian13
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

check() { # NAME STATUS: reports a condition that the caller has just evaluated
	if [ "$2" = 0 ]; then
		echo "ok $1"
	else
		echo "not ok $1"
		failed=1
	fi
}

same() { # NAME WANTED GOT
	[ "$2" = "$3" ]
	check "$1" $?
	[ "$2" = "$3" ] || printf '  wanted: %s\n  got:    %s\n' "$2" "$3"
}

mounts_before=$(sort /proc/self/mounts)
"$tool" true </dev/null || { echo "not ok a root can be had"; exit 1; }
echo "ok a root can be had"

"$tool" sh -c 'exit 7'
same "the status is the command's" 7 $?
"$tool" sh -c 'kill -KILL $$'
same "a signal's end is told as the shell tells it" 137 $?
"$tool" no-such-command-at-all 2>/dev/null
same "a command that is not there is 127" 127 $?
same "what goes in comes out" "in and out" "$(echo "in and out" | "$tool" cat)"
same "arguments stay whole" "a b|*|" "$("$tool" printf '%s|' 'a b' '*')"
same "inside is Debian 13 or newer" yes "$("$tool" sh -c '. /etc/os-release; [ "${VERSION_ID:-99}" -ge 13 ] && echo yes')"
same "the checkout is where it is outside" "$top" "$(cd "$top" && "$tool" pwd)"
same "a folder below it, too" "$top/tests" "$(cd "$top/tests" && "$tool" pwd)"
same "without HOME it knows its root" "$("$tool" --path)" "$(env -u HOME "$tool" --path)"
"$tool" sh -c '[ -r /proc/cpuinfo ] && [ -d /sys/devices/system/cpu ] && [ -c /dev/null ]'
check "proc, sys and dev are there" $?
"$tool" >/dev/null 2>&1
same "no command is a mistake" 2 $?

# The archives among a host's sources, in each way of writing them.
mkdir -p "$scratch/apt/sources.list.d"
cat >"$scratch/apt/sources.list" <<'EOF'
# deb http://commented.example/debian bookworm main
deb-src http://sources.example/debian bookworm main
deb cdrom:[Debian 12]/ bookworm main
deb [arch=amd64 signed-by=/x.gpg] http://one.example/debian/ bookworm main contrib
EOF
echo 'deb	https://tabs.example/debian	bookworm	main' >"$scratch/apt/sources.list.d/a.list"
cat >"$scratch/apt/sources.list.d/b.sources" <<'EOF'
Types: deb
# a comment within
URIs: http://two.example/debian http://three.example/debian
  http://continued.example/debian
Suites: bookworm

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: bookworm

Types: deb-src
URIs: http://sourceonly.example/debian
Suites: bookworm

Types: deb deb-src
URIs: http://one.example/debian
Suites: bookworm
EOF
printf 'http://listed.example/debian\tpriority:1\n' >"$scratch/mirrors"
printf 'Types: deb\nURIs: mirror+file:%s\nSuites: bookworm\n' "$scratch/mirrors" >"$scratch/apt/sources.list.d/c.sources"
same "archives are found in every kind of source" \
	"http://one.example/debian https://tabs.example/debian http://two.example/debian http://three.example/debian http://continued.example/debian http://listed.example/debian" \
	"$("$tool" --archives "$scratch/apt" | tr '\n' ' ' | sed 's/ $//')"

if [ "$("$tool" --path)" = / ]; then
	echo "skip namespaces: this host is Debian 13 itself, commands run directly"
else
	# What a command leaves running ends with it: the end of a pipe that only that holds tells.
	# The command ends only when that one is seen to run.
	mkfifo "$scratch/held" "$scratch/go"
	"$tool" sh -c "tail -f /dev/null 5>$scratch/held & read -r _ <$scratch/go" &
	pid=$!
	exec 6<"$scratch/held"
	echo >"$scratch/go"
	wait "$pid"
	read -r -t 20 _ <&6
	same "nothing stays running" 1 $? # end of file; a timeout is more than 128
	exec 6<&-
	mkfifo "$scratch/ready"
	"$tool" sh -c "trap 'exit 3' TERM; tail -f /dev/null & echo >$scratch/ready; wait" &
	pid=$!
	read -r _ <"$scratch/ready"
	kill -TERM "$pid"
	wait "$pid"
	same "TERM reaches the command" 3 $?
	# Killed without a chance to clean up.
	"$tool" sh -c "exec 5>$scratch/held; echo >$scratch/ready; exec tail -f /dev/null" 2>/dev/null &
	pid=$!
	exec 6<"$scratch/held"
	read -r _ <"$scratch/ready"
	kill -KILL "$pid"
	{ wait "$pid"; } 2>/dev/null
	read -r -t 20 _ <&6
	same "killed, it takes the command with it" 1 $?
	exec 6<&-
fi
same "the host's mounts are as before" "$mounts_before" "$(sort /proc/self/mounts)"
exit "$failed"
