{{- define "trackiops.selector" -}}
app.kubernetes.io/name: trackiops
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trackiops.labels" -}}
{{ include "trackiops.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* Not empty if other Pods can connect to `trackiops metrics`. */}}
{{- define "trackiops.open" -}}
{{- with .Values.metrics -}}
{{- if and .enabled (not (regexMatch `^(127\.|\[::1\]:|unix:|$)` .listen)) -}}
{{- if not .webConfig.sources -}}
{{- fail "metrics.listen is an address for other Pods: that needs metrics.webConfig.sources, with TLS and with passwords or certificates of clients" -}}
{{- end -}}
open
{{- end -}}
{{- end -}}
{{- end }}

{{- define "trackiops.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}
