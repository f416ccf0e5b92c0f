{{- /* Agents: their identities, files and containers, in pods of servers and of routers. */ -}}

{{- /* A certificate of cert-manager for each pod, with its name in it. It is renewed at half of its life, before anybody is warned of its end. */ -}}
{{- define "evenkeel.control.identityVolume" -}}
{{- $certificates := .root.Values.controlPlane.certManager }}
{{- $missing := "controlPlane.certManager.issuerRef.name is empty: expected the name of an Issuer whose authority signs for this fleet alone" }}
- name: identity
  csi:
    driver: csi.cert-manager.io
    readOnly: true
    volumeAttributes:
      csi.cert-manager.io/issuer-name: {{ required $missing $certificates.issuerRef.name | quote }}
      csi.cert-manager.io/issuer-kind: {{ $certificates.issuerRef.kind }}
      csi.cert-manager.io/issuer-group: {{ $certificates.issuerRef.group }}
      csi.cert-manager.io/uri-sans: evenkeel://{{ include "evenkeel.control.fleet" .root }}/{{ .role }}/${POD_NAME}
      csi.cert-manager.io/key-usages: {{ ternary "digital signature,server auth,client auth" "digital signature,client auth" (eq .role "controller") }}
      csi.cert-manager.io/key-algorithm: ECDSA
      csi.cert-manager.io/key-size: "256"
      csi.cert-manager.io/key-encoding: PKCS8
      csi.cert-manager.io/duration: {{ $certificates.duration }}
      csi.cert-manager.io/renew-before: {{ $certificates.renewBefore }}
      {{- with .root.Values.podSecurityContext.fsGroup }}
      csi.cert-manager.io/fs-group: {{ include "evenkeel.text" . | quote }}
      {{- end }}
{{- end }}

{{- define "evenkeel.control.identityFlags" }}
--tls-ca=/identity/ca.crt
--tls-cert=/identity/tls.crt
--tls-key=/identity/tls.key
{{- end }}

{{- /*
agent.toml of pods of servers (`component` cache) or routers. One file for all of them: POD_NAME is in their environment. It is read at the
start. Other controllers restart routers, but no server, which would lose its items: its agent goes on with those that it knows.
*/ -}}
{{- define "evenkeel.control.agentFile" -}}
{{- $root := .root -}}
# What `evenkeel agent` is beside.
host = "${POD_NAME}"
zone = {{ quote $root.Values.controlPlane.zone }}
controllers = {{ include "evenkeel.control.addresses" $root }}
folder = "/run/evenkeel/agent"
{{- if $root.Values.tls.enabled }}
tls_ca = "/tls/ca.crt"
{{- end }}
{{- if eq .component "cache" }}

[[server]]
member = "${POD_NAME}"
{{- if $root.Values.tls.enabled }}
# The certificate has this name.
address = "${POD_NAME}.{{ include "evenkeel.headless" $root }}.{{ include "evenkeel.domain" $root }}:{{ include "evenkeel.server.port" $root }}"
{{- else }}
address = "127.0.0.1:{{ include "evenkeel.server.port" $root }}"
{{- end }}
pid_file = "/run/evenkeel/server.pid"
metrics = "127.0.0.1:{{ $root.Values.metrics.containerPorts.metrics }}"
{{- else }}

[[router]]
name = "${POD_NAME}"
view = "main"
file = "/run/evenkeel/route.json"
# Not a list of servers: a router that guesses would store items where others do not look for them.
first_text = '{"route": "ErrorRoute"}'
address = "unix:/run/evenkeel/router.sock"
pid_file = "/run/evenkeel/router.pid"
metrics = "127.0.0.1:{{ $root.Values.router.metricsPort }}"
{{- end }}
{{- end }}

{{- /* The agent as a native sidecar: it is there before its process starts, and ends after it. */ -}}
{{- define "evenkeel.control.agent" -}}
{{- $root := .root }}
- name: agent
  image: {{ include "evenkeel.image" $root }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  restartPolicy: Always
  args:
    - agent
    - /etc/evenkeel/agent.toml
    - --metrics-listen=*:{{ $root.Values.controlPlane.agent.metricsPort }}
    {{- range splitList "\n" (include "evenkeel.control.identityFlags" $root | trim) }}
    - {{ . }}
    {{- end }}
    {{- if eq $root.Values.logFormat "json" }}
    - --log=json
    {{- end }}
  env:
    - name: POD_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
  ports:
    - name: agent-metrics
      containerPort: {{ $root.Values.controlPlane.agent.metricsPort }}
  {{- if eq .component "router" }}
  # A new router serves nothing before it has its routes, so it waits for a controller. One that serves never waits for any.
  startupProbe:
    httpGet:
      path: /readyz
      port: agent-metrics
    periodSeconds: 1
    failureThreshold: 60
  {{- end }}
  livenessProbe:
    httpGet:
      path: /healthz
      port: agent-metrics
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  resources:
    {{- toYaml $root.Values.controlPlane.agent.resources | nindent 4 }}
  {{- include "evenkeel.at" (list 2 (include "evenkeel.containerSecurity" $root)) }}
  volumeMounts:
    - name: agent
      mountPath: /etc/evenkeel
      readOnly: true
    - name: identity
      mountPath: /identity
      readOnly: true
    {{- include "evenkeel.control.runMount" . | nindent 4 }}
    {{- if $root.Values.tls.enabled }}
    - name: {{ ternary "certificate" "evenkeel-certificate" (eq .component "cache") }}
      mountPath: /tls
      readOnly: true
    {{- end }}
{{- end }}

{{- /* What an agent shares with its process: number, socket and file. */ -}}
{{- define "evenkeel.control.runMount" -}}
- name: run
  mountPath: /run/evenkeel
{{- end }}

{{- define "evenkeel.control.agentVolumes" -}}
{{- include "evenkeel.control.identityVolume" (dict "root" .root "role" "agent") | trim }}
- name: agent
  configMap:
    name: {{ include "evenkeel.fullname" .root }}-agent-{{ .component }}
- name: run
  emptyDir: {}
{{- end }}

{{- /* The label by which the Service of agents' metrics knows their pods. */ -}}
{{- define "evenkeel.control.agentLabel" -}}
evenkeel-agent: "true"
{{- end }}
