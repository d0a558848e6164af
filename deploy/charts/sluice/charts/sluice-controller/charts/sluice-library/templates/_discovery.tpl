{{/*
The right to know the pods and Services of the cluster, for below `---`: service discovery lists and watches these two kinds
and nothing else. Takes context, component and account.
*/}}
{{- define "sluice.discoveryRights" -}}
{{- $name := printf "%s-discovery" (include "sluice.clusterName" .) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
rules:
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [list, watch]
  - apiGroups: [""]
    resources: [services]
    verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .context.Release.Namespace }}
{{- end -}}
