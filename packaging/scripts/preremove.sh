#!/bin/sh
# Before removing, in all four formats: units stop. Upgrades of dpkg (upgrade) and rpm (1) call it, too, and stop nothing. systemctl
# says what it cannot do, which is no reason to keep the package.
set -e
case "$1" in upgrade | failed-upgrade | deconfigure | 1) exit 0 ;; esac

command -v systemctl >/dev/null || exit 0
if [ -d /run/systemd/system ]; then
    systemctl stop evenkeel.service 'evenkeel@*.service' evenkeel-route.service evenkeel-replay.timer evenkeel-replay.service \
        evenkeel-control.service evenkeel-agent.service evenkeel-tune-watch.service run-evenkeel-items.mount || true
fi
# Otherwise links to units that are gone would stay.
systemctl --quiet --no-reload disable evenkeel.service evenkeel@.service evenkeel-route.service evenkeel-replay.timer \
    evenkeel-control.service evenkeel-agent.service evenkeel-tune-watch.service || true
