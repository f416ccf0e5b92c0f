{{- /* Controllers: names, flags, the policy and the members that follow from the values, and values that exclude each other. */ -}}

{{- define "evenkeel.control.name" -}}
{{ include "evenkeel.fullname" . }}-control
{{- end }}

{{- /* The fleet's name, which keys of the register and identities begin with. Two releases with one etcd have two. */ -}}
{{- define "evenkeel.control.fleet" -}}
{{- $fleet := .Values.controlPlane.fleet | default (printf "%s.%s" .Release.Namespace (include "evenkeel.fullname" .)) }}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" $fleet) }}
{{- fail (printf "the fleet's name is %s: expected 1 to 63 letters, digits, dots, underscores and hyphens in controlPlane.fleet" $fleet) }}
{{- end }}
{{- $fleet }}
{{- end }}

{{- /* Addresses of the controllers, as a JSON list: a controller is reached by its own name, because an agent keeps to one. */ -}}
{{- define "evenkeel.control.addresses" -}}
{{- $name := include "evenkeel.control.name" . }}
{{- $addresses := list }}
{{- range $ordinal := until (int .Values.controlPlane.replicaCount) }}
{{- $addresses = append $addresses (printf "%s-%d.%s.%s:%v" $name $ordinal $name (include "evenkeel.domain" $) $.Values.controlPlane.port) }}
{{- end }}
{{- toJson $addresses }}
{{- end }}

{{- define "evenkeel.control.isDirectory" -}}
{{- if eq .Values.controlPlane.register.kind "directory" }}true{{ end }}
{{- end }}

{{- /* Whether controllers have a volume of their own. */ -}}
{{- define "evenkeel.control.hasVolume" -}}
{{- if or .Values.controlPlane.persistence.enabled (include "evenkeel.control.isDirectory" .) }}true{{ end }}
{{- end }}

{{- /* Values that exclude each other. */ -}}
{{- define "evenkeel.control.check" -}}
{{- $control := .Values.controlPlane }}
{{- $register := $control.register }}
{{- if ne .Values.router.kind "StatefulSet" }}
{{- fail (printf "controlPlane.enabled needs router.kind=StatefulSet, not %s: controllers wait for each router that they know, and a name that never comes back keeps them waiting" .Values.router.kind) }}
{{- end }}
{{- if .Values.router.pools }}
{{- fail "router.pools and controlPlane.enabled exclude each other, because pools follow from the policy: give controlPlane.policy" }}
{{- end }}
{{- if eq .Values.tls.clientCertificates "required" }}
{{- fail "tls.clientCertificates=required and controlPlane.enabled exclude each other, because agents and controllers ask servers without a certificate: set it to optional or none" }}
{{- end }}
{{- if include "evenkeel.control.isDirectory" . }}
{{- if ne (int $control.replicaCount) 1 }}
{{- fail (printf "controlPlane.register.kind=directory is for one controller, and controlPlane.replicaCount is %v: set it to 1, or register.kind=etcd" $control.replicaCount) }}
{{- end }}
{{- if $register.endpoints }}
{{- fail "controlPlane.register.endpoints are addresses of etcd, and register.kind is directory: leave out one of them" }}
{{- end }}
{{- else if not $register.endpoints }}
{{- fail "controlPlane.register.endpoints is empty: expected addresses of an etcd, such as [http://etcd-0.etcd:2379], or register.kind=directory and replicaCount=1" }}
{{- end }}
{{- $schemes := list }}
{{- range $register.endpoints }}
{{- if not (regexMatch "^https?://[^/@,]+:[0-9]+$" .) }}
{{- fail (printf "controlPlane.register.endpoints has %s: expected http://HOST:PORT or https://HOST:PORT" .) }}
{{- end }}
{{- $schemes = append $schemes (first (splitList ":" .)) }}
{{- end }}
{{- if and (has "https" $schemes) (not $register.tls.existingSecret) }}
{{- fail "controlPlane.register.endpoints has https, and register.tls.existingSecret is empty: expected a secret with ca.crt, and with tls.crt and tls.key if etcd asks for a certificate" }}
{{- end }}
{{- if and $register.tls.existingSecret (not (has "https" $schemes)) }}
{{- fail "controlPlane.register.tls.existingSecret is for addresses with https, and register.endpoints has none" }}
{{- end }}
{{- if and $register.tls.clientCertificate (not $register.tls.existingSecret) }}
{{- fail "controlPlane.register.tls.clientCertificate needs register.tls.existingSecret with tls.crt and tls.key" }}
{{- end }}
{{- if ne (empty $register.auth.username) (empty $register.auth.existingSecret) }}
{{- fail "controlPlane.register.auth has one of username and existingSecret: expected both, or none" }}
{{- end }}
{{- if and (not $control.policy) (le (int .Values.replicaCount) (int $control.spares)) }}
{{- fail (printf "replicaCount is %v and controlPlane.spares is %v, so there is no server for a slot: expected fewer spares" .Values.replicaCount $control.spares) }}
{{- end }}
{{- if eq (int .Values.replicaCount) 0 }}
{{- fail "replicaCount is 0, so there are no servers to control: set controlPlane.enabled=false" }}
{{- end }}
{{- $line := printf "(?m)^\\s*fleet\\s*=\\s*[\"']%s[\"']" (include "evenkeel.control.fleet" . | regexQuoteMeta) }}
{{- if and $control.policy (not (regexMatch $line $control.policy)) }}
{{- fail (printf "controlPlane.policy is not that of this fleet: expected the line fleet = %q in it" (include "evenkeel.control.fleet" .)) }}
{{- end }}
{{- end }}

