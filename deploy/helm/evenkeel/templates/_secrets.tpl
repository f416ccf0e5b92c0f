{{- /* Names of secrets: users and certificates. */ -}}

{{- define "evenkeel.userSecret" -}}
{{- with .Values.auth.existingPasswordSecret }}
{{- include "evenkeel.rendered" (dict "value" . "root" $) }}
{{- else }}
{{- include "evenkeel.fullname" . }}-users
{{- end }}
{{- end }}

{{- define "evenkeel.certificateSecret" -}}
{{- if .Values.tls.certManager.enabled }}
{{- include "evenkeel.fullname" . }}-tls
{{- else }}
{{- $missing := "tls.enabled needs a certificate: give tls.existingSecret (tls.crt, tls.key, ca.crt), or tls.certManager.enabled" }}
{{- required $missing .Values.tls.existingSecret }}
{{- end }}
{{- end }}
