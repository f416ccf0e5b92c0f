#!/bin/sh
# Makes the certificates of the tests that our own authority does not sign, with OpenSSL, in this directory.
set -eu
cd "$(dirname "$0")"

# FILE SUBJECT NAMES: a certificate that signs itself and is no authority, and its key, in one file.
signed_by_itself() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "$2" \
        -addext "basicConstraints = critical, CA:FALSE" -addext "extendedKeyUsage = clientAuth, serverAuth" \
        -addext "subjectAltName = $3" -keyout key -out "$1" 2>/dev/null
    cat key >>"$1"
    rm key
}

signed_by_itself self-signed.pem /CN=prod "URI:evenkeel://prod/operator/ann"
signed_by_itself two-uris.pem /CN=x "URI:evenkeel://prod/agent/x,URI:evenkeel://prod/operator/x"
