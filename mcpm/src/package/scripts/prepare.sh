#!/bin/sh
# prepare.sh PACKAGE...: prepares a base image: certificates, packages of its distribution, an unprivileged user.
set -eu

bundles="/etc/ssl/certs/ca-certificates.crt /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem
  /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem"

has() { command -v "$1" >/dev/null 2>&1; }

# Puts the given certificates into the system's store, and next to it into one file for programs with stores of their own.
trust() {
  [ -d /mcpm/ca ] || return 0
  if has update-ca-certificates; then
    mkdir -p /usr/local/share/ca-certificates
    cp /mcpm/ca/*.crt /usr/local/share/ca-certificates/
    update-ca-certificates >/dev/null 2>&1
  elif has update-ca-trust; then
    cp /mcpm/ca/*.crt /etc/pki/ca-trust/source/anchors/
    update-ca-trust extract
  elif [ ! -e /mcpm/added ]; then
    # A small base has the store without the program that keeps it.
    for bundle in $bundles; do
      [ ! -s "$bundle" ] || cat /mcpm/ca/*.crt >>"$bundle"
    done
    touch /mcpm/added
  fi
  mkdir -p /etc/mcpm
  cat /mcpm/ca/*.crt >/etc/mcpm/ca.pem
  cat /mcpm/ca/*.crt >/etc/mcpm/ca-bundle.pem
  for bundle in $bundles; do
    if [ -s "$bundle" ]; then
      cat "$bundle" >>/etc/mcpm/ca-bundle.pem
      break
    fi
  done
  chmod 755 /etc/mcpm
  chmod 644 /etc/mcpm/*.pem
}

install() {
  if has apt-get; then
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
    rm -rf /var/lib/apt/lists/*
  elif has apk; then
    apk add --no-cache "$@"
  elif has dnf; then
    dnf install -y "$@"
    dnf clean all
  elif has microdnf; then
    microdnf install -y "$@"
    microdnf clean all
  else
    echo "the base image has no supported package manager (apt-get, apk, dnf or microdnf)" >&2
    exit 1
  fi
}

trust
if [ $# -gt 0 ]; then
  install "$@"
  # The packages may have brought a store of certificates.
  trust
fi

# The programs that add users differ; the files do not.
grep -q '^mcpm:' /etc/passwd 2>/dev/null || echo 'mcpm:x:65532:65532::/home/mcpm:/sbin/nologin' >>/etc/passwd
grep -q '^mcpm:' /etc/group 2>/dev/null || echo 'mcpm:x:65532:' >>/etc/group
mkdir -p /home/mcpm
if [ -n "${MCPM_SINGLE_USER-}" ]; then
  # Without an engine, no owner can be changed.
  chmod 1777 /home/mcpm
else
  chown 65532:65532 /home/mcpm
fi
# What only this step needs is in no later one.
rm -rf /mcpm
