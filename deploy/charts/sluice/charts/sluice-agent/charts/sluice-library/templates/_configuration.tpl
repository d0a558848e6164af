{{/*
The variables of a tree of configuration keys, as a JSON object from names to texts. Takes prefix (`SVC_AGENT`) and tree.
Lists become JSON. Kubernetes would replace `$(NAME)` in the `env` of a container, so the sign is doubled, unless raw is
true.
*/}}
{{- define "sluice.variables" -}}
{{- $found := dict -}}
{{- range $key, $value := .tree -}}
{{- $name := printf "%s_%s" $.prefix (upper $key) -}}
{{- if kindIs "map" $value -}}
{{- $found = mergeOverwrite $found (include "sluice.variables" (dict "prefix" $name "tree" $value "raw" $.raw) | fromJson) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $text := ternary $value (toRawJson $value) (kindIs "string" $value) -}}
{{- $_ := set $found $name ($text | replace "$(" (ternary "$(" "$$(" (not (not $.raw)))) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/*
The references of a tree of secrets, as a JSON object from the names of variables to {name, key} of a Secret. Takes prefix
and tree. A reference is a map with a name and a key that are texts.
*/}}
{{- define "sluice.references" -}}
{{- $found := dict -}}
{{- range $key, $value := .tree -}}
{{- $name := printf "%s_%s" $.prefix (upper $key) -}}
{{- if not (kindIs "map" $value) -}}
{{- else if and (kindIs "string" $value.name) (kindIs "string" $value.key) -}}
{{- $_ := set $found $name $value -}}
{{- else -}}
{{- $found = mergeOverwrite $found (include "sluice.references" (dict "prefix" $name "tree" $value) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* "true" where a tree has a value at a path; the step `[]` stands for each item of a list. Takes tree and path. */}}
{{- define "sluice.has" -}}
{{- if not .path -}}
{{- if not (kindIs "invalid" .tree) }}true{{ end -}}
{{- else if and (eq (first .path) "[]") (kindIs "slice" .tree) -}}
{{- range .tree }}{{ include "sluice.has" (dict "tree" . "path" (rest $.path)) }}{{ end -}}
{{- else if kindIs "map" .tree -}}
{{- if hasKey .tree (first .path) }}{{ include "sluice.has" (dict "tree" (index .tree (first .path)) "path" (rest .path)) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/*
Fails where a secret stands in the configuration, which would be readable in the pod and in the release. Takes context,
tree, and where: what the values are called. files/secrets.json lists the keys, generated from the configuration tables.
*/}}
{{- define "sluice.refuseSecrets" -}}
{{- range (.context.Files.Get "files/secrets.json" | fromJsonArray) -}}
{{- $steps := splitList "." . -}}
{{- if include "sluice.has" (dict "tree" $.tree "path" $steps) -}}
{{- $whole := (splitList ".[]" .) | first -}}
{{- fail (printf "\n\n%s.config.%s is a secret: put it into a Secret of the namespace and name that in %s.secrets.%s: {name: NAME, key: KEY}%s\n" $.where . $.where $whole (ternary "" " (the whole list, as JSON)" (eq $whole .))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails where an address holds a user or a password. Takes tree, path (""), and where: what the values are called.
*/}}
{{- define "sluice.refuseCredentials" -}}
{{- range $key, $value := .tree -}}
{{- $path := ternary $key (printf "%s.%s" $.path $key) (eq $.path "") -}}
{{- if kindIs "map" $value -}}
{{- include "sluice.refuseCredentials" (dict "tree" $value "path" $path "where" $.where) -}}
{{- else if regexMatch "://[^/?#\\s]*@" (toString $value) -}}
{{- fail (printf "\n\n%s.config.%s holds a user or password: put the whole value into a Secret of the namespace and name that in %s.secrets.%s: {name: NAME, key: KEY}\n" $.where $path $.where $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails where the process would refuse values that fit the schema: together, or because a duration is too long. Takes context, prefix,
where (what the values are called), config and secrets (trees), defaults (texts by name of variable, which the configuration
overrides) and extra (entries of `env`, which override both). files/rules.json is generated from the configuration tables.
*/}}
{{- define "sluice.refuseByRules" -}}
{{- $texts := mergeOverwrite (dict) .defaults (include "sluice.variables" (dict "prefix" .prefix "tree" .config "raw" true) | fromJson) -}}
{{- $secret := include "sluice.references" (dict "prefix" .prefix "tree" .secrets) | fromJson -}}
{{- range .extra -}}
{{- if .valueFrom }}{{ $_ := set $secret .name true }}{{ else }}{{ $_ := set $texts .name (.value | default "") }}{{ end -}}
{{- end -}}
{{- range (.context.Files.Get "files/rules.json" | fromJsonArray) -}}
{{- $scope := dict "rules" .rules "durations" .durations "where" (printf "%s.config" $.where) -}}
{{- if .list -}}
{{- $where := printf "%s.config.%s.[]" $.where .list -}}
{{- $items := $.config -}}
{{- range splitList "." .list }}{{ $items = ternary (index ($items | default dict) .) list (kindIs "map" $items) }}{{ end -}}
{{- range $items -}}
{{- include "sluice.refuseObject" (merge (dict "prefix" "" "secret" dict "where" $where "texts" (include "sluice.variables" (dict "prefix" "" "tree" . "raw" true) | fromJson)) $scope) -}}
{{- end -}}
{{- else -}}
{{- include "sluice.refuseObject" (merge (dict "prefix" $.prefix "texts" $texts "secret" $secret) $scope) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
One object of the above. Takes rules, durations, where, prefix, texts (by name of variable) and secret: names of variables whose
texts are not known here, so that a rule about their content does not hold.
*/}}
{{- define "sluice.refuseObject" -}}
{{- range .durations -}}
{{- $text := toString (index $.texts (printf "%s_%s" $.prefix .name)) -}}
{{- if regexMatch "[0-9][a-zµ]+$" $text -}}
{{- $ms := include "sluice.milliseconds" $text | float64 -}}
{{- if or (lt $ms (float64 .least)) (gt $ms (float64 .most)) -}}
{{- fail (printf "\n\n%s.%s: wanted %s, got %s\n" $.where .path .wanted $text) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .rules -}}
{{- $holds := true -}}
{{- range .when -}}
{{- $name := printf "%s_%s" $.prefix .name -}}
{{- $text := ternary (index $.texts $name) .default (hasKey $.texts $name) -}}
{{- if eq $text "[]" }}{{ $text = "" }}{{ end -}}
{{- if hasKey $.secret $name -}}
{{- $holds = and $holds (eq .is "is not") (eq .of "") -}}
{{- else if eq .is "is" -}}
{{- $holds = and $holds (eq $text .of) -}}
{{- else if eq .is "is not" -}}
{{- $holds = and $holds (ne $text .of) -}}
{{- else if eq .is "lacks" -}}
{{- $holds = and $holds (not (hasPrefix .of $text)) -}}
{{- else -}}
{{- /* The default of a number fits the other one. */ -}}
{{- $other := printf "%s_%s" $.prefix .of -}}
{{- $holds = and $holds (hasKey $.texts $name) (hasKey $.texts $other) (lt (float64 $text) (float64 (index $.texts $other))) -}}
{{- end -}}
{{- end -}}
{{- if $holds -}}
{{- fail (printf "\n\n%s.%s: wanted %s\n" $.where .path .wanted) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The milliseconds of a duration such as 1h30m. Takes its text. */}}
{{- define "sluice.milliseconds" -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-zµ]+" . -1 -}}
{{- $unit := regexFind "[a-zµ]+" . -}}
{{- $sum = addf $sum (mulf (float64 (regexFind "[0-9.]+" .)) (index (dict "ns" 0.000001 "us" 0.001 "µs" 0.001 "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0) $unit)) -}}
{{- end -}}
{{- ternary (mulf -1.0 $sum) $sum (hasPrefix "-" .) -}}
{{- end -}}

{{/*
The `env` of a process, as a list. Takes prefix, config and secrets (trees), defaults (texts by name of variable, which
the configuration overrides) and extra (a list of further entries). Facts about the pod come first, because only later
texts can name them.
*/}}
{{- define "sluice.env" -}}
{{- $texts := mergeOverwrite (dict) .defaults (include "sluice.variables" (dict "prefix" .prefix "tree" .config) | fromJson) -}}
{{- $references := include "sluice.references" (dict "prefix" .prefix "tree" .secrets) | fromJson -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- range $name := concat (keys $texts) (keys $references) | uniq | sortAlpha }}
- name: {{ $name }}
  {{- if hasKey $references $name }}
  valueFrom:
    secretKeyRef:
      name: {{ index $references $name "name" }}
      key: {{ index $references $name "key" }}
  {{- else }}
  value: {{ index $texts $name | quote }}
  {{- end }}
{{- end }}
{{- with .extra }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
The certificates of a process, as a JSON object with `variables` (texts by name), `mounts` and `volumes`. Takes prefix and
tls: the values, each with the name of a Secret, and folder: where the only Secret is mounted, if there may be one only.
Files are read again when they change, so a renewal needs no restart.
*/}}
{{- define "sluice.tls" -}}
{{- $variables := dict -}}
{{- $mounts := list -}}
{{- $volumes := list -}}
{{- range $use, $tls := .tls -}}
{{- if $tls.secretName -}}
{{- $at := $.folder | default (printf "/etc/sluice/tls/%s" $use) -}}
{{- $mounts = append $mounts (dict "name" (printf "tls-%s" $use) "mountPath" $at "readOnly" true) -}}
{{- $volumes = append $volumes (dict "name" (printf "tls-%s" $use) "secret" (dict "secretName" $tls.secretName "defaultMode" 288)) -}}
{{- $key := index (dict "etcd" "ETCD_TLS" "server" "SERVER_TLS" "peers" "DIST_CACHE_TLS" "prometheus" "PROMETHEUS_HTTP_CLIENT_TLS" "controller" "AGENT_FUNCTIONS_CLIENT_GRPC_TLS" "redis" "COUNTERS_REDIS_TLS") $use -}}
{{- $authority := ternary "CLIENT_CA_FILE" "CA_FILE" (eq $use "server") -}}
{{- if eq $use "server" -}}
{{- $_ := set $variables (printf "%s_%s_ENABLED" $.prefix $key) "true" -}}
{{- end -}}
{{- if $tls.authority -}}
{{- $_ := set $variables (printf "%s_%s_%s" $.prefix $key $authority) (printf "%s/ca.crt" $at) -}}
{{- end -}}
{{- if $tls.certificate -}}
{{- $_ := set $variables (printf "%s_%s_CERT_FILE" $.prefix $key) (printf "%s/tls.crt" $at) -}}
{{- $_ := set $variables (printf "%s_%s_KEY_FILE" $.prefix $key) (printf "%s/tls.key" $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "variables" $variables "mounts" $mounts "volumes" $volumes | toJson -}}
{{- end -}}

{{/*
Where etcd and Prometheus are by default: those of the umbrella chart, which says in `global.sluice` that it has them.
JSON object of texts by name of variable. Takes context and prefix. The names end in the namespace because sidecars run
in others.
*/}}
{{- define "sluice.servers" -}}
{{- $global := include "sluice.global" . | fromJson -}}
{{- $found := dict -}}
{{- if ($global.etcd | default dict).enabled -}}
{{- $_ := set $found (printf "%s_ETCD_ENDPOINTS" .prefix) (printf "[\"http://%s.%s.svc:2379\"]" (include "sluice.trialName" (dict "context" .context "component" "etcd")) .context.Release.Namespace) -}}
{{- end -}}
{{- if ($global.prometheus | default dict).enabled -}}
{{- $_ := set $found (printf "%s_PROMETHEUS_ADDRESS" .prefix) (printf "http://%s.%s.svc:9090" (include "sluice.trialName" (dict "context" .context "component" "prometheus")) .context.Release.Namespace) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/*
The number of a port, which the configuration may say. Takes config (a tree), path (the key of an address or a number),
default, and where: what the tree is called.
*/}}
{{- define "sluice.port" -}}
{{- $at := .config -}}
{{- range splitList "." .path -}}
{{- if kindIs "map" $at }}{{ $at = index $at . }}{{ else }}{{ $at = "" }}{{ end -}}
{{- end -}}
{{- $text := toString (default .default $at) -}}
{{- $port := regexFind "[0-9]+$" $text -}}
{{- if or (hasPrefix "unix:" $text) (not $port) -}}
{{- fail (printf "\n\n%s.%s: wanted host:port, because other pods connect, got %s\n" .where .path $text) -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{/*
Fails where a process listens on loopback, where no other pod and no probe reaches it. Takes config (a tree), where: what
the tree is called, and beside: why others must reach it. A courtesy: other names of loopback are not known here.
*/}}
{{- define "sluice.refuseLoopback" -}}
{{- $addr := toString (((.config.server | default dict).listener | default dict).addr) -}}
{{- if regexMatch "(?i)^(127\\.|(localhost|ip6-localhost|ip6-loopback)\\.?:|\\[[0:]+1\\]|\\[[0:]+ffff:(127\\.|7f))" $addr -}}
{{- fail (printf "\n\n%s.server.listener.addr: wanted an address that other pods and probes reach, such as :8080, beside %s, got %s\n" .where .beside $addr) -}}
{{- end -}}
{{- end -}}

{{/* Fails where annotations are for an account that the chart does not make. Takes the values of serviceAccount. */}}
{{- define "sluice.refuseOthersAccount" -}}
{{- if and .name .annotations -}}
{{- fail (printf "\n\nserviceAccount.annotations: wanted none beside serviceAccount.name, because the account %s is not made by this chart: annotate it yourself\n" .name) -}}
{{- end -}}
{{- end -}}
