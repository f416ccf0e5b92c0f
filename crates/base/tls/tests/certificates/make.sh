#!/bin/sh
# Makes the certificates of the tests of TLS listeners anew, with OpenSSL, in this directory. The keys of the two
# authorities are thrown away. Valid from a day in the past on, for tests on a host whose clock is behind.
set -eu
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
valid="-startdate 20260101000000Z -enddate 21260101000000Z"

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

# AUTHORITY SUBJECT KEY EXTENSIONS OUTPUT [SELFSIGN]: a certificate, by what `openssl ca` needs around it.
sign() {
    : >"$scratch/index"
    printf '[ca]\ndatabase = %s/index\nrand_serial = yes\ndefault_md = sha256\npolicy = any\nnew_certs_dir = %s\n' \
        "$scratch" "$scratch" >"$scratch/ca"
    printf '[any]\norganizationName = optional\ncommonName = optional\n[req]\ndistinguished_name = dn\n[dn]\n' \
        >>"$scratch/ca"
    printf '[extensions]\n%s\n' "$4" >>"$scratch/ca"
    openssl req -new -config "$scratch/ca" -key "$3" -subj "$2" -out "$scratch/request"
    # shellcheck disable=SC2086
    openssl ca -batch -notext -config "$scratch/ca" -name ca -extensions extensions $valid -preserveDN \
        -keyfile "$scratch/$1" ${6:--cert "$1.pem"} -in "$scratch/request" -out "$5" 2>"$scratch/log" ||
        { cat "$scratch/log" >&2; exit 1; }
}

authority() { # FILE SUBJECT
    key "$scratch/$1"
    sign "$1" "$2" "$scratch/$1" "basicConstraints = critical, CA:TRUE" "$1.pem" -selfsign
}

certificate() { # FILE AUTHORITY SUBJECT USAGE [NAMES]
    key "$1-key.pem"
    sign "$2" "$3" "$1-key.pem" "basicConstraints = CA:FALSE
extendedKeyUsage = $4
${5:+subjectAltName = $5}" "$1.pem"
}

authority authority "/CN=authority of the tests"
authority foreign "/CN=another authority"
certificate server authority "/CN=server" serverAuth "DNS:localhost,DNS:cache.example,IP:127.0.0.1"
certificate other authority "/CN=other" serverAuth "DNS:other.example,DNS:*.wild.example"
certificate reader authority "/CN=some reader" clientAuth "DNS:reader.clients.example"
certificate writer authority "/O=example" clientAuth "URI:spiffe://example/writer/1"
certificate admin authority "/O=example/CN=admin" clientAuth
certificate stranger foreign "/CN=admin" clientAuth "DNS:reader.clients.example"
