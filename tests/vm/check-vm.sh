#!/bin/bash
# Runs the executor's tests on Debian's kernels under QEMU, where cgroup v2 and project quota are
# real: 6.1 of bookworm, and 6.12 of trixie when it can be had. Ends "N passed, N failed".
#   check-vm.sh [DIR]         DIR keeps the kernels from one run to the next
# TIMEOUT_S bounds each guest. What cannot run is skipped with the reason; a failure if MUST_WORK=1.
set -uo pipefail
dir=${1:-build/vm}
here=$(dirname "$0")
timeout_s=${TIMEOUT_S:-420}

cannot() {
    echo "check-vm cannot run: $*"
    if [ "${MUST_WORK:-0}" = 1 ]; then
        echo "0 passed, 1 failed"
        exit 1
    fi
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

for program in qemu-system-x86_64 mkfs.ext4 mkfs.xfs mkfs.btrfs nft busybox kmod cpio xz dpkg-deb; do
    command -v $program >/dev/null || cannot "the program '$program' is missing: install what DEPS_VM of the Makefile names"
done
mkdir -p "$dir"
kernels=()
for suite in trixie bookworm; do
    if "$here/fetch-kernel.sh" $suite "$dir/$suite"; then
        kernels+=("$suite")
    else
        echo "the kernel of $suite cannot be had: see $dir/$suite/apt.log"
    fi
done
[ ${#kernels[@]} -gt 0 ] || cannot "no package linux-image-amd64 from ${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
"$here/make-guest.sh" "$dir" "${kernels[@]/#/$dir/}" || cannot "the guest's disk cannot be made"
for pool in ext4 xfs plain; do
    rm -f "$dir/$pool.img"
    truncate -s 4G "$dir/$pool.img"
done
mkfs.ext4 -q -F -O quota,project -E quotatype=prjquota "$dir/ext4.img" && mkfs.xfs -q -f "$dir/xfs.img" &&
    mkfs.ext4 -q -F "$dir/plain.img" || cannot "the pools cannot be made"

disk() { echo "-drive file=$dir/$1.img,format=raw,if=virtio,snapshot=on"; }

boot() { # KERNEL PLAN
    # Two processors each, though all the guests share the machine's: some tests are about threads.
    # shellcheck disable=SC2046
    timeout "$timeout_s" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m 1536 \
        -display none -monitor none -nic none -no-reboot -kernel "$dir/$1/vmlinuz" -initrd "$dir/$1/initrd" \
        -serial "file:$dir/$1/console.log" -serial "file:$dir/$1/results.log" \
        $(disk root) $(disk ext4) $(disk xfs) $(disk plain) \
        -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off vm_plan=$2" \
        </dev/null >"$dir/$1/qemu.log" 2>&1
}

# btrfs has simple quota since 6.7. The suites with thousands of processes are left to the host: an
# emulated processor takes minutes for them.
sandboxes=executor_sandboxes
pids=()
for suite in "${kernels[@]}"; do
    rm -f "$dir/$suite"/{console,results}.log
    case $suite,${#kernels[@]} in
    trixie,2) boot trixie ext4:$sandboxes:network:network_denials:executor_usage,btrfs:executor_usage:executor_self-test & ;;
    trixie,1) boot trixie ext4:$sandboxes,xfs,btrfs:network:network_denials & ;;
    bookworm,2) boot bookworm xfs:$sandboxes:executor_usage,ext4:network:network_denials:executor_doctor:executor_self-test & ;;
    *) boot "$suite" ext4:network:network_denials,xfs:$sandboxes & ;;
    esac
    pids+=($!)
done
wait "${pids[@]}"

passed=0
failed=0
for suite in "${kernels[@]}"; do
    results=$dir/$suite/results.log
    touch "$results"
    sed "s/^/$suite| /; s/\r//" "$results"
    read -r p f < <(tr -d '\r' <"$results" | awk '
        /^[0-9]+%: Checks:/ { gsub(",", ""); f += $5 + $7; p += $3 - $5 - $7 }
        /^pass / { p++ } /^fail / { f++ } /^the guest is done/ { done = 1 }
        END { print p + 0, f + (done ? 0 : 1) }')
    if ! grep -q '^the guest is done' "$results"; then
        echo "the guest with $suite did not come to its end in $timeout_s s; its console:"
        tail -n 20 "$dir/$suite/console.log" "$dir/$suite/qemu.log" | tr -d '\r'
    fi
    passed=$((passed + p))
    failed=$((failed + f))
done
rm -f "$dir"/{root,ext4,xfs,plain}.img
echo "$passed passed, $failed failed"
[ $failed = 0 ]
