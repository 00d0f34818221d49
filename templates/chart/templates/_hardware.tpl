{{/*
What the pod gets for its drivers' hardware, as JSON: `hostNetwork`, `privileged`, `capabilities`, `pluginMounts`,
`hostPaths`: the entries of `hardware` for the backends that run, together. A path that two backends want at one place is mounted once,
writable if one of them writes.
*/}}
{{- define "dra.hardware" -}}
{{- $network := .Values.kubeletPlugin.hostNetwork -}}
{{- $privileged := false -}}
{{- $mounts := false -}}
{{- $capabilities := list -}}
{{- $paths := dict -}}
{{- range (include "dra.drivers" . | fromJson).drivers -}}
{{- $entry := index $.Values.hardware .preset | default dict -}}
{{- if $entry.hostNetwork -}}{{- $network = true -}}{{- end -}}
{{- if $entry.privileged -}}{{- $privileged = true -}}{{- end -}}
{{- if $entry.pluginMounts -}}{{- $mounts = true -}}{{- end -}}
{{- $capabilities = concat $capabilities ($entry.capabilities | default list) -}}
{{- range $entry.hostPaths -}}
{{- $at := .mountPath | default .path -}}
{{- $path := merge (dict "mountPath" $at) . -}}
{{- if hasKey $paths $at -}}
{{- $other := index $paths $at -}}
{{- if ne $other.path .path -}}
{{- fail (printf "hardware: %s and %s are both to be mounted at %s; give one of them another mountPath" $other.path .path $at) -}}
{{- end -}}
{{- if not $other.readOnly -}}{{- $_ := set $path "readOnly" false -}}{{- end -}}
{{- end -}}
{{- $_ := set $paths $at $path -}}
{{- end -}}
{{- end -}}
{{- $list := list -}}
{{- range $at := keys $paths | sortAlpha -}}{{- $list = append $list (index $paths $at) -}}{{- end -}}
{{- dict "hostNetwork" $network "privileged" $privileged "pluginMounts" $mounts "capabilities" ($capabilities | uniq | sortAlpha) "hostPaths" $list | toJson -}}
{{- end -}}

{{/* The container's securityContext: no privilege but what the hardware needs, and the values' own laid over it. */}}
{{- define "dra.securityContext" -}}
{{- $hardware := include "dra.hardware" . | fromJson -}}
{{- $own := .Values.kubeletPlugin.containers.plugin.securityContext -}}
{{- $context := dict "runAsUser" 0 "runAsNonRoot" false "readOnlyRootFilesystem" true -}}
{{- if or $own.privileged (and $hardware.privileged (not (hasKey $own "privileged"))) -}}
{{- /* The API server refuses privileged beside the restrictions below. */ -}}
{{- $_ := set $context "privileged" true -}}
{{- else -}}
{{- $capabilities := dict "drop" (list "ALL") -}}
{{- with $hardware.capabilities -}}{{- $_ := set $capabilities "add" . -}}{{- end -}}
{{- $_ := set $context "capabilities" $capabilities -}}
{{- $_ := set $context "allowPrivilegeEscalation" false -}}
{{- $_ := set $context "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- end -}}
{{- $selinux := .Values.kubeletPlugin.seLinuxOptions -}}
{{- if and (.Values.openshift).enabled (not $selinux) -}}{{- $selinux = dict "type" "spc_t" -}}{{- end -}}
{{- with $selinux -}}{{- $_ := set $context "seLinuxOptions" . -}}{{- end -}}
{{- mergeOverwrite $context (deepCopy $own) | toYaml -}}
{{- end -}}
