#!/bin/bash
# Makes what the guest boots from: one root disk with the built programs and the tools that they
# call, and for each kernel an initramfs that mounts it.
#   make-guest.sh DIR KERNEL_DIR...      -> DIR/root.img, KERNEL_DIR/initrd
set -euo pipefail
dir=$1
shift
root=$dir/root
out=build/release
boot_modules="virtio_pci virtio_blk crc32c_generic ext4"
root_modules="$boot_modules xfs btrfs overlay loop quota_v2 veth nf_tables nft_ct nft_reject nft_reject_inet
    nft_masq nft_nat nft_chain_nat nft_limit nft_objref nft_log nf_conntrack crc32c-intel libcrc32c xxhash_generic sha256_generic blake2b_generic"

# The module files of a kernel with what they need, each after what it needs.
module_files() {
    local kernel=$1
    shift
    for m in "$@"; do
        modprobe -d "$kernel/modules" -S "$(cat "$kernel/version")" --show-depends "$m" 2>/dev/null || true
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

put_program() {
    local path
    path=$(command -v "$1") || { echo "check-vm needs the program '$1'" >&2; exit 1; }
    install -D "$(readlink -f "$path")" "$root/usr/bin/${path##*/}"
    put_libraries "$path"
}

put_libraries() {
    { ldd "$1" 2>/dev/null || true; } | sed -n 's/.*[ \t]\(\/[^ ]*\).*/\1/p' | while read -r lib; do
        [ -e "$root/usr/lib/${lib##*/}" ] || install -D "$(readlink -f "$lib")" "$root/usr/lib/${lib##*/}"
    done
}

make_root() {
    rm -rf "$root"
    mkdir -p "$root"/{usr/{bin,lib},dev,proc,sys,tmp,run,root,etc/ssl,var/tmp,srv,work} "$root/etc/modprobe.d"
    for link in bin sbin; do ln -s usr/bin "$root/$link"; done
    for link in lib lib64; do ln -s usr/lib "$root/$link"; done
    ln -s bin "$root/usr/sbin"
    ln -s lib "$root/usr/lib64"
    mkdir "$root/usr/lib/x86_64-linux-gnu"
    for program in busybox cp tar rm mkfs.ext4 mkfs.btrfs mkfs.xfs nft kmod bash dash; do put_program $program; done
    ln -s kmod "$root/usr/bin/modprobe"
    ln -s dash "$root/usr/bin/sh" # busybox as sh would prefer its own tar
    for applet in $(busybox --list); do
        [ -e "$root/usr/bin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
    done
    echo "root:x:0:0:root:/root:/bin/sh" >"$root/etc/passwd"
    echo "root:x:0:" >"$root/etc/group"
    echo "nameserver 192.0.2.53" >"$root/etc/resolv.conf"
    cp /etc/mke2fs.conf "$root/etc/"
    for program in cordium-executor cordium-launcher executor_probe tests/unit/executor/runner tests/tools/{attack,executor_without,launcher_without}; do
        install -D -s $out/$program "$root/srv/build/release/$program"
        put_libraries $out/$program
    done
    install -D tests/vm/guest.sh "$root/srv/guest.sh"
    install -D -m 0644 testdata/fuzz/network_notes/noted "$root/srv/testdata/fuzz/network_notes/noted"
}

put_modules() {
    local kernel=$1 version file to
    version=$(cat "$kernel/version")
    # shellcheck disable=SC2086
    for file in $(module_files "$kernel" $root_modules); do
        to=$root/usr/lib/modules/$version/${file##*/lib/modules/"$version"/}
        install -D -m 0644 "$file" "$to"
        case $to in *.xz) xz -d "$to" ;; esac
    done
    cp "$kernel/modules/lib/modules/$version/"modules.{order,builtin,builtin.modinfo} "$root/usr/lib/modules/$version/"
    depmod -b "$root" "$version"
}

make_initrd() {
    local kernel=$1 tree n=0 file
    tree=$kernel/initrd.tree
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,dev,proc,sys,modules,root}
    cp -L "$(command -v busybox)" "$tree/bin/busybox"
    # shellcheck disable=SC2086
    for file in $(module_files "$kernel" $boot_modules); do
        n=$((n + 1))
        case $file in
        *.xz) xz -dc "$file" >"$tree/modules/$(printf %02d $n).ko" ;;
        *) cp "$file" "$tree/modules/$(printf %02d $n).ko" ;;
        esac
    done
    cat >"$tree/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
for m in /modules/*.ko; do $b insmod $m; done
$b mount -t ext4 /dev/vda /root
$b mount --move /dev /root/dev
exec $b switch_root /root /bin/bash /srv/guest.sh
INIT
    chmod +x "$tree/init"
    (cd "$tree" && find . | cpio -o -H newc --quiet) | gzip -1 >"$kernel/initrd"
    rm -rf "$tree"
}

make_root
for kernel in "$@"; do
    put_modules "$kernel"
    make_initrd "$kernel"
done
rm -f "$dir/root.img"
truncate -s 256M "$dir/root.img"
mkfs.ext4 -q -F -O ^has_journal -d "$root" "$dir/root.img"
rm -rf "$root"
