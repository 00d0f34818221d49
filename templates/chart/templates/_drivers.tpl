{{/*
The drivers that run, as JSON {"drivers": [...]}: those of the values, or the default one on the fake backend. Each has
`name`, `backend`, `preset` (the backend's name, the key of `hardware`), `config`, `deviceClasses` and what else was given.
*/}}
{{- define "dra.drivers" -}}
{{- $drivers := list -}}
{{- range .Values.drivers | default (list (include "dra.defaultDriver" . | fromJson)) -}}
{{- $class := dict "name" .name -}}
{{- $driver := merge (dict "preset" (regexReplaceAll "^.*/dra-backend-(.*)[.]so$" .backend "${1}")) . -}}
{{- if not (hasKey . "deviceClasses") -}}{{- $_ := set $driver "deviceClasses" (list $class) -}}{{- end -}}
{{- if not (hasKey . "config") -}}{{- $_ := set $driver "config" dict -}}{{- end -}}
{{- $drivers = append $drivers $driver -}}
{{- end -}}
{{- dict "drivers" $drivers | toJson -}}
{{- end -}}

{{/* The driver that the example driver's values describe. */}}
{{- define "dra.defaultDriver" -}}
{{- $name := .Values.driverName | default (printf "%s.example.com" .Values.deviceProfile) -}}
{{- $plugin := .Values.kubeletPlugin -}}
{{- $config := dict "profile" .Values.deviceProfile -}}
{{- if eq .Values.deviceProfile "cpu" -}}
{{- /* Its mappings name capacities with the driver's own domain. */ -}}
{{- $_ := set $config "driverName" $name -}}
{{- $_ := set $config "numaNodes" $plugin.cpu.numaNodes -}}
{{- $_ := set $config "cpusPerNUMANode" $plugin.cpu.cpusPerNUMANode -}}
{{- else -}}
{{- $_ := set $config "numDevices" $plugin.numDevices -}}
{{- end -}}
{{- if eq .Values.deviceProfile "gpu" -}}
{{- $_ := set $config "partitions" $plugin.gpuPartitions -}}
{{- $_ := set $config "shared" .Values.gpuAllowMultipleAllocations -}}
{{- $_ := set $config "deviceStatus" .Values.gpuDeviceStatus -}}
{{- end -}}
{{- $class := dict "name" $name "extendedResourceName" (.Values.deviceClass).extendedResourceName -}}
{{- dict "name" $name "backend" "fake" "config" $config "deviceClasses" (list $class) | toJson -}}
{{- end -}}

{{/*
The kubelet's root. The example driver's two paths are taken where they say the same as one root; dra.validate refuses
the rest.
*/}}
{{- define "dra.kubeletRoot" -}}
{{- $given := .Values.kubeletPlugin.kubeletRegistrarDirectoryPath | default .Values.kubeletPlugin.kubeletPluginsDirectoryPath -}}
{{- if $given -}}{{- dir (trimSuffix "/" $given) -}}{{- else -}}{{- trimSuffix "/" .Values.kubeletRoot -}}{{- end -}}
{{- end -}}

{{/* How the process speaks HTTP, as JSON: `address`, and `port` where it is one that others know (else 0). */}}
{{- define "dra.http" -}}
{{- $port := int .Values.kubeletPlugin.containers.plugin.metricsPort -}}
{{- $host := (include "dra.hardware" . | fromJson).hostNetwork -}}
{{- if lt $port 0 -}}
{{- dict "address" "" "port" 0 | toJson -}}
{{- else if $host -}}
{{- /* Two instances share the node's ports during an update. */ -}}
{{- dict "address" (printf "%s:0" .Values.httpHost) "port" 0 | toJson -}}
{{- else -}}
{{- dict "address" (printf "%s:%d" .Values.httpHost $port) "port" $port | toJson -}}
{{- end -}}
{{- end -}}

{{/* config.yaml of dra-driver: docs/configuration.md. nodeName and podUID come from the environment. */}}
{{- define "dra.config" -}}
{{- $drivers := list -}}
{{- range (include "dra.drivers" . | fromJson).drivers -}}
{{- $drivers = append $drivers (omit . "preset" "deviceClasses") -}}
{{- end -}}
{{- dict
      "installation" (printf "%s/%s" (include "dra.namespace" .) .Release.Name)
      "kubeletRoot" (include "dra.kubeletRoot" .)
      "cdiDirectory" .Values.cdiDirectory
      "httpAddress" (include "dra.http" . | fromJson).address
      "shutdownGrace" (printf "%ds" (int .Values.shutdownGraceSeconds))
      "log" .Values.log
      "drivers" $drivers | toYaml -}}
{{- end -}}