{{- /* Flags of `evenkeel control serve`. The address is that of the pod, which only its environment has. */ -}}
{{- define "evenkeel.control.conf" -}}
{{- $control := .Values.controlPlane -}}
# Flags of `evenkeel control serve`, one a line.
--zone={{ $control.zone }}
--controllers={{ join "," (fromJsonArray (include "evenkeel.control.addresses" .)) }}
{{- if include "evenkeel.control.isDirectory" . }}
--register=directory:/var/lib/evenkeel/register
{{- else }}
--register=etcd:{{ join "," $control.register.endpoints }}
{{- if $control.register.tls.existingSecret }}
--etcd-ca=/etcd/ca.crt
{{- if $control.register.tls.clientCertificate }}
--etcd-cert=/etcd/tls.crt
--etcd-key=/etcd/tls.key
{{- end }}
{{- end }}
{{- with $control.register.auth.username }}
--etcd-user={{ . }}
{{- end }}
{{- end }}
{{- if include "evenkeel.control.hasVolume" . }}
--audit=/var/lib/evenkeel/audit.log
{{- end }}
# Whoever may execute commands in the pod operates the fleet: that is the cluster's right pods/exec.
--socket=/run/evenkeel/control.sock
--metrics-listen=*:{{ $control.metricsPort }}
{{- include "evenkeel.control.identityFlags" . }}
{{- if .Values.tls.enabled }}
--server-ca=/tls/ca.crt
{{- end }}
{{- if $control.health }}
--health=/etc/evenkeel/health.toml
{{- end }}
{{- if $control.rollout }}
--rollout=/etc/evenkeel/rollout.toml
{{- end }}
{{- if eq .Values.logFormat "json" }}
--log=json
{{- end }}
{{- end }}

{{- /* The policy: that of the values, or one cluster `cache` and one view with router.route. */ -}}
{{- define "evenkeel.control.policy" -}}
{{- if .Values.controlPlane.policy }}
{{- .Values.controlPlane.policy }}
{{- else }}
{{- $route := dict "route" .Values.router.route | toPrettyJson }}
{{- if contains "'''" $route }}
{{- fail "router.route has ''', which ends a text of the policy: give controlPlane.policy" }}
{{- end -}}
fleet = {{ include "evenkeel.control.fleet" . | quote }}

[[cluster]]
name = "cache"
slots = {{ sub (int .Values.replicaCount) (int .Values.controlPlane.spares) }}
{{- if .Values.tls.enabled }}

[cluster.pool]
security_mech = "ssl"
{{- end }}

[[view]]
name = "main"
routes = '''
{{ $route }}
'''
{{- end }}
{{- end }}

{{- /* All servers, with and without a slot. */ -}}
{{- define "evenkeel.control.members" -}}
{{- range $ordinal, $address := fromJsonArray (include "evenkeel.servers" .) }}
{{- $pod := printf "%s-%d" (include "evenkeel.fullname" $) $ordinal }}
[[member]]
id = {{ quote $pod }}
host = {{ quote $pod }}
zone = {{ quote $.Values.controlPlane.zone }}
address = {{ quote $address }}
{{ end }}
{{- end }}

{{- /* What Helm prints: the commands that bring the first policy into force. */ -}}
{{- define "evenkeel.control.notes" -}}
{{- $name := include "evenkeel.control.name" . }}
{{- $exec := printf "kubectl --namespace %s exec %s-0 --" .Release.Namespace $name }}
{{ .Values.controlPlane.replicaCount }} controller{{ ne (int .Values.controlPlane.replicaCount) 1 | ternary "s decide" " decides" }} which server has which keys, in the fleet {{ include "evenkeel.control.fleet" . }}. Until a first policy is in force, routers
answer every request with an error. Let all servers join, wait until {{ $name }}-0 shows them as spares, and look at the plan:

  {{ $exec }} evenkeel control members /etc/evenkeel/members.toml --apply --why "release {{ .Release.Revision }}"
  {{ $exec }} evenkeel control status
  {{ $exec }} evenkeel control plan --policy /etc/evenkeel/policy.toml
  {{ $exec }} evenkeel control plan --policy /etc/evenkeel/policy.toml --apply --why "release {{ .Release.Revision }}"
{{- if include "evenkeel.control.isDirectory" . }}

Decisions are kept in a directory of the volume of {{ $name }}-0: while its node is away, a lost server is not replaced.
{{- else }}

Decisions are kept in the etcd at {{ join ", " .Values.controlPlane.register.endpoints }}, which this chart does not install (docs/kubernetes.md, "With a control plane").
{{- if not (include "evenkeel.control.hasVolume" .) }} There is no audit log: set controlPlane.persistence.enabled for one.{{ end }}
{{- end }}
{{- end }}
