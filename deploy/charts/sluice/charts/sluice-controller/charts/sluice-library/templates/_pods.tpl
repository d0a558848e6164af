{{/*
The image as a JSON object: `image` where it is given (of another program), otherwise that of the chart, with what
`global.sluice.image` says taking its place key by key.
*/}}
{{- define "sluice.imageValues" -}}
{{- $global := include "sluice.global" . | fromJson -}}
{{- .image | default (mergeOverwrite (dict) (.context.Values.image | default dict) ($global.image | default dict)) | toJson -}}
{{- end -}}

{{- define "sluice.image" -}}
{{- $image := include "sluice.imageValues" . | fromJson -}}
{{- $name := $image.repository -}}
{{- with $image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default .context.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "sluice.pullPolicy" -}}
{{- (include "sluice.imageValues" . | fromJson).pullPolicy | default "IfNotPresent" -}}
{{- end -}}

{{/* What every pod has in common, for below `spec:`. Takes context and values: those of the workload. */}}
{{- define "sluice.pod" -}}
{{- with (include "sluice.imageValues" . | fromJson).pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
# The names that Kubernetes sets for Services would only make the environment larger.
enableServiceLinks: false
securityContext:
  {{- include "sluice.podSecurity" . | nindent 2 }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Pods are spread over nodes and zones as far as that is possible. Takes context, component and values. */}}
{{- define "sluice.spread" -}}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- else }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "sluice.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/*
Start-up, readiness and liveness, for below a container. Takes tls (of the main port) and clientCertificates: whether
the port accepts only clients with one, which the kubelet has not; then probes only see whether it accepts connections.
A process has started when it is alive: one that waits for etcd is not ready, and to start it again would not help.
*/}}
{{- define "sluice.probes" -}}
{{- range $name, $path := dict "startupProbe" "liveness" "readinessProbe" "readiness" "livenessProbe" "liveness" }}
{{ $name }}:
  {{- if $.clientCertificates }}
  tcpSocket:
    port: server
  {{- else }}
  httpGet:
    path: /v1/status/system/{{ $path }}
    port: server
    scheme: {{ ternary "HTTPS" "HTTP" (not (not $.tls)) }}
  {{- end }}
  {{- if eq $name "startupProbe" }}
  periodSeconds: 1
  failureThreshold: 60
  {{- else if eq $name "readinessProbe" }}
  periodSeconds: 5
  failureThreshold: 2
  {{- else }}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 6
  {{- end }}
{{- end }}
{{- end -}}

{{/* A budget for the pods of a component. Takes context, component, name where it differs, and budget: the values. */}}
{{- define "sluice.disruption" -}}
{{- if .budget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "sluice.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .budget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "sluice.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* A quantity in millionths of its unit, for comparisons; empty for a form with an exponent. */}}
{{- define "sluice.quantity" -}}
{{- $units := dict "" 1000000 "m" 1000 "k" 1000000000 "M" 1000000000000 "G" 1000000000000000 "T" 1000000000000000000 "Ki" 1024000000 "Mi" 1048576000000 "Gi" 1073741824000000 "Ti" 1099511627776000000 -}}
{{- $text := toString . -}}
{{- if regexMatch "^[0-9.]+(m|k|M|G|T|Ki|Mi|Gi|Ti)?$" $text -}}
{{- mulf (regexFind "^[0-9.]+" $text) (index $units (regexFind "[a-zA-Z]*$" $text)) -}}
{{- end -}}
{{- end -}}

{{/* The resources of a container. Takes path, for messages, and resources. A request above its limit is refused. */}}
{{- define "sluice.resources" -}}
{{- $path := .path -}}
{{- $limits := .resources.limits | default dict -}}
{{- range $name, $request := .resources.requests | default dict -}}
{{- $limit := index $limits $name -}}
{{- if and $request $limit -}}
{{- $asked := include "sluice.quantity" $request -}}
{{- $most := include "sluice.quantity" $limit -}}
{{- if and $asked $most (gt (float64 $asked) (float64 $most)) -}}
{{- fail (printf "\n\n%s.requests.%s: wanted at most the limit, %v, got %v\n" $path $name $limit $request) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml .resources -}}
{{- end -}}
