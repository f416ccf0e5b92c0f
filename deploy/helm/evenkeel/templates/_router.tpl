{{- /* The router: its flags, its configuration, its container, and the same as a native sidecar for other charts. */ -}}

{{- /* Flags that the routers and the sidecar have in common. */ -}}
{{- define "evenkeel.router.flags" -}}
{{- $router := .Values.router }}
{{- if .Values.controlPlane.enabled }}
# Written by the agent, which is there before.
--config=file:/run/evenkeel/route.json
--unix-domain-sock=/run/evenkeel/router.sock
--pidfile=/run/evenkeel/router.pid
{{- else }}
--config=file:/etc/evenkeel/route.json
{{- end }}
--num-proxies={{ $router.threads }}
--buffer-memory-mb={{ $router.bufferMemory }}
--metrics-listen=*:{{ $router.metricsPort }}
# A pod that was replaced is back in seconds; by default a server that failed is tried again after ten.
--probe-timeout-initial=1000
--probe-timeout-max=5000
# Any client could end the router with the command shutdown.
--disable-shutdown-cmd
# Deletes that fail are answered with their error: there is no disk to keep them on.
--asynclog-disable
{{- if eq .Values.logFormat "json" }}
--log=json
{{- end }}
{{- if .Values.tls.enabled }}
--ssl-verify-peers
--ssl-verify-names
--pem-ca-path=/tls/ca.crt
--pem-cert-path=/tls/tls.crt
--pem-key-path=/tls/tls.key
--ssl-connection-cache
{{- end }}
{{- range $router.extraArgs }}
{{ include "evenkeel.text" . }}
{{- end }}
{{- end }}

{{- /* Flags of routers that a Service names. */ -}}
{{- define "evenkeel.router.conf" -}}
# Flags of `evenkeel route`, one a line.
{{- include "evenkeel.at" (list 0 (include "evenkeel.router.flags" .)) }}
{{- if .Values.tls.enabled }}
--ssl-port={{ .Values.router.port }}
--server-pem-cert-path=/tls/tls.crt
--server-pem-key-path=/tls/tls.key
{{- with get (dict "optional" "" "required" "--ssl-require-peer-certs") .Values.tls.clientCertificates }}
{{ . }}
{{- end }}
{{- if ne .Values.tls.clientCertificates "none" }}
--server-pem-ca-path=/tls/ca.crt
{{- end }}
{{- else }}
--port={{ .Values.router.port }}
{{- end }}
{{- if .Values.discovery.enabled }}
--cluster-file=/etc/evenkeel/members
{{- end }}
{{- end }}

{{- /* Flags of the sidecar, which only its own pod reaches, and so without TLS. */ -}}
{{- define "evenkeel.router.sidecarConf" -}}
# Flags of `evenkeel route` as a sidecar, one a line.
{{- include "evenkeel.at" (list 0 (include "evenkeel.router.flags" .)) }}
--port={{ .Values.router.port }}
--listen-addresses=127.0.0.1
{{- end }}

{{- /* route.json: the pool `cache` of all servers, further pools, and the route. */ -}}
{{- define "evenkeel.router.configuration" -}}
{{- if eq (int .Values.replicaCount) 0 }}
{{- fail (printf "replicaCount is 0, so routers have no servers: set router.kind=none, not %s" .Values.router.kind) }}
{{- end }}
{{- $cache := dict "servers" (fromJsonArray (include "evenkeel.servers" .)) }}
{{- if .Values.tls.enabled }}{{ $_ := set $cache "security_mech" "ssl" }}{{ end }}
{{- $pools := mergeOverwrite (dict "cache" $cache) (deepCopy .Values.router.pools) }}
{{- dict "pools" $pools "route" .Values.router.route | toPrettyJson }}
{{- end }}

