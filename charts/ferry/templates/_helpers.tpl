{{/* Names are of the release; cluster-wide objects carry the namespace too, so that releases do not collide. */}}
{{- define "ferry.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ferry.operator" -}}
{{ include "ferry.fullname" . }}-operator
{{- end -}}

{{- define "ferry.cluster" -}}
{{ include "ferry.operator" . }}-{{ .Release.Namespace }}
{{- end -}}

{{/* Frozen: a Deployment's selector cannot be changed. */}}
{{- define "ferry.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ferry.labels" -}}
{{ include "ferry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "ferry.account" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "ferry.operator" .) .Values.serviceAccount.name }}
{{- else -}}
{{ .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "ferry.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The namespaces of scope Namespaces, as JSON. */}}
{{- define "ferry.namespaces" -}}
{{- $names := .Values.scope.namespaces -}}
{{- if not $names }}{{ $names = list .Release.Namespace }}{{ end -}}
{{ $names | sortAlpha | toJson }}
{{- end -}}

{{/* Who the roles are given to. */}}
{{- define "ferry.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "ferry.account" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* A map as key=value,key=value. */}}
{{- define "ferry.pairs" -}}
{{- $pairs := list -}}
{{- range $key, $value := . }}{{ $pairs = append $pairs (printf "%s=%s" $key $value) }}{{ end -}}
{{ join "," $pairs }}
{{- end -}}

{{/* A file of rules as the values want it: some alerts left out, labels and web addresses added. */}}
{{- define "ferry.rules" -}}
{{- $wanted := .wanted -}}
{{- $slow := printf "le=%q" $wanted.slowFirstTokenSeconds -}}
{{- $groups := list -}}
{{- range (.text | replace "le=\"2.5\"" $slow | fromYaml).groups -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- if not (and .alert (has .alert $wanted.disabled)) -}}
{{- if .alert -}}
{{- $_ := set . "labels" (merge (dict) .labels $wanted.alertLabels) -}}
{{- if $wanted.runbookBaseUrl -}}
{{- $_ := set .annotations "runbook_url" (printf "%s/%s" $wanted.runbookBaseUrl .annotations.runbook_url) -}}
{{- end -}}
{{- end -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- $groups = append $groups (dict "name" .name "rules" $rules) -}}
{{- end -}}
{{ dict "groups" $groups | toYaml }}
{{- end -}}
