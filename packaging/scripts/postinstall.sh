#!/bin/sh
# After installing and upgrading, in all four formats: the user, folders, and the new version for what runs.
set -e

# dpkg also calls it to go back; what runs has not changed then.
case "$1" in abort-*) exit 0 ;; esac

if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers evenkeel.conf
elif command -v useradd >/dev/null; then
    id evenkeel >/dev/null 2>&1 || useradd --system --user-group --home-dir / --shell /usr/sbin/nologin evenkeel
elif command -v adduser >/dev/null; then
    id evenkeel >/dev/null 2>&1 || adduser -S -D -H -h / -s /sbin/nologin evenkeel
fi

# A chroot or a container without systemd runs no unit, and has its folders made when it boots.
[ -d /run/systemd/system ] || exit 0
systemd-tmpfiles --create evenkeel.conf
systemctl daemon-reload

# Servers and routers are reloaded: the new version takes over connections and items. If it cannot, the old one serves on, which must not fail
# the upgrade of a host.
for unit in $(systemctl list-units --full --plain --no-legend --state=active evenkeel.service 'evenkeel@*.service' evenkeel-route.service | cut -d ' ' -f 1); do
    start=try-reload-or-restart
    # A router that was started by an older unit offers itself nowhere, so nothing can take over from it.
    [ "$unit" != evenkeel-route.service ] || [ -S /run/evenkeel/route/next ] || start=try-restart
    systemctl $start "$unit" && continue
    if systemctl --quiet is-active "$unit"; then
        echo "evenkeel: $unit: the new version did not take over, and the old one serves on." \
            "\`journalctl -u $unit\` says why; then \`systemctl reload $unit\`," \
            "or \`systemctl restart $unit\`, which closes connections and empties a server." >&2
    else
        # A unit without a reload (warm.conf) was restarted, and so was a router that offers itself nowhere.
        echo "evenkeel: $unit did not start in the new version, and is down. \`journalctl -u $unit\` says why." >&2
    fi
done
# The others have nothing to hand over.
for unit in evenkeel-control evenkeel-agent evenkeel-tune-watch; do
    systemctl try-restart $unit.service ||
        echo "evenkeel: $unit did not start in the new version. \`journalctl -u $unit\` says why." >&2
done
