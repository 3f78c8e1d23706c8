#!/bin/bash
# The first program of the guest: follows the plan of the kernel's command line,
# vm_plan=POOL:SUITE:SUITE,POOL:SUITE..., and tells the results on the second serial line: live runs on
# each file system, then the named suites of the executor's tests ("_" for a space). Powers the
# machine off at its end.
cd /srv || exit 1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
export PATH=/usr/bin HOME=/root CK_FORK=no MUST_WORK=1
exec >/dev/ttyS1 2>&1 </dev/null
out=build/release
socket=/tmp/live/run/executor.sock
probe=$out/executor_probe
option() { sed -n "s/.*$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

check() { # NAME WHETHER(0 = yes) [WHAT WAS SEEN]
    local up
    read -r up _ </proc/uptime
    if [ "$2" = 0 ]; then echo "pass $pool: $1 (at $up s)"; else echo "fail $pool: $1: $3 (at $up s)"; fi
}

has() { # TEXT PATTERN
    [[ $1 =~ $2 ]]
}

suite() { # the executor's own tests; the pool's file system is what their /tmp is on
    local up told code
    told=$(CK_RUN_SUITE=${1//_/ } timeout 180 $out/tests/unit/executor/runner 2>&1)
    code=$?
    echo "$told"
    has "$told" "Checks: [1-9]" || check "suite '$1' comes to its end" 1 "exit code $code, after $SECONDS s"
    [ $code = 0 ] || cat /tmp/cordium-test*/log 2>/dev/null
    read -r up _ </proc/uptime
    echo "$pool: suite '$1' ended at $up s"
}

live_begin() {
    mkdir -p /tmp/live/root/{bin,dev,proc,tmp,var/tmp,run,etc,workspace,home/sandbox,opt/cordium}
    cp /usr/bin/busybox /tmp/live/root/bin/
    for a in sh dd ls cat sleep yes chattr lsattr seq touch wc sync; do ln -s busybox /tmp/live/root/bin/$a; done
    tar -C /tmp/live/root -cf /tmp/live/image.tar .
    printf '%s\n' "state_dir = /tmp/live/state" "runtime_dir = /tmp/live/run" "instance = live" "gateway_uid = 0" \
        "pool_mebibytes = 1024" "network = false" >/tmp/live/executor.conf
    $out/cordium-executor --config /tmp/live/executor.conf 2>/tmp/live/log &
    daemon=$!
    check_host
    for _ in $(seq 100); do [ -S $socket ] && break; sleep 0.1; done
    image=$($probe $socket import /tmp/live/image.tar 2>/tmp/live/import)
    check "the executor serves and takes an image" $((${#image} != 64)) "$(cat /tmp/live/import /tmp/live/log)"
}

# Beside the one that serves: what it says of the host, and that it could serve.
check_host() {
    local seen code
    seen=$($out/cordium-executor --check --config /tmp/live/executor.conf 2>&1)
    code=$?
    [ $code = 0 ] && has "$seen" "cgroups +v2 at /sys/fs/cgroup" && has "$seen" "disk limits +$(backend)"
    check "--check tells cgroup v2 and the backend" $? "$seen"
    [ -e /run/told ] || echo "$seen"
    : >/run/told
}

run() { $probe $socket run "$image" "$@" 2>&1; }

backend() { # btrfs has simple quota since Linux 6.7
    case $pool in
    ext4 | xfs) echo "project quota" ;;
    btrfs) echo "btrfs simple quota" ;;
    *) echo "ext4 image" ;;
    esac
}

live() {
    local seen want
    [ -n "$image" ] || return
    want=$(backend)
    seen=$(cat /tmp/live/log)
    has "$seen" "cgroup v2"
    check "cgroup v2 is what it uses" $? "$seen"
    has "$seen" "$want"
    check "its storage backend is $want" $? "$seen"
    seen=$(run -m 32 -- dd if=/dev/zero of=/dev/null bs=100M count=1)
    has "$seen" "status 0x9 oom 1/"
    check "a program over its memory is told as killed by it" $? "$seen"
    seen=$(run -- sh -c 'kill -9 $$')
    has "$seen" "status 0x9 oom 0/0"
    check "a kill by itself is not" $? "$seen"
    seen=$(run -- sh -c 'for i in $(seq 270); do sleep 2 & done; exit 0')
    has "$seen" "denied [1-9]"
    check "forks over the limit are counted" $? "$seen"
    seen=$(run -c 100 -- sh -c 'exec 2>/dev/null; i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done')
    # cpu 100/1000 of the wall time, and no more than twice that
    [[ $seen =~ user\ ([0-9]+)\ us,\ system\ ([0-9]+)\ us.*wall\ ([0-9]+)\ us ]] &&
        [ $(((BASH_REMATCH[1] + BASH_REMATCH[2]) * 100 / BASH_REMATCH[3])) -le 20 ]
    check "a tenth of a cpu is that" $? "$seen"
    seen=$(run -d 16 -- sh -c 'dd if=/dev/zero of=/workspace/f bs=1M count=64; sync; wc -c < /workspace/f')
    has "$seen" "quota|No space"
    check "a full disk says so" $? "$seen"
    [ "$(echo "$seen" | grep -Ex '[0-9]+' | tail -n 1)" -le $((16 << 20)) ] 2>/dev/null
    check "and holds no more than its limit" $? "$seen"
    # overlay writes as who mounted it: the executor, whom ext4 would let pass
    seen=$(run -w -r -d 16 -- sh -c 'dd if=/dev/zero of=/opt/f bs=1M count=64; sync; wc -c < /opt/f')
    has "$seen" "quota|No space" && [ "$(echo "$seen" | grep -Ex '[0-9]+' | tail -n 1)" -le $((16 << 20)) ]
    check "a writable root counts too" $? "$seen"
    live_project
    live_removal
}

# A user who could change the project of a file would leave the quota.
live_project() {
    local seen
    [ "$pool" = ext4 ] || [ "$pool" = xfs ] || return
    seen=$(run -r -- sh -c 'touch /workspace/f; chattr -p 77 /workspace/f || echo refused; lsattr -p /workspace')
    has "$seen" "refused" && ! [[ $seen =~ (^|$'\n')\ *77\  ]]
    check "root inside cannot change a file's project" $? "$seen"
    seen=$(run -d 64 -i 1024 -- sh -c 'cd /workspace; for i in $(seq 1100); do : > $i || exit 1; done')
    has "$seen" "quota|No space"
    check "inodes have a limit" $? "$seen"
}

live_removal() {
    local before after
    before=$(df -m /tmp | awk 'NR == 2 { print $3 }')
    for _ in 1 2; do run -- dd if=/dev/zero of=/workspace/f bs=1M count=60 >/dev/null; done
    for _ in $(seq 50); do
        sync
        after=$(df -m /tmp | awk 'NR == 2 { print $3 }')
        [ $((after - before)) -lt 40 ] && break
        sleep 0.2
    done
    [ $((after - before)) -lt 40 ]
    check "what was removed takes no space" $? "$before MiB before, $after after"
}

live_end() {
    kill $daemon
    wait $daemon
    check "the executor ends well" $? "$(cat /tmp/live/log)"
    [ ! -e /sys/fs/cgroup/live ]
    check "and leaves no cgroup" $? "$(ls /sys/fs/cgroup/live 2>&1)"
}

read -r up _ </proc/uptime
echo "kernel $(uname -r) reached the tests after $up s, cgroup v2 with: $(cat /sys/fs/cgroup/cgroup.controllers)"
ip link set lo up
modprobe loop # udev's static nodes load it on first use elsewhere
for plan in $(option vm_plan | tr , ' '); do
    pool=${plan%%:*}
    suites=${plan#"$pool"}
    case $pool in
    ext4) mount -t ext4 -o prjquota /dev/vdb /tmp ;;
    xfs) mount -t xfs -o pquota /dev/vdc /tmp ;;
    *) mount -t ext4 /dev/vdd /tmp ;;
    esac
    check "mount" $? "$(dmesg | tail -n 5)"
    live_begin
    live
    live_end
    for s in ${suites//:/ }; do suite "$s"; done
    umount /tmp 2>/dev/null || umount -l /tmp
    read -r up _ </proc/uptime
    echo "$pool done after $up s"
done
echo "the guest is done"
poweroff -f
