{{/*
The name of a component's objects: RELEASE-COMPONENT, or RELEASE alone where the release is already named after the
component (`helm install sluice-agent …`). Takes the context of the chart and "component".
*/}}
{{- define "sluice.name" -}}
{{- $override := index .context.Values "fullnameOverride" -}}
{{- if $override -}}
{{- $override | trunc 50 | trimSuffix "-" -}}
{{- else if contains .component .context.Release.Name -}}
{{- .context.Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.context.Release.Name | trunc (sub 49 (len .component) | int)) .component -}}
{{- end -}}
{{- end -}}

{{/* The labels by which Services and Deployments find their pods; they never change. */}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .context.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/part-of: sluice
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version }}
{{- with .context.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name and labels of an object, for below `metadata:`. Takes context, component and, where it differs, name. */}}
{{- define "sluice.metadata" -}}
name: {{ .name | default (include "sluice.name" .) }}
namespace: {{ .namespace | default .context.Release.Namespace }}
labels:
  {{- include "sluice.labels" . | nindent 2 }}
{{- end -}}

{{/* The same for objects that belong to no namespace: their names contain it, so that two installations do not collide. */}}
{{- define "sluice.clusterName" -}}
{{- printf "%s-%s" .context.Release.Namespace (include "sluice.name" .) -}}
{{- end -}}

{{/* The values that all charts of a release share (`global.sluice`). */}}
{{- define "sluice.global" -}}
{{- $global := .context.Values.global | default dict -}}
{{- $global.sluice | default dict | toJson -}}
{{- end -}}

{{/* The name of a server that only the umbrella chart brings. The other charts derive its address from it. */}}
{{- define "sluice.trialName" -}}
{{- printf "%s-%s" (.context.Release.Name | trunc 45) .component -}}
{{- end -}}
