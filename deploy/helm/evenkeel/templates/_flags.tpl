{{- /* Flags of `evenkeel serve`: from our keys, and from those that charts and images of memcached have. */ -}}

{{- /* A variable of Bitnami's image, if extraEnvVars has it. */ -}}
{{- define "evenkeel.variable" -}}
{{- $name := .name }}
{{- range .root.Values.extraEnvVars }}{{ if eq .name $name }}{{ include "evenkeel.text" .value }}{{ end }}{{ end }}
{{- end }}

{{- /* Words of args, config.extraArgs, extraArgs and MEMCACHED_EXTRA_FLAGS, as a JSON list. "-m 64" in one word is two. */ -}}
{{- define "evenkeel.words" -}}
{{- $words := list }}
{{- $flagSeen := false }}
{{- $variable := regexSplit "\\s+" (include "evenkeel.variable" (dict "root" . "name" "MEMCACHED_EXTRA_FLAGS") | trim) -1 }}
{{- range concat (.Values.args | default list) (.Values.config.extraArgs | default list) (.Values.extraArgs | default list) $variable }}
{{- $word := include "evenkeel.text" . | trim }}
{{- if not $word }}
{{- else if hasPrefix "-" $word }}
{{- $flagSeen = true }}
{{- $words = concat $words (regexSplit "\\s+" $word 2) }}
{{- else if $flagSeen }}
{{- $words = append $words $word }}
{{- else if not (has (base $word) (list "run.sh" "entrypoint.sh" "memcached" "serve")) }}
{{- fail (printf "args begins with %s: expected flags of `evenkeel serve`, which are memcached's" $word) }}
{{- end }}
{{- end }}
{{- toJson $words }}
{{- end }}

{{- /* What these words say of memory, connections, threads and the port, each with its key, and the lines that remain. */ -}}
{{- define "evenkeel.flags" -}}
{{- $names := dict "-m" "memory" "--memory-limit" "memory" "-c" "connections" "--conn-limit" "connections" "-t" "threads" "--threads" "threads" "-p" "port" "--port" "port" }}
{{- $found := dict "memory" (list) "connections" (list) "threads" (list) "port" (list) "lines" (list) }}
{{- $open := "" }}
{{- range fromJsonArray (include "evenkeel.words" .) }}
{{- if and (hasPrefix "-" .) (not $open) }}
{{- $flag := regexFind "^(--[a-z-]+|-[mctp])" . }}
{{- $value := trimPrefix $flag . | trimPrefix "=" }}
{{- if not (hasKey $names $flag) }}
{{- $_ := set $found "lines" (append $found.lines .) }}
{{- else if $value }}
{{- $kind := get $names $flag }}
{{- $_ := set $found $kind (append (get $found $kind) (dict "key" (printf "%s in args" $flag) "value" $value)) }}
{{- else }}
{{- $open = $flag }}
{{- end }}
{{- else if $open }}
{{- $kind := get $names $open }}
{{- $_ := set $found $kind (append (get $found $kind) (dict "key" (printf "%s in args" $open) "value" .)) }}
{{- $open = "" }}
{{- else }}
{{- /* The value of the flag on the last line. */ -}}
{{- $_ := set $found "lines" (append (initial $found.lines) (printf "%s %s" (last $found.lines) .)) }}
{{- end }}
{{- end }}
{{- if $open }}{{ fail (printf "%s in args has no value" $open) }}{{ end }}
{{- toJson $found }}
{{- end }}

{{- /* Megabytes for items. */ -}}
{{- define "evenkeel.server.memory" -}}
{{- $found := list }}
{{- with .Values.memory }}
{{- $found = append $found (dict "key" "memory" "value" (include "evenkeel.mib" (dict "key" "memory" "value" .))) }}
{{- end }}
{{- $others := list (dict "key" "config.memoryLimit" "value" .Values.config.memoryLimit) (dict "key" "memcached.maxItemMemory" "value" (.Values.memcached | default dict).maxItemMemory) (dict "key" "MEMCACHED_CACHE_SIZE" "value" (include "evenkeel.variable" (dict "root" . "name" "MEMCACHED_CACHE_SIZE"))) }}
{{- range concat $others (fromJson (include "evenkeel.flags" .)).memory }}
{{- if .value }}
{{- $found = append $found (dict "key" .key "value" (include "evenkeel.megabytes" .)) }}
{{- end }}
{{- end }}
{{- $memory := include "evenkeel.agreed" (dict "found" $found "default" "1024" "unit" " MB") }}
{{- if lt (int64 $memory) 8 }}
{{- fail (printf "memory is %s MB: expected 8Mi or more" $memory) }}
{{- end }}
{{- $memory }}
{{- end }}

