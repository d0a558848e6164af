{{/* KUBERNETES_SIDECAR, KUBERNETES_DAEMONSET or KUBERNETES_DEPLOYMENT, from this chart's value or Aperture's. */}}
{{- define "agent.mode" -}}
{{- $sidecar := .Values.agent.sidecar | default dict -}}
{{- $other := "" -}}
{{- if .Values.agent.namespaceScoped -}}
{{- if $sidecar.enabled -}}
{{- fail "\n\nagent.namespaceScoped: wanted either namespaceScoped (a Deployment) or agent.sidecar.enabled, got both\n" -}}
{{- end -}}
{{- $other = "KUBERNETES_DEPLOYMENT" -}}
{{- else if hasKey $sidecar "enabled" -}}
{{- $other = ternary "KUBERNETES_SIDECAR" "KUBERNETES_DAEMONSET" $sidecar.enabled -}}
{{- end -}}
{{- $mode := .Values.installationMode -}}
{{- if and $mode $other (ne $mode $other) -}}
{{- fail (printf "\n\ninstallationMode: %s contradicts agent.namespaceScoped and agent.sidecar.enabled, which mean %s\n" $mode $other) -}}
{{- end -}}
{{- $mode | default $other | default "KUBERNETES_SIDECAR" -}}
{{- end -}}

{{/* Texts of variables that the chart knows, and that `agent.config` overrides; a JSON object. */}}
{{- define "agent.defaults" -}}
{{- $scope := dict "context" . "component" "agent" "prefix" "SVC_AGENT" -}}
{{- $mode := include "agent.mode" . -}}
{{- $found := include "sluice.servers" $scope | fromJson -}}
{{- if ne $mode "KUBERNETES_DEPLOYMENT" -}}
{{- $_ := set $found "SVC_AGENT_CLOUDEXT_INSTALLATION_MODE" $mode -}}
{{- end -}}
{{- if ne $mode "KUBERNETES_SIDECAR" -}}
{{- $_ := set $found "SVC_AGENT_SERVICE_DISCOVERY_KUBERNETES_ENABLED" (ternary "true" "false" (eq $mode "KUBERNETES_DAEMONSET")) -}}
{{- end -}}
{{- /* In the pod of an application, ports are the application's; administration stays refused there. */ -}}
{{- $administration := or ((.Values.agent.config.server | default dict).administration) ((.Values.agent.secrets.server | default dict).administration) -}}
{{- if not (or $administration (eq $mode "KUBERNETES_SIDECAR")) -}}
{{- $_ := set $found "SVC_AGENT_SERVER_ADMINISTRATION_ADDR" "127.0.0.1:8081" -}}
{{- end -}}
{{- $tls := include "agent.tls" . | fromJson -}}
{{- toJson (mergeOverwrite $found $tls.variables) -}}
{{- end -}}

{{/* Certificates: variables, mounts and volumes. Aperture's `agent.controllerCert` is a ConfigMap. */}}
{{- define "agent.tls" -}}
{{- $isSidecar := eq (include "agent.mode" .) "KUBERNETES_SIDECAR" -}}
{{- $folder := ternary "/etc/sluice/certificates" "" $isSidecar -}}
{{- $tls := include "sluice.tls" (dict "prefix" "SVC_AGENT" "tls" .Values.tls "folder" $folder) | fromJson -}}
{{- $cert := .Values.agent.controllerCert | default dict -}}
{{- if and $isSidecar $cert.cmName -}}
{{- fail "\n\nagent.controllerCert: sidecars mount one Secret and no ConfigMap: put the certificate into a Secret as ca.crt, and name that in tls.controller.secretName\n" -}}
{{- end -}}
{{- if $cert.cmName -}}
{{- if .Values.tls.controller.secretName -}}
{{- fail "\n\nagent.controllerCert: wanted either agent.controllerCert or tls.controller, got both\n" -}}
{{- end -}}
{{- $_ := set $tls.variables "SVC_AGENT_AGENT_FUNCTIONS_CLIENT_GRPC_TLS_CA_FILE" (printf "/etc/sluice/tls/controller/%s" ($cert.certFileName | default "ca.crt")) -}}
{{- $_ := set $tls "mounts" (append $tls.mounts (dict "name" "tls-controller" "mountPath" "/etc/sluice/tls/controller" "readOnly" true)) -}}
{{- $_ := set $tls "volumes" (append $tls.volumes (dict "name" "tls-controller" "configMap" (dict "name" $cert.cmName))) -}}
{{- end -}}
{{- toJson $tls -}}
{{- end -}}

{{- define "agent.port" -}}
{{- include "sluice.port" (dict "config" .Values.agent.config "path" "server.listener.addr" "default" (ternary ":14280" ":8080" (eq (include "agent.mode" .) "KUBERNETES_SIDECAR")) "where" "agent.config") -}}
{{- end -}}

{{- define "agent.metricsPort" -}}
{{- $ports := (.Values.agent.config.otel | default dict).ports | default dict -}}
{{- $port := toString (ternary $ports.debug_port 8888 (hasKey $ports "debug_port")) -}}
{{- ternary (include "agent.port" .) $port (eq $port "0") -}}
{{- end -}}

{{/* The references to secrets: the tree of `agent.secrets`, in which Aperture's fluxNinjaExtension is one of the keys. */}}
{{- define "agent.secrets" -}}
{{- $extension := .Values.agent.secrets.fluxNinjaExtension | default dict -}}
{{- $tree := omit .Values.agent.secrets "fluxNinjaExtension" -}}
{{- $reference := $extension.secretKeyRef | default dict -}}
{{- if $extension.create -}}
{{- $name := $reference.name | default (printf "%s-apikey" (include "sluice.name" (dict "context" . "component" "agent"))) -}}
{{- $tree = mergeOverwrite $tree (dict "cloudext" (dict "api_key" (dict "name" $name "key" ($reference.key | default "apiKey")))) -}}
{{- else if $reference.name -}}
{{- $tree = mergeOverwrite $tree (dict "cloudext" (dict "api_key" (dict "name" $reference.name "key" ($reference.key | default "apiKey")))) -}}
{{- end -}}
{{- toJson $tree -}}
{{- end -}}

