#!/bin/sh
# go_root.sh: creates /mcpm/root with a static program and all files that it needs.
set -eu

root=/mcpm/root
mkdir -p "$root/app" "$root/etc/ssl/certs" "$root/home/mcpm" "$root/tmp"
cp -R /app/bin "$root/app/"
for bundle in /etc/mcpm/ca-bundle.pem /etc/ssl/certs/ca-certificates.crt \
  /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
  if [ -s "$bundle" ]; then
    cp "$bundle" "$root/etc/ssl/certs/ca-certificates.crt"
    break
  fi
done
[ ! -d /etc/mcpm ] || cp -R /etc/mcpm "$root/etc/"
echo 'mcpm:x:65532:65532::/home/mcpm:/sbin/nologin' >"$root/etc/passwd"
echo 'mcpm:x:65532:' >"$root/etc/group"
# Copying into the image resets the owner, and the container has no other users.
chmod 1777 "$root/home/mcpm" "$root/tmp"
