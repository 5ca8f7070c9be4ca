{{- define "trackiops.selector" -}}
app.kubernetes.io/name: trackiops
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trackiops.labels" -}}
{{ include "trackiops.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
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
