#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test tools/debian13 on the host: what it prints, its exit status, what it leaves
# behind, and its messages where it cannot work. Each line of the report is
# `ok NAME`, `not ok NAME` or `skip NAME: WHY`.
#
# It is quick, because the root exists, or the first call makes it. Making a root
# takes minutes and is deliberately not tested here: the first gate on a fresh
# machine tests it. Nothing here touches the host's cache or its apt.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
tool=$top/tools/debian13
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

check() { # NAME STATUS: report a condition by its exit status
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
"$tool" true </dev/null || { echo "not ok there is a root"; exit 1; }
echo "ok there is a root"

"$tool" sh -c 'exit 7'
same "the exit status is the command's" 7 $?
"$tool" sh -c 'kill -KILL $$'
same "the status after a signal is 128 plus its number" 137 $?
"$tool" no-such-command-at-all 2>/dev/null
same "the status of a missing command is 127" 127 $?
same "standard input and output are passed on" "in and out" "$(echo "in and out" | "$tool" cat)"
same "arguments are passed unchanged" "a b|*|" "$("$tool" printf '%s|' 'a b' '*')"
same "inside is Debian 13 or newer" yes "$("$tool" sh -c '. /etc/os-release; [ "${VERSION_ID:-99}" -ge 13 ] && echo yes')"
same "the checkout has the same path inside" "$top" "$(cd "$top" && "$tool" pwd)"
same "a folder of the checkout has the same path inside" "$top/tests" "$(cd "$top/tests" && "$tool" pwd)"
same "the root is the same without HOME" "$("$tool" --path)" "$(env -u HOME "$tool" --path)"
"$tool" sh -c '[ -r /proc/cpuinfo ] && [ -d /sys/devices/system/cpu ] && [ -c /dev/null ]'
check "proc, sys and dev are mounted" $?
"$tool" >/dev/null 2>&1
same "the status without a command is 2" 2 $?

# A booted container. That it ends is shown by its cgroups, which cannot be deleted while a process is in them.
"$tool" --boot true </dev/null 2>"$scratch/said"
case $? in
0)
	same "--boot runs a command beside systemd, in the checkout" "systemd $top in" \
		"$(cd "$top" && echo in | "$tool" --boot sh -c 'echo "$(cat /proc/1/comm) $PWD $(cat)"')"
	"$tool" --boot sh -c "touch '$top/written' 2>/dev/null; touch /etc/written && exit 6"
	same "its status is the command's" 6 $?
	[ ! -e "$top/written" ] && [ ! -e "$("$tool" --path)/etc/written" ]
	check "what it writes is gone" $?
	same "it leaves no cgroup" "" "$(find /sys/fs/cgroup -type d -name "inferd-boot-*" 2>/dev/null)"
	setpriv --bounding-set -sys_admin "$tool" --boot true >"$scratch/said" 2>&1 </dev/null
	same "its status without namespaces is 77" 77 $?
	grep -q "no container can be booted here" "$scratch/said"
	check "and a sentence says so" $? ;;
77) echo "skip --boot: $(cat "$scratch/said")" ;;
*) cat "$scratch/said"; check "--boot runs a command" 1 ;;
esac

# The archives of a host's apt sources, in each format.
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
	"$(env -u INFERD_DEBIAN_MIRROR "$tool" --archives "$scratch/apt" | tr '\n' ' ' | sed 's/ $//')"
mkdir -p "$scratch/plain/sources.list.d"
printf 'Types: deb\nURIs: http://one.example/debian\nSuites: bookworm\n' >"$scratch/plain/sources.list.d/a.sources"
same "INFERD_DEBIAN_MIRROR is the first archive" "http://mine.example/debian http://one.example/debian" \
	"$(INFERD_DEBIAN_MIRROR=http://mine.example/debian/ "$tool" --archives "$scratch/plain" | tr '\n' ' ' | sed 's/ $//')"
same "an archive is listed once" "http://one.example/debian" \
	"$(INFERD_DEBIAN_MIRROR=http://one.example/debian "$tool" --archives "$scratch/plain")"

