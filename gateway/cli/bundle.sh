#!/bin/sh
# Copies the loader and every library that PROGRAM needs into FOLDER/lib.
#   bundle.sh PROGRAM FOLDER
set -eu
program=$1
folder=$2
needs=$(ldd "$program")
printf '%s\n' "$needs" | while read -r name arrow path rest; do
    case $name in
    linux-vdso*) ;;
    */ld-linux*) cp -L "$name" "$folder/lib/ld.so" ;;
    *) [ "$arrow" = "=>" ] && cp -L "$path" "$folder/lib/$name" ;;
    esac
done
