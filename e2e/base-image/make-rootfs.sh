#!/usr/bin/env bash
# Prints a minimal Debian root file system as a tar stream: what `FROM` begins with where no image registry answers.
# It trusts the certificate authorities that this machine trusts, since builds may run behind a proxy of its own.
set -euo pipefail

release=${1:-bookworm}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

debootstrap --variant=minbase --include=ca-certificates "$release" "$folder" >&2
trusted=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
if [ -s "$trusted" ]; then cp --dereference "$trusted" "$folder/etc/ssl/certs/ca-certificates.crt"; fi
rm -rf "$folder"/var/cache/apt/* "$folder"/var/lib/apt/lists/* "$folder"/var/log/* \
  "$folder"/usr/share/{doc,man,info,locale}/*
# Packages that come later bring no manuals either.
printf 'path-exclude=/usr/share/%s/*\n' doc man info locale >"$folder/etc/dpkg/dpkg.cfg.d/no-manuals"
printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d"
chmod +x "$folder/usr/sbin/policy-rc.d"
tar --create --numeric-owner --directory "$folder" .
