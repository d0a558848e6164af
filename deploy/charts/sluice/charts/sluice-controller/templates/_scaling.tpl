{{/* "true" where the controller that leads scales objects: either value says so. */}}
{{- define "controller.scales" -}}
{{- $keys := ((.Values.controller.config.auto_scale | default dict).kubernetes) | default dict -}}
{{- if or .Values.autoScale.enabled $keys.enabled }}true{{ end -}}
{{- end -}}

{{/* What a controller may do to the objects that policies scale. A test runs a controller with exactly these rules. */}}
{{- define "controller.scaleRights" -}}
{{- range .Values.autoScale.resources }}
{{- $parts := splitn "." 2 . }}
- apiGroups: [{{ $parts._1 | default "" | quote }}]
  resources: [{{ $parts._0 }}]
  verbs: [list, watch]
- apiGroups: [{{ $parts._1 | default "" | quote }}]
  resources: [{{ $parts._0 }}/scale]
  verbs: [get, update]
{{- end }}
# One that scales the same object is a warning of the policy.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
# Events say in `kubectl describe` of an object that a policy has scaled it.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}
