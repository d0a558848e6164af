{{/* How /metrics is read, for a PodMonitor or ServiceMonitor. Takes port (a name), interval and tls (of the port). */}}
{{- define "sluice.scrape" -}}
port: {{ .port }}
path: /metrics
interval: {{ .interval }}
{{- if .tls.secretName }}
scheme: https
tlsConfig:
  # The port is reached by the pod's address, which no certificate names.
  insecureSkipVerify: true
  {{- if .tls.authority }}
  cert: { secret: { name: {{ .tls.secretName }}, key: tls.crt } }
  keySecret: { name: {{ .tls.secretName }}, key: tls.key }
  {{- end }}
{{- end }}
{{- end -}}

{{/*
Alerts: files of the chart as a resource of the Prometheus operator. Takes context, component, values, and files: their paths.
*/}}
{{- define "sluice.rules" -}}
{{- if .values.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  {{- include "sluice.metadata" . | nindent 2 }}
    {{- with .values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  groups:
    {{- range .files }}
    {{- ($.context.Files.Get . | fromYaml).groups | toYaml | nindent 4 }}
    {{- end }}
{{- end }}
{{- end -}}

{{/* A ConfigMap with the chart's files/dashboard.json, which Grafana's sidecar loads. Takes context, component, values. */}}
{{- define "sluice.dashboard" -}}
{{- if .values.enabled }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "sluice.metadata" (merge (dict "name" (printf "%s-dashboard" (include "sluice.name" .))) .) | nindent 2 }}
    {{- with .values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  {{ include "sluice.name" . }}.json: |-
    {{- .context.Files.Get "files/dashboard.json" | nindent 4 }}
{{- end }}
{{- end -}}