{{- /* One of the other amounts: `kind` of evenkeel.flags, the keys that may give it with their values, the default. */ -}}
{{- define "evenkeel.server.amount" -}}
{{- $found := list }}
{{- range concat .keys (get (fromJson (include "evenkeel.flags" .root)) .kind) }}
{{- $value := include "evenkeel.text" .value }}
{{- if and .value (not (regexMatch "^[0-9]+$" $value)) }}
{{- fail (printf "%s is %s: expected a number" .key $value) }}
{{- end }}
{{- if .value }}{{ $found = append $found (dict "key" .key "value" $value) }}{{ end }}
{{- end }}
{{- include "evenkeel.agreed" (dict "found" $found "default" .default "unit" "") }}
{{- end }}

{{- define "evenkeel.server.connections" -}}
{{- $keys := list (dict "key" "maxConnections" "value" .Values.maxConnections) (dict "key" "config.maxConnections" "value" .Values.config.maxConnections) (dict "key" "MEMCACHED_MAX_CONNECTIONS" "value" (include "evenkeel.variable" (dict "root" . "name" "MEMCACHED_MAX_CONNECTIONS"))) }}
{{- include "evenkeel.server.amount" (dict "root" . "kind" "connections" "keys" $keys "default" "") }}
{{- end }}

{{- define "evenkeel.server.threads" -}}
{{- $keys := list (dict "key" "threads" "value" .Values.threads) (dict "key" "MEMCACHED_THREADS" "value" (include "evenkeel.variable" (dict "root" . "name" "MEMCACHED_THREADS"))) }}
{{- include "evenkeel.server.amount" (dict "root" . "kind" "threads" "keys" $keys "default" 2) }}
{{- end }}

{{- define "evenkeel.server.port" -}}
{{- $keys := list (dict "key" "containerPorts.memcached" "value" .Values.containerPorts.memcached) (dict "key" "MEMCACHED_PORT_NUMBER" "value" (include "evenkeel.variable" (dict "root" . "name" "MEMCACHED_PORT_NUMBER"))) }}
{{- include "evenkeel.server.amount" (dict "root" . "kind" "port" "keys" $keys "default" 11211) }}
{{- end }}

{{- /* serve.conf. Of a flag that is given twice the last one counts, so no word of args can part a port from its probe. */ -}}
{{- define "evenkeel.server.conf" -}}
# Flags of `evenkeel serve`, one a line.
{{- range (fromJson (include "evenkeel.flags" .)).lines }}
{{ . }}
{{- end }}
{{- with include "evenkeel.variable" (dict "root" . "name" "MEMCACHED_MAX_ITEM_SIZE") }}
--max-item-size={{ . }}
{{- end }}
{{- if gt (int .Values.config.verbosity) 0 }}
--verbose
{{- end }}
--port={{ include "evenkeel.server.port" . }}
--memory-limit={{ include "evenkeel.server.memory" . }}
--threads={{ include "evenkeel.server.threads" . }}
{{- with include "evenkeel.server.connections" . }}
--conn-limit={{ . }}
{{- end }}
--metrics-listen=*:{{ .Values.metrics.containerPorts.metrics }}
{{- if eq .Values.logFormat "json" }}
--log=json
{{- end }}
{{- if .Values.controlPlane.enabled }}
--pidfile=/run/evenkeel/server.pid
{{- end }}
{{- if .Values.warmUpgrade.enabled }}
--memory-file=/items/items
{{- end }}
{{- if .Values.auth.enabled }}
--auth-file=/auth/users
{{- if .Values.auth.sasl }}
--enable-sasl
{{- end }}
{{- end }}
{{- if .Values.tls.enabled }}
--enable-ssl
--extended=ssl_chain_cert=/tls/tls.crt,ssl_key=/tls/tls.key
{{- with get (dict "optional" 1 "required" 2) .Values.tls.clientCertificates }}
--extended=ssl_ca_cert=/tls/ca.crt,ssl_verify_mode={{ . }}
{{- end }}
{{- end }}
{{- if and .Values.discovery.enabled (eq .Values.router.kind "none") }}
--cluster-file=/etc/evenkeel/members
{{- end }}
{{- end }}
