{{- /* Memory of a server's pod (docs/kubernetes.md, "Memory"). */ -}}

{{- /* The MiB that a server with this -m needs: its own 5 %, and 96 MiB for the process, its buffers and connections. */ -}}
{{- define "evenkeel.server.needs" -}}
{{- $memory := include "evenkeel.server.memory" . | int64 }}
{{- add $memory (div $memory 20) 96 }}
{{- end }}

{{- define "evenkeel.server.resources" -}}
{{- $needs := include "evenkeel.server.needs" . }}
{{- $own := dict "requests" (dict "memory" (printf "%sMi" $needs)) "limits" (dict "memory" (printf "%sMi" $needs)) }}
{{- $resources := mergeOverwrite $own (deepCopy .Values.resources) }}
{{- with $resources.limits.memory }}
{{- if lt (include "evenkeel.mib" (dict "key" "resources.limits.memory" "value" .) | int64) (int64 $needs) }}
{{- fail (printf "resources.limits.memory is %s, and a server with %s MB for items needs %sMi: raise it, or lower memory" . (include "evenkeel.server.memory" $) $needs) }}
{{- end }}
{{- end }}
{{- toYaml $resources }}
{{- end }}