{{- define "evenkeel.router.resources" -}}
{{- $memory := printf "%dMi" (add 96 (mul .Values.router.threads .Values.router.bufferMemory)) }}
{{- toYaml (mergeOverwrite (dict "requests" (dict "memory" $memory) "limits" (dict "memory" $memory)) (deepCopy .Values.router.resources)) }}
{{- end }}

{{- /* The container of a router, or of the sidecar, whose port has a name that the application's ports do not have. */ -}}
{{- define "evenkeel.router.container" -}}
{{- $root := .root }}
{{- $metrics := ternary "router-metrics" "metrics" .isSidecar }}
- name: {{ ternary "evenkeel-router" "router" .isSidecar }}
  image: {{ include "evenkeel.image" $root }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  {{- if .isSidecar }}
  restartPolicy: Always
  {{- end }}
  args:
    - route
    - "@/etc/evenkeel/{{ ternary "sidecar.conf" "route.conf" .isSidecar }}"
  ports:
    {{- if not .isSidecar }}
    - name: memcached
      containerPort: {{ $root.Values.router.port }}
    {{- end }}
    - name: {{ $metrics }}
      containerPort: {{ $root.Values.router.metricsPort }}
  startupProbe:
    httpGet:
      path: /readyz
      port: {{ $metrics }}
    periodSeconds: 1
    failureThreshold: 60
  readinessProbe:
    httpGet:
      path: /readyz
      port: {{ $metrics }}
    periodSeconds: 5
  livenessProbe:
    httpGet:
      path: /healthz
      port: {{ $metrics }}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  {{- if not .isSidecar }}
  {{- include "evenkeel.at" (list 2 (include "evenkeel.lifecycle" $root)) }}
  {{- end }}
  resources:
    {{- include "evenkeel.router.resources" $root | nindent 4 }}
  {{- if .isSidecar }}
  {{- /* The pod is the application's, and so is its security context. */ -}}
  {{- $pod := fromYaml (include "evenkeel.podSecurity" $root) }}
  {{- $own := pick ($pod.securityContext | default dict) "runAsNonRoot" "runAsUser" "runAsGroup" "seccompProfile" }}
  {{- include "evenkeel.at" (list 2 (include "evenkeel.context" (dict "given" $root.Values.containerSecurityContext "more" $own))) }}
  {{- else }}
  {{- include "evenkeel.at" (list 2 (include "evenkeel.containerSecurity" $root)) }}
  {{- end }}
  volumeMounts:
    - name: evenkeel-router
      mountPath: /etc/evenkeel
      readOnly: true
    {{- if $root.Values.controlPlane.enabled }}
    {{- include "evenkeel.control.runMount" $root | nindent 4 }}
    {{- end }}
    {{- if $root.Values.tls.enabled }}
    - name: evenkeel-certificate
      mountPath: /tls
      readOnly: true
    {{- end }}
{{- end }}

{{- define "evenkeel.router.volumes" -}}
- name: evenkeel-router
  configMap:
    name: {{ include "evenkeel.fullname" . }}-router
{{- if .Values.controlPlane.enabled }}
{{ include "evenkeel.control.agentVolumes" (dict "root" . "component" "router") }}
{{- end }}
{{- if .Values.tls.enabled }}
- name: evenkeel-certificate
  secret:
    secretName: {{ include "evenkeel.certificateSecret" . }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- /*
The router as a native sidecar, for the chart of an application that depends on this one:

  initContainers:
    {{- include "evenkeel.routerSidecar" .Subcharts.evenkeel | nindent 4 }}
  volumes:
    {{- include "evenkeel.routerSidecarVolumes" .Subcharts.evenkeel | nindent 4 }}

The application uses 127.0.0.1 and router.port. A native sidecar is ready before the application starts, and ends after it.
*/ -}}
{{- define "evenkeel.routerSidecar" -}}
{{- include "evenkeel.router.container" (dict "root" . "isSidecar" true) | trim }}
{{- end }}

{{- define "evenkeel.routerSidecarVolumes" -}}
{{- include "evenkeel.router.volumes" . }}
{{- end }}
