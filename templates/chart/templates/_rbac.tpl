{{/* JSON {"names": [...]}: the drivers that write the status of claims. */}}
{{- define "dra.statusDrivers" -}}
{{- $names := list -}}
{{- range (include "dra.drivers" . | fromJson).drivers -}}
{{- if not (and (hasKey . "deviceStatus") (not .deviceStatus)) -}}{{- $names = append $names .name -}}{{- end -}}
{{- end -}}
{{- dict "names" $names | toJson -}}
{{- end -}}

{{/* "true" where Kubernetes asks for a permission per driver to write the status of claims: from 1.36 on. */}}
{{- define "dra.granularStatus" -}}
{{- $wanted := (.Values.rbac).granularStatus | default "auto" -}}
{{- if eq $wanted "auto" -}}
{{- semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}
{{- eq $wanted "always" -}}
{{- end -}}
{{- end -}}
