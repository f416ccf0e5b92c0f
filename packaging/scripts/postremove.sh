#!/bin/sh
# After removing, in all four formats. On dpkg's purge empty folders go, too: certificates, registers, audit logs and deletes stay, and
# so does the user, because files of it may lie anywhere and would belong to the next user with its number.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
[ "$1" = purge ] || exit 0
for folder in /var/lib/evenkeel/agent /var/lib/evenkeel/control /var/lib/evenkeel/deletes /var/lib/evenkeel /etc/evenkeel; do
    rmdir "$folder" 2>/dev/null || true
done
