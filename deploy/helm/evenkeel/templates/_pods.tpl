{{- /* Parts of pods that servers, routers and the sidecar share. */ -}}

{{- /* A security context without Bitnami's `enabled`; nothing if that is false. */ -}}
{{- define "evenkeel.context" -}}
{{- if ne (toString .given.enabled) "false" }}
securityContext:
  {{- omit (merge (dict) .given (.more | default dict)) "enabled" | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{- define "evenkeel.podSecurity" -}}
{{- $seccomp := dict "type" .Values.seccomp.type }}
{{- if eq .Values.seccomp.type "Localhost" }}
{{- $missing := "seccomp.localhostProfile is empty: expected the path of a profile below the kubelet's folder for them, such as evenkeel/io-uring.json" }}
{{- $_ := set $seccomp "localhostProfile" (required $missing .Values.seccomp.localhostProfile) }}
{{- end }}
{{- include "evenkeel.context" (dict "given" .Values.podSecurityContext "more" (dict "seccompProfile" $seccomp)) }}
{{- end }}

{{- define "evenkeel.containerSecurity" -}}
{{- include "evenkeel.context" (dict "given" .Values.containerSecurityContext) }}
{{- end }}

{{- /* What stands in every pod: no token of a service account, which nothing here would use. */ -}}
{{- define "evenkeel.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
serviceAccountName: {{ include "evenkeel.serviceAccount" . }}
{{- include "evenkeel.at" (list 0 (include "evenkeel.pullSecrets" .)) }}
{{- end }}

{{- define "evenkeel.serviceAccount" -}}
{{- default (ternary (include "evenkeel.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- /* Where pods run: `values` has the keys, `component` is spread over zones and hosts. */ -}}
{{- define "evenkeel.placement" -}}
{{- $root := .root }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "hostAliases" }}
{{- with get $.values $key }}
{{ $key }}:
  {{- include "evenkeel.rendered" (dict "value" . "root" $root) | nindent 2 }}
{{- end }}
{{- end }}
{{- range $key := list "priorityClassName" "schedulerName" "runtimeClassName" }}
{{- with get $.values $key }}
{{ $key }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .isSpread }}
topologySpreadConstraints:
{{- if .values.topologySpreadConstraints }}
  {{- include "evenkeel.rendered" (dict "value" .values.topologySpreadConstraints "root" $root) | nindent 2 }}
{{- else }}
  {{- range $key, $unsatisfied := dict "topology.kubernetes.io/zone" "ScheduleAnyway" "kubernetes.io/hostname" (ternary "DoNotSchedule" "ScheduleAnyway" (eq (toString .values.podAntiAffinityPreset) "hard")) }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ $unsatisfied }}
    labelSelector:
      matchLabels:
        {{- include "evenkeel.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A probe of the metrics page, unless the values name another way to ask. */ -}}
{{- define "evenkeel.probe" -}}
{{- with .custom }}
{{ $.name }}:
  {{- include "evenkeel.rendered" (dict "value" . "root" $.root) | nindent 2 }}
{{- else }}
{{- if ne (toString .given.enabled) "false" }}
{{- $own := dict "httpGet" (dict "path" .path "port" "metrics") }}
{{- if or .given.httpGet .given.tcpSocket .given.exec .given.grpc }}{{ $own = dict }}{{ end }}
{{ .name }}:
  {{- merge (omit .given "enabled") $own | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* preStop: routers and endpoints see the pod leave before it ends. */ -}}
{{- define "evenkeel.lifecycle" -}}
{{- $sleep := dict "preStop" (dict "sleep" (dict "seconds" (int .Values.preStopSleepSeconds))) }}
{{- with .Values.lifecycleHooks | default (ternary $sleep dict (gt (int .Values.preStopSleepSeconds) 0)) }}
lifecycle:
  {{- include "evenkeel.rendered" (dict "value" . "root" $) | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Annotations for a Prometheus that looks for them; with a ServiceMonitor, the pod would be read twice. */ -}}
{{- define "evenkeel.scrape" -}}
{{- if and .root.Values.metrics.enabled (not .root.Values.metrics.serviceMonitor.enabled) }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- end }}