# A copy that an ordinary user can read.
chmod 755 "$scratch"
mkdir -p "$scratch/copy/tools"
cp "$top/tools/debian13" "$top/tools/packages" "$top/tools/test" "$scratch/copy/tools/"
chmod -R a+rX "$scratch/copy"
copy=$scratch/copy/tools/debian13
as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$scratch/nowhere")

says() { # NAME FILE STATUS WORDS...: it failed with status 1, and FILE has all WORDS
	local name=$1 file=$2 status=$3 word missing=''
	shift 3
	for word; do grep -qF -- "$word" "$file" || missing="$missing '$word'"; done
	same "$name" "1" "$status$missing"
	[ -z "$missing" ] || sed 's/^/  /' "$file"
}

container='docker run --rm -it'
if [ "$("$tool" --path)" = / ]; then
	if [ "$(id -u)" = 0 ]; then
		(cd "$scratch/copy" && "${as_user[@]}" "$copy" true)
		check "an ordinary user can run commands on Debian 13" $?
	fi
	echo "skip namespaces: this host is Debian 13, so commands run directly"
else
	# Where it cannot work, the message names what does.
	(cd "$scratch/copy" && "${as_user[@]}" "$copy" true) >"$scratch/said" 2>&1
	says "the message without root" "$scratch/said" $? "run this as root" "$container" debian:13 tools/test
	setpriv --bounding-set -sys_admin "$tool" true >"$scratch/said" 2>&1
	says "the message without namespaces" "$scratch/said" $? namespaces SYS_ADMIN "$container"
	setpriv --bounding-set -sys_admin "$scratch/copy/tools/test" >"$scratch/said" 2>&1 </dev/null
	says "tools/test says why there is nothing to test on" "$scratch/said" $? "preparing Debian 13" "$container"
	same "and its last line counts one failure" "0 passed, 1 failed, 0 skipped" "$(tail -n 1 "$scratch/said")"
	if [ "$(df -Pm "$scratch" | awk 'NR == 2 { print $4 }')" -ge 4000 ]; then
		unshare --mount --propagation private sh -c 'mount -t tmpfs tmpfs /etc/apt && exec "$@"' sh \
			env XDG_CACHE_HOME="$scratch/cache" INFERD_DEBIAN_MIRROR=http://127.0.0.1:9/debian \
			"$tool" true >"$scratch/said" 2>&1
		says "the message without an archive" "$scratch/said" $? "http://127.0.0.1:9/debian" INFERD_DEBIAN_MIRROR "$container"
		same "and no half-made root stays" "" "$(find "$scratch/cache/inferd" -mindepth 1 -maxdepth 1 -type d)"
	else
		echo "skip the message without an archive: less than 4000 MB free in ${TMPDIR:-/tmp}"
	fi

	# Processes that a command leaves running end with it. The left process holds a pipe, whose end shows that it
	# died; the command ends only when the process is known to run.
	mkfifo "$scratch/held" "$scratch/go"
	"$tool" sh -c "tail -f /dev/null 5>$scratch/held & read -r _ <$scratch/go" &
	pid=$!
	exec 6<"$scratch/held"
	echo >"$scratch/go"
	wait "$pid"
	read -r -t 20 _ <&6
	same "no process stays behind" 1 $? # end of file; a timeout is more than 128
	exec 6<&-
	mkfifo "$scratch/ready"
	"$tool" sh -c "trap 'exit 3' TERM; tail -f /dev/null & echo >$scratch/ready; wait" &
	pid=$!
	read -r _ <"$scratch/ready"
	kill -TERM "$pid"
	wait "$pid"
	same "TERM reaches the command" 3 $?
	# KILL gives it no chance to clean up.
	"$tool" sh -c "exec 5>$scratch/held; echo >$scratch/ready; exec tail -f /dev/null" 2>/dev/null &
	pid=$!
	exec 6<"$scratch/held"
	read -r _ <"$scratch/ready"
	kill -KILL "$pid"
	{ wait "$pid"; } 2>/dev/null
	read -r -t 20 _ <&6
	same "the command dies when the tool is killed" 1 $?
	exec 6<&-
fi
same "the host's mounts are unchanged" "$mounts_before" "$(sort /proc/self/mounts)"
exit "$failed"
