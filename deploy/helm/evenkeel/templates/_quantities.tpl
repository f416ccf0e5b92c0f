{{- /* Amounts: quantities of Kubernetes, sizes of memcached's flags, and values that several keys may give. */ -}}

{{- /* A number or a text as a text; numbers of value files are floats, which would be written as 1.048576e+06. */ -}}
{{- define "evenkeel.text" -}}
{{- if kindIs "float64" . }}{{ if eq . (floor .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* The MiB of a quantity, rounded down. */ -}}
{{- define "evenkeel.mib" -}}
{{- $text := include "evenkeel.text" .value }}
{{- if not (regexMatch "^[0-9]+(\\.[0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$" $text) }}
{{- fail (printf "%s is %s: expected a quantity such as 512Mi or 4Gi" .key $text) }}
{{- end }}
{{- $unit := regexFind "[A-Za-z]+$" $text }}
{{- $bytes := get (dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0) $unit }}
{{- divf (mulf (regexFind "^[0-9.]+" $text | float64) $bytes) 1048576.0 | floor | int64 }}
{{- end }}

{{- /* The megabytes of a value of -m: a number of them, or a size with k, m or g. */ -}}
{{- define "evenkeel.megabytes" -}}
{{- $text := include "evenkeel.text" .value | lower }}
{{- if not (regexMatch "^[0-9]+[kmg]?$" $text) }}
{{- fail (printf "%s is %s: expected megabytes such as 1024, or a size such as 4g; the memory limit of the pod follows from it" .key $text) }}
{{- end }}
{{- $number := regexFind "^[0-9]+" $text | int64 }}
{{- if hasSuffix "g" $text }}{{ mul $number 1024 }}{{ else if hasSuffix "k" $text }}{{ div $number 1024 }}{{ else }}{{ $number }}{{ end }}
{{- end }}

{{- /* The one value that several keys give, or the default; two that differ are an error. */ -}}
{{- define "evenkeel.agreed" -}}
{{- $unit := .unit }}
{{- $first := first .found }}
{{- range .found }}
{{- if ne (toString .value) (toString $first.value) }}
{{- fail (printf "%s is %v%s, and %s is %v%s: give one of them" $first.key $first.value $unit .key .value $unit) }}
{{- end }}
{{- end }}
{{- if $first }}{{ $first.value }}{{ else }}{{ .default }}{{ end }}
{{- end }}