{{/* The one Secret with certificates that sidecars mount; empty if there is none. */}}
{{- define "agent.certificates" -}}
{{- $names := list -}}
{{- range $use, $tls := .Values.tls }}{{ with $tls.secretName }}{{ $names = append $names . }}{{ end }}{{ end -}}
{{- $names = uniq $names -}}
{{- if gt (len $names) 1 -}}
{{- fail (printf "\n\ntls: sidecars mount one Secret, so all of tls.*.secretName must be the same, got %s\n" (join ", " $names)) -}}
{{- end -}}
{{- join "" $names -}}
{{- end -}}

{{/* The agent's container in a pod of this chart. */}}
{{- define "agent.container" -}}
{{- $scope := dict "context" . "component" "agent" -}}
{{- $tls := include "agent.tls" . | fromJson -}}
{{- $server := .Values.tls.server -}}
name: sluice-agent
image: {{ include "sluice.image" $scope | quote }}
imagePullPolicy: {{ include "sluice.pullPolicy" $scope }}
args: [agent]
env:
  {{- include "sluice.env" (dict "prefix" "SVC_AGENT" "config" .Values.agent.config "secrets" (include "agent.secrets" . | fromJson) "defaults" (include "agent.defaults" . | fromJson) "extra" .Values.agent.extraEnv) | nindent 2 }}
ports:
  - { name: server, containerPort: {{ include "agent.port" . }} }
  {{- if ne (include "agent.metricsPort" .) (include "agent.port" .) }}
  - { name: metrics, containerPort: {{ include "agent.metricsPort" . }} }
  {{- end }}
  - { name: counters, containerPort: {{ include "sluice.port" (dict "config" .Values.agent.config "path" "dist_cache.bind_addr" "default" ":3320" "where" "agent.config") }} }
  - { name: membership, containerPort: {{ include "sluice.port" (dict "config" .Values.agent.config "path" "dist_cache.memberlist_bind_addr" "default" ":3322" "where" "agent.config") }}, protocol: UDP }
{{- include "sluice.probes" (dict "tls" $server.secretName "clientCertificates" (and $server.secretName $server.authority)) }}
resources:
  {{- include "sluice.resources" (dict "path" "agent.resources" "resources" .Values.agent.resources) | nindent 2 }}
securityContext:
  {{- include "sluice.containerSecurity" . | nindent 2 }}
{{- with concat $tls.mounts .Values.agent.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "agent.volumes" -}}
{{- $tls := include "agent.tls" . | fromJson -}}
{{- with concat $tls.volumes .Values.agent.extraVolumes -}}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/*
"true" where agents of this chart ask the API server for pods and Services: by default in a DaemonSet. Sidecars learn of
them through the controller.
*/}}
{{- define "agent.discovers" -}}
{{- $keys := ((.Values.agent.config.service_discovery | default dict).kubernetes) | default dict -}}
{{- $mode := include "agent.mode" . -}}
{{- $enabled := ternary $keys.enabled (eq $mode "KUBERNETES_DAEMONSET") (hasKey $keys "enabled") -}}
{{- if and $enabled (ne $mode "KUBERNETES_SIDECAR") (ne ($keys.source | default "api_server") "controller") (ne (toString .Values.agent.create) "false") }}true{{ end -}}
{{- end -}}

{{- define "agent.account" -}}
{{- .Values.serviceAccount.name | default (include "sluice.name" (dict "context" . "component" "agent")) -}}
{{- end -}}

{{/* The references of a tree of secrets as the injector reads them, `etcd.password=SECRET/KEY`; a JSON list. */}}
{{- define "agent.secretPaths" -}}
{{- $found := list -}}
{{- range $key, $value := .tree -}}
{{- $path := ternary $key (printf "%s.%s" $.path $key) (eq $.path "") -}}
{{- if not (kindIs "map" $value) -}}
{{- else if and (kindIs "string" $value.name) (kindIs "string" $value.key) -}}
{{- $found = append $found (printf "%s=%s/%s" $path $value.name $value.key) -}}
{{- else -}}
{{- $found = concat $found (include "agent.secretPaths" (dict "tree" $value "path" $path) | fromJsonArray) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/*
Refuses values that the chosen mode does not use: files/modes.yaml says which, and files/defaults.json what they are where
nobody set them.
*/}}
{{- define "agent.refuseIdle" -}}
{{- $mode := include "agent.mode" . -}}
{{- $defaults := .Files.Get "files/defaults.json" | fromJson -}}
{{- range $rule := .Files.Get "files/modes.yaml" | fromYamlArray -}}
{{- range $path := $rule.values -}}
{{- $value := $.Values -}}
{{- $default := $defaults -}}
{{- range splitList "." $path -}}
{{- $value = index ($value | default dict) . -}}
{{- $default = index $default . -}}
{{- end -}}
{{- if not (or (has $mode $rule.modes) (kindIs "invalid" $value) (eq (toJson $value) (toJson $default))) -}}
{{- /* Environments may hold what nobody should read in a log, so only plain values are repeated. */ -}}
{{- $got := ternary "entries" (toJson $value) (or (kindIs "map" $value) (kindIs "slice" $value)) -}}
{{- fail (printf "\n\n%s: wanted it unset in %s mode, because %s; it would change nothing, got %s\n" $path $mode $rule.because $got) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
