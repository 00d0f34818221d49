{{/* What the schema cannot say. Each refusal names the value and what to do. */}}
{{- define "dra.validate" -}}
{{- $plugin := .Values.kubeletPlugin -}}
{{- if and (eq (include "dra.namespace" .) "default") (not .Values.namespaceOverride) (not .Values.allowDefaultNamespace) -}}
{{- fail "the driver is not installed in the namespace \"default\": choose another with --namespace (and --create-namespace), or set allowDefaultNamespace=true" -}}
{{- end -}}

{{- /* Of the example driver's chart, and not there yet. */ -}}
{{- if (.Values.webhook).enabled -}}
{{- fail "webhook.enabled=true: this chart has no admission webhook yet; opaque configuration is checked when a claim is prepared. Set webhook.enabled=false" -}}
{{- end -}}
{{- if (.Values.controller).plugins -}}
{{- fail (printf "controller.plugins=[%s]: this chart has no controller yet. Leave controller.plugins empty" (join ", " (.Values.controller).plugins)) -}}
{{- end -}}
{{- if $plugin.bindingConditions -}}
{{- fail "kubeletPlugin.bindingConditions=true: binding conditions are not there yet. Set kubeletPlugin.bindingConditions=false" -}}
{{- end -}}
{{- if or ($plugin.containers.init).securityContext ($plugin.containers.init).resources -}}
{{- fail "kubeletPlugin.containers.init: there is no init container; leave it empty" -}}
{{- end -}}

{{- /* One kubelet root. */ -}}
{{- $root := include "dra.kubeletRoot" . -}}
{{- with $plugin.kubeletRegistrarDirectoryPath -}}
{{- if ne (trimSuffix "/" .) (printf "%s/plugins_registry" $root) -}}
{{- fail (printf "kubeletPlugin.kubeletRegistrarDirectoryPath=%s is not plugins_registry of a kubelet root; set kubeletRoot to the kubelet's --root-dir instead" .) -}}
{{- end -}}
{{- end -}}
{{- with $plugin.kubeletPluginsDirectoryPath -}}
{{- if ne (trimSuffix "/" .) (printf "%s/plugins" $root) -}}
{{- fail (printf "kubeletPlugin.kubeletPluginsDirectoryPath=%s is not the directory plugins of the kubelet root %s; the kubelet has one root: set kubeletRoot to its --root-dir instead" . $root) -}}
{{- end -}}
{{- end -}}
{{- $other := trimSuffix "/" .Values.kubeletRoot -}}
{{- if and (ne $other "/var/lib/kubelet") (ne $other $root) -}}
{{- fail (printf "kubeletRoot=%s and the kubelet root %s of kubeletPlugin.kubelet...DirectoryPath differ; set kubeletRoot alone" $other $root) -}}
{{- end -}}

{{- /* Drivers. */ -}}
{{- if .Values.drivers -}}
{{- $ignored := list -}}
{{- if ne .Values.deviceProfile "gpu" -}}{{- $ignored = append $ignored "deviceProfile" -}}{{- end -}}
{{- if .Values.driverName -}}{{- $ignored = append $ignored "driverName" -}}{{- end -}}
{{- if (.Values.deviceClass).extendedResourceName -}}{{- $ignored = append $ignored "deviceClass.extendedResourceName" -}}{{- end -}}
{{- if .Values.gpuDeviceStatus -}}{{- $ignored = append $ignored "gpuDeviceStatus" -}}{{- end -}}
{{- if .Values.gpuAllowMultipleAllocations -}}{{- $ignored = append $ignored "gpuAllowMultipleAllocations" -}}{{- end -}}
{{- if $plugin.gpuPartitions -}}{{- $ignored = append $ignored "kubeletPlugin.gpuPartitions" -}}{{- end -}}
{{- with $ignored -}}
{{- fail (printf "%s: describes the default driver, which does not run when `drivers` is given; say it in an entry of `drivers`" (join ", " .)) -}}
{{- end -}}
{{- end -}}
{{- $names := dict -}}
{{- $classes := dict -}}
{{- range (include "dra.drivers" . | fromJson).drivers -}}
{{- if hasKey $names .name -}}
{{- fail (printf "drivers: the name %s is there twice; a driver name belongs to one backend on a node" .name) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- range .deviceClasses -}}
{{- if hasKey $classes .name -}}{{- fail (printf "drivers: two DeviceClasses have the name %s" .name) -}}{{- end -}}
{{- $_ := set $classes .name true -}}
{{- end -}}
{{- end -}}

{{- range $backend, $entry := .Values.hardware -}}
{{- range $entry.capabilities -}}
{{- if hasPrefix "CAP_" . -}}
{{- fail (printf "hardware.%s.capabilities: %s is written without CAP_ in Kubernetes: %s" $backend . (trimPrefix "CAP_" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.create=false: give serviceAccount.name; the namespace's default service account would hand the driver's rights to every pod in it" -}}
{{- end -}}

{{- /* What cannot work on the host's network, or without a port. */ -}}
{{- $hostNetwork := (include "dra.hardware" . | fromJson).hostNetwork -}}
{{- $port := (include "dra.http" . | fromJson).port -}}
{{- if and (.Values.serviceMonitor).enabled (not $port) -}}
{{- fail (printf "serviceMonitor.enabled=true: there is no metrics port to scrape, because %s; the status socket shows the port in httpPort" (ternary "pods on the host's network take a free one" "kubeletPlugin.containers.plugin.metricsPort is not above 0" $hostNetwork)) -}}
{{- end -}}
{{- if and (.Values.networkPolicy).enabled $hostNetwork -}}
{{- fail "networkPolicy.enabled=true: a NetworkPolicy does not hold for pods on the host's network; set networkPolicy.enabled=false" -}}
{{- end -}}
{{- end -}}
