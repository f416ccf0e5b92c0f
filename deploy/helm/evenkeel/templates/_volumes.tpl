{{- /* Volumes of a server: users, certificates, items. */ -}}

{{- define "evenkeel.server.mounts" -}}
{{- if .Values.auth.enabled }}
- name: users
  mountPath: /auth
  readOnly: true
{{- end }}
{{- if .Values.tls.enabled }}
- name: certificate
  mountPath: /tls
  readOnly: true
{{- end }}
{{- if .Values.warmUpgrade.enabled }}
- name: items
  mountPath: /items
{{- end }}
{{- if .Values.controlPlane.enabled }}
{{ include "evenkeel.control.runMount" . }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ include "evenkeel.rendered" (dict "value" . "root" $) }}
{{- end }}
{{- end }}

{{- define "evenkeel.server.volumes" -}}
{{- if .Values.auth.enabled }}
- name: users
  secret:
    secretName: {{ include "evenkeel.userSecret" . }}
    defaultMode: 0440
    items:
      - key: users
        path: users
{{- end }}
{{- if .Values.tls.enabled }}
- name: certificate
  secret:
    secretName: {{ include "evenkeel.certificateSecret" . }}
    defaultMode: 0440
{{- end }}
{{- if .Values.warmUpgrade.enabled }}
# Memory of the pod: a container that ends and starts again finds it. The server checks that there is room for a little more than -m.
- name: items
  emptyDir:
    medium: Memory
    sizeLimit: {{ add (include "evenkeel.server.memory" . | int64) 64 }}Mi
{{- end }}
{{- if .Values.controlPlane.enabled }}
{{ include "evenkeel.control.agentVolumes" (dict "root" . "component" "cache") }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ include "evenkeel.rendered" (dict "value" . "root" $) }}
{{- end }}
{{- end }}
