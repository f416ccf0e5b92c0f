{{- /* What Helm prints after an installation: how to reach the cache, and which given keys have no effect. */ -}}
{{- define "evenkeel.notes" -}}
{{- $name := include "evenkeel.fullname" . }}
{{- $domain := include "evenkeel.domain" . }}
{{- $port := .Values.service.port | default .Values.service.ports.memcached }}
{{- $kind := .Values.router.kind }}
{{- if eq (int .Values.replicaCount) 0 }}
There are no servers.
{{- else }}
{{ .Values.replicaCount }} server{{ ne (int .Values.replicaCount) 1 | ternary "s, each" "" }} with {{ include "evenkeel.server.memory" . }} MB for items, in a pod of at most {{ (include "evenkeel.server.resources" . | fromYaml).limits.memory }}.
{{ if eq $kind "none" }}
Without routers, clients spread keys over the servers themselves. Give them this list, in this order:
{{ range fromJsonArray (include "evenkeel.servers" .) }}
  {{ . }}
{{- end }}
{{- if .Values.discovery.enabled }}

Clients with auto-discovery ask {{ $name }}.{{ $domain }}:{{ $port }} for it (revision {{ .Values.discovery.revision | default .Release.Revision }}).
{{- end }}
{{- else if eq $kind "Sidecar" }}
The chart of an application adds a router to its pod with the templates evenkeel.routerSidecar and evenkeel.routerSidecarVolumes.
The application then uses 127.0.0.1:{{ .Values.router.port }} as if it were one server.
{{- else }}
Clients use one address as if it were one server; a router spreads keys over the servers:

  {{ $name }}.{{ $domain }}:{{ $port }}
{{- if eq $kind "DaemonSet" }}

Requests go to the router of the client's own node. A pod on a node without a router cannot connect: see router.tolerations.
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.controlPlane.enabled }}
{{ include "evenkeel.control.notes" . }}
{{- end }}
{{- if .Values.tune.enabled }}

{{ if eq .Values.tune.mode "apply" }}Settings of the selected nodes are changed, and restored when their pods end{{ else }}What limits the nodes{{ end }}:

  kubectl --namespace {{ .Release.Namespace }} logs daemonset/{{ $name }}-tune --container={{ ternary "apply" "check" (eq .Values.tune.mode "apply") }}
{{- end }}
{{- if .Values.auth.enabled }}

Clients log in{{ if .Values.auth.sasl }} by SASL, in the binary protocol{{ else }} with a set of any key whose value is "user password"{{ end }}. The users are in the secret {{ include "evenkeel.userSecret" . }}.
{{- end }}
{{- if .Values.tls.enabled }}

Connections are encrypted. Clients trust ca.crt of the secret {{ include "evenkeel.certificateSecret" . }}.
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.allowExternal) (not .Values.networkPolicy.ingressPodMatchLabels) }}

Only pods with the label {{ $name }}-client=true may connect.
{{- end }}
{{- if .Values.warmUpgrade.enabled }}

{{ if .Values.warmUpgrade.job.enabled -}}
Upgrades with other flags or another image restart one server after the other, with its items, and fail at the first that comes back
without them. Give Helm time for it: --timeout 30m.
{{- else -}}
An upgrade changes no server by itself. With other flags or another image, go through docs/kubernetes.md, "Warm upgrade".
{{- end }}
{{- else if gt .Release.Revision 1 }}

Servers whose image or flags have changed are replaced one after the other, and begin empty (docs/kubernetes.md, "Upgrade").
{{- end }}
{{- with include "evenkeel.withoutEffect" . }}

Without effect:
{{ . }}
{{- end }}
{{- end }}

{{- /* A line for each given key that has no effect. */ -}}
{{- define "evenkeel.withoutEffect" -}}
{{- $lines := list }}
{{- $foreign := .Files.Get "files/foreign.yaml" | fromYaml }}
{{- range $key, $reason := $foreign }}
{{- $value := $.Values }}
{{- range $part := splitList "." $key }}
{{- $value = kindIs "map" $value | ternary (get (kindIs "map" $value | ternary $value dict) $part) "" }}
{{- end }}
{{- if $value }}
{{- $lines = append $lines (printf "  %s: %s" $key $reason) }}
{{- end }}
{{- end }}
{{- /* A test keeps this list equal to values.yaml. */}}
{{- $known := list "affinity" "args" "auth" "clusterDomain" "commonAnnotations" "commonLabels" "config" "containerPorts" "containerSecurityContext" "controlPlane" "customLivenessProbe" "customReadinessProbe" "customStartupProbe" "discovery" "extraArgs" "extraDeploy" "extraEnvVars" "extraEnvVarsCM" "extraEnvVarsSecret" "extraObjects" "extraVolumeMounts" "extraVolumes" "fullnameOverride" "global" "hostAliases" "image" "initContainers" "lifecycleHooks" "livenessProbe" "logFormat" "maxConnections" "memory" "metrics" "nameOverride" "networkPolicy" "nodeSelector" "pdb" "podAnnotations" "podAntiAffinityPreset" "podLabels" "podManagementPolicy" "podSecurityContext" "preStopSleepSeconds" "priorityClassName" "readinessProbe" "replicaCount" "resources" "router" "runtimeClassName" "schedulerName" "seccomp" "service" "serviceAccount" "sidecars" "startupProbe" "terminationGracePeriodSeconds" "threads" "tls" "tolerations" "topologySpreadConstraints" "tune" "updateStrategy" "warmUpgrade" }}
{{- range $key, $value := .Values }}
{{- $isForeign := false }}
{{- range $path, $reason := $foreign }}
{{- if eq $key (first (splitList "." $path)) }}{{ $isForeign = true }}{{ end }}
{{- end }}
{{- if not (or $isForeign (has $key $known)) }}
{{- $lines = append $lines (printf "  %s: this chart has no such key" $key) }}
{{- end }}
{{- end }}
{{- range .Values.extraEnvVars }}
{{- if has .name (list "MEMCACHED_USERNAME" "MEMCACHED_PASSWORD") }}
{{- $lines = append $lines (printf "  extraEnvVars, %s: users are in auth" .name) }}
{{- end }}
{{- end }}
{{- join "\n" $lines }}
{{- end }}
