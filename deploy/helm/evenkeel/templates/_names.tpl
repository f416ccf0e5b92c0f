{{- /* Names, labels, the image, and values that are rendered as templates. */ -}}

{{- /* The name of all objects. 50 characters leave room for endings within the 63 of a label. */ -}}
{{- define "evenkeel.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "evenkeel.headless" -}}
{{ include "evenkeel.fullname" . }}-headless
{{- end }}

{{- /* The end of the names that all objects have in DNS. */ -}}
{{- define "evenkeel.domain" -}}
{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- /* Addresses of the servers, as a JSON list. A full name is looked up without a search list. */ -}}
{{- define "evenkeel.servers" -}}
{{- $names := list }}
{{- range $ordinal := until (int .Values.replicaCount) }}
{{- $pod := printf "%s-%d.%s.%s" (include "evenkeel.fullname" $) $ordinal (include "evenkeel.headless" $) (include "evenkeel.domain" $) }}
{{- $names = append $names (printf "%s:%s" $pod (include "evenkeel.server.port" $)) }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{- /* Labels that select pods; they never change. `component` is cache, router, metrics (no pods), or one without metrics: tune, warm-upgrade. */ -}}
{{- define "evenkeel.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}{{ if has (toString .component) (list "tune" "warm-upgrade") }}-{{ .component }}{{ end }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- /* Labels of objects. */ -}}
{{- define "evenkeel.labels" -}}
{{ include "evenkeel.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ include "evenkeel.rendered" (dict "value" . "root" $.root) }}
{{- end }}
{{- end }}

{{- /* Labels of pods. No version: a new chart must not restart servers whose flags and image are the same. */ -}}
{{- define "evenkeel.podLabels" -}}
{{- $labels := merge (dict) (fromYaml (include "evenkeel.selector" .)) (.labels | default dict) (.root.Values.commonLabels | default dict) }}
{{- include "evenkeel.rendered" (dict "value" $labels "root" .root) }}
{{- end }}

{{- /* Metadata of an object: name, labels, and annotations if there are any. */ -}}
{{- define "evenkeel.metadata" -}}
name: {{ .name }}
namespace: {{ .namespace | default .root.Release.Namespace }}
labels:
  {{- include "evenkeel.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- include "evenkeel.rendered" (dict "value" . "root" $.root) | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- include "evenkeel.rendered" (dict "value" . "root" $.root) | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A value in which templates are rendered, as Bitnami's charts do. */ -}}
{{- define "evenkeel.rendered" -}}
{{- tpl (kindIs "string" .value | ternary .value (toYaml .value)) .root }}
{{- end }}

{{- /* A part that may be empty, at this indentation. */ -}}
{{- define "evenkeel.at" -}}
{{- with index . 1 | trim }}{{ nindent (index $ 0) . }}{{ end }}
{{- end }}

{{- define "evenkeel.image" -}}
{{- $image := .Values.image }}
{{- if hasSuffix "memcached" $image.repository }}
{{- fail (printf "image.repository is %s, which is another program: leave out image.repository and image.tag, or name an image of Evenkeel" $image.repository) }}
{{- end }}
{{- with .Values.global.imageRegistry | default $image.registry }}{{ . }}/{{ end }}
{{- $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Names of secrets, which Bitnami's charts take as strings and Kubernetes as objects. */ -}}
{{- define "evenkeel.pullSecrets" -}}
{{- with concat (.Values.global.imagePullSecrets | default list) (.Values.image.pullSecrets | default list) }}
imagePullSecrets:
  {{- range . }}
  - name: {{ kindIs "string" . | ternary . (get (kindIs "map" . | ternary . dict) "name") }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* The file of --cluster-file: a revision, and a line host|ip|port for each address. */ -}}
{{- define "evenkeel.members" -}}
{{ .root.Values.discovery.revision | default .root.Release.Revision | int }}
{{- range .servers }}
{{ regexReplaceAll ":([0-9]+)$" . "||${1}" }}
{{- end }}
{{- end }}
