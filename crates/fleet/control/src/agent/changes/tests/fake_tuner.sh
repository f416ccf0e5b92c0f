#!/bin/sh
# A tuner that a test plays: it has the command line, the JSON and the exit statuses of `evenkeel tune`, and keeps its settings in files.
# The folder is that of the script. A file `do-VERB` is read as shell commands in the middle of that verb.
cd "$(dirname "$0")" || exit 1
verb=$2
label= plan= within=
for word in "$@"; do
    case $word in
    --label=*) label=${word#*=} ;;
    --plan=*) plan=${word#*=} ;;
    --confirm-within=*) within=${word#*=} within=${within%s} ;;
    esac
done
echo "$verb $label" >>log

now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
middle() { if [ -e "do-$verb" ]; then . "./do-$verb"; fi; }
refuse() {
    echo "evenkeel: tune: failed to $1" >&2
    echo "  hint: look into the script" >&2
    exit 1
}
# Each file of a journal is replaced as a whole: LABEL PHASE DEADLINE VALUE-BEFORE
put() { echo "$2 $3 $4 $5" >"$1.new" && mv "$1.new" "$1"; }
# The settings of a change: attempts of one change have the same, and so have all attempts at a standard.
setting_of() {
    case $1 in
    standard-*) echo setting-standard ;;
    *) echo "setting-${1%-*}" ;;
    esac
}
value() { cat "$1" 2>/dev/null || echo old; }
set_value() { echo "$2" >"$1.new" && mv "$1.new" "$1"; }
undo() {
    read -r its _ _ before <"$1"
    put "$1" "$its" unfinished 0 "$before"
    set_value "$(setting_of "$its")" "$before"
    middle
    put "$1" "$its" undone 0 "$before"
}
lock() {
    exec 9>>lock
    flock -w 20 9 || refuse "lock: another one is at work"
    # The kernel ends the real one with its agent.
    [ -z "$EVENKEEL_PARENT" ] || kill -0 "$EVENKEEL_PARENT" 2>/dev/null || exit 1
    for journal in [0-9]*.journal; do
        [ -e "$journal" ] || continue
        read -r _ phase end _ <"$journal"
        case $phase in unfinished | applied) if [ "$end" -gt 0 ] && [ "$end" -le "$(now)" ]; then verb=late undo "$journal"; fi ;; esac
    done
}
case $verb in
plan)
    middle
    case $* in
    # What a host that meets its standard would change.
    *--profile=standard*) if [ "$(value setting-standard)" = new ]; then echo '{"changes": []}' && exit 0; fi ;;
    esac
    cat plan.json
    ;;
apply)
    lock
    for journal in [0-9]*.journal; do
        [ -e "$journal" ] || continue
        read -r its phase end _ <"$journal"
        case $phase in
        unfinished) refuse "apply a plan: an earlier one was interrupted ($its)" ;;
        applied) refuse "apply a plan: an earlier one waits to be confirmed ($its)" ;;
        esac
    done
    cmp -s "$plan" applied.json || cp "$plan" applied.json
    journal=$(printf '%06d.journal' $(($(ls [0-9]*.journal 2>/dev/null | wc -l) + 1)))
    setting=$(setting_of "$label")
    before=$(value "$setting")
    end=$(($(now) + within * 100))
    put "$journal" "$label" unfinished "$end" "$before"
    set_value "$setting" "new"
    middle
    put "$journal" "$label" applied "$end" "$before"
    ;;
confirm | rollback)
    lock
    for journal in $(ls -r [0-9]*.journal 2>/dev/null); do
        read -r its phase end before <"$journal"
        [ "$its" = "$label" ] || continue
        case $verb-$phase in
        *-undone) continue ;;
        confirm-applied)
            middle
            put "$journal" "$its" confirmed 0 "$before"
            exit 0
            ;;
        rollback-*)
            undo "$journal"
            exit 0
            ;;
        esac
    done
    refuse "$verb the plan $label: it is not there"
    ;;
status)
    middle
    exec 9>>lock
    at_work=interrupted
    if flock -n 9; then lock; else at_work=at_work; fi
    plans= comma=
    for journal in $(ls -r [0-9]*.journal 2>/dev/null); do
        read -r its phase end before <"$journal"
        left=null
        case $phase in
        undone) continue ;;
        unfinished) phase=$at_work ;;
        applied) phase=waiting left=$(((end - $(now)) / 100)) ;;
        confirmed) phase=in_force ;;
        esac
        [ "$left" = null ] || [ "$left" -ge 0 ] || left=0
        reads=$(value "$(setting_of "$its")") state=drifted
        [ "$reads" = new ] && state=holds
        setting="{\"setting\": \"a\", \"wanted\": \"new\", \"reads\": \"$reads\", \"state\": \"$state\"}"
        plans="$plans$comma{\"journal\": \"$journal\", \"label\": \"$its\", \"phase\": \"$phase\", \"left_s\": $left, \"settings\": [$setting]}"
        comma=", "
    done
    unread=
    [ -e unread ] && unread='"000009.jsonl: line 5 cannot be read"'
    echo "{\"plans\": [$plans], \"overdue\": [], \"unread\": [$unread], \"persists\": {\"files\": []}}"
    ;;
esac
