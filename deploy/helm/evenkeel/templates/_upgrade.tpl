{{- /* Names of the warm upgrade, and the checksum by which it knows whether a server has read its flags. */ -}}

{{- /* Not empty if `helm upgrade` upgrades the servers itself. */ -}}
{{- define "evenkeel.upgrade.isOn" -}}
{{- if and .Values.warmUpgrade.enabled .Values.warmUpgrade.job.enabled }}yes{{ end }}
{{- end }}

{{- define "evenkeel.upgrade.name" -}}
{{ include "evenkeel.fullname" . }}-warm-upgrade
{{- end }}

{{- /* SHA-256 of serve.conf as it is in the pod: a server says which one it has read. */ -}}
{{- define "evenkeel.server.checksum" -}}
{{ printf "%s\n" (include "evenkeel.server.conf" .) | sha256sum }}
{{- end }}
