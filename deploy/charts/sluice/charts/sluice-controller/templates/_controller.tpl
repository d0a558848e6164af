{{/* Texts of variables that the chart knows, and that `controller.config` overrides; a JSON object. */}}
{{- define "controller.defaults" -}}
{{- $scope := dict "context" . "component" "controller" "prefix" "SVC_CONTROLLER" -}}
{{- $found := include "sluice.servers" $scope | fromJson -}}
{{- $administration := or ((.Values.controller.config.server | default dict).administration) ((.Values.controller.secrets.server | default dict).administration) -}}
{{- if not $administration -}}
{{- $_ := set $found "SVC_CONTROLLER_SERVER_ADMINISTRATION_ADDR" "127.0.0.1:8081" -}}
{{- end -}}
{{- if include "controller.watchesPolicies" . -}}
{{- $_ := set $found "SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED" "true" -}}
{{- with .Values.policies.namespaces -}}
{{- $_ := set $found "SVC_CONTROLLER_POLICIES_NAMESPACES" (join "," .) -}}
{{- $_ := set $found "SVC_CONTROLLER_POLICIES_NAMESPACE_QUOTA" (toString $.Values.policies.namespaceQuota) -}}
{{- end -}}
{{- end -}}
{{- if include "controller.discovers" . -}}
{{- $_ := set $found "SVC_CONTROLLER_SERVICE_DISCOVERY_KUBERNETES_ENABLED" "true" -}}
{{- end -}}
{{- if include "controller.scales" . -}}
{{- $_ := set $found "SVC_CONTROLLER_AUTO_SCALE_KUBERNETES_ENABLED" "true" -}}
{{- end -}}
{{- if include "controller.attaches" . -}}
{{- $_ := set $found "SVC_CONTROLLER_GATEWAY_API_ENABLED" "true" -}}
{{- $_ := set $found "SVC_CONTROLLER_GATEWAY_API_AGENTS" (include "controller.gatewayAgents" .) -}}
{{- $_ := set $found "SVC_CONTROLLER_GATEWAY_API_FAIL_OPEN" (toString .Values.gatewayApi.failOpen) -}}
{{- end -}}
{{- $tls := include "controller.tls" . | fromJson -}}
{{- toJson (mergeOverwrite $found $tls.variables) -}}
{{- end -}}

{{- define "controller.tls" -}}
{{- include "sluice.tls" (dict "prefix" "SVC_CONTROLLER" "tls" .Values.tls) -}}
{{- end -}}

{{- define "controller.port" -}}
{{- include "sluice.port" (dict "config" .Values.controller.config "path" "server.listener.addr" "default" ":8080" "where" "controller.config") -}}
{{- end -}}

{{- define "controller.metricsPort" -}}
{{- $ports := (.Values.controller.config.otel | default dict).ports | default dict -}}
{{- $port := toString (ternary $ports.debug_port 8888 (hasKey $ports "debug_port")) -}}
{{- ternary (include "controller.port" .) $port (eq $port "0") -}}
{{- end -}}

{{- define "controller.account" -}}
{{- .Values.serviceAccount.name | default (include "sluice.name" (dict "context" . "component" "controller")) -}}
{{- end -}}

{{/* Folders of policy documents, by the name of the ConfigMap. */}}
{{- define "controller.policyMaps" -}}
{{- $own := printf "%s-policies" (include "sluice.name" (dict "context" . "component" "controller")) -}}
{{- toJson (prepend .Values.controller.policyConfigMaps $own) -}}
{{- end -}}

{{/* "true" where controllers run policies that are resources: either value says so. */}}
{{- define "controller.watchesPolicies" -}}
{{- $keys := ((.Values.controller.config.policies | default dict).cr_watcher) | default dict -}}
{{- if or .Values.policies.crWatcher.enabled $keys.enabled }}true{{ end -}}
{{- end -}}

{{/* "true" where the controller that leads attaches policies to gateways: either value says so. */}}
{{- define "controller.attaches" -}}
{{- if or .Values.gatewayApi.enabled (.Values.controller.config.gateway_api | default dict).enabled }}true{{ end -}}
{{- end -}}

{{/* The Service that gateways ask. A release of controllers alone has that of the chart sluice-agent beside it. */}}
{{- define "controller.gatewayAgents" -}}
{{- $release := dict "Release" .Release "Values" dict -}}
{{- $own := ternary "sluice-agent" (include "sluice.name" (dict "context" $release "component" "agent")) (contains "controller" .Release.Name) -}}
{{- $default := printf "%s.%s.svc.cluster.local:8080" $own .Release.Namespace -}}
{{- (.Values.controller.config.gateway_api | default dict).agents | default .Values.gatewayApi.agents | default $default -}}
{{- end -}}

{{/* "true" where controllers discover services for sidecars: by default where the injector makes sidecars. */}}
{{- define "controller.discovers" -}}
{{- $keys := ((.Values.controller.config.service_discovery | default dict).kubernetes) | default dict -}}
{{- if ternary $keys.enabled .Values.injector.enabled (hasKey $keys "enabled") }}true{{ end -}}
{{- end -}}
