{{/* Names and labels. */}}

{{- define "dra.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "dra.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dra.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Of cluster-wide objects: releases of one name in several namespaces do not clash. */}}
{{- define "dra.clusterName" -}}
{{- printf "%s.%s" (include "dra.fullname" .) (include "dra.namespace" .) -}}
{{- end -}}

{{- define "dra.serviceAccountName" -}}
{{- default (include "dra.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "dra.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Labels of a pod: the selector's, and what selectorLabelsOverride does not replace. */}}
{{- define "dra.podLabels" -}}
app.kubernetes.io/name: {{ include "dra.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: kubeletplugin
{{- with .Values.selectorLabelsOverride }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dra.selectorLabels" -}}
{{- if .Values.selectorLabelsOverride -}}
{{ toYaml .Values.selectorLabelsOverride }}
app.kubernetes.io/component: kubeletplugin
{{- else -}}
{{ include "dra.podLabels" . }}
{{- end -}}
{{- end -}}

{{- define "dra.labels" -}}
{{ include "dra.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}
