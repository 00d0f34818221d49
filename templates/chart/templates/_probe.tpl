{{/* How a probe asks: over the port that is known, else at the status socket of this very pod. */}}
{{- define "dra.probe" -}}
{{- if .port -}}
httpGet:
  path: {{ .path }}
  port: metrics
timeoutSeconds: 5
{{- else -}}
exec:
  command: [/usr/local/bin/dra-driver, --config, /etc/dra/config.yaml, --probe, {{ .question }}]
timeoutSeconds: 6
{{- end }}
{{- end -}}
