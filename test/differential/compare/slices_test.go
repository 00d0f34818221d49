package differential

import "strings"

// Slices that the API server accepts, with every gate on.

func validSlice(c chooser) object {
	spec := object{
		"driver": pick(c, "gpu.example.com", "Gpu.Example.com", "d", labels(63)),
		"pool": object{
			"name":               pick(c, "node-1", "rack-1/node.1", labels(253), "a/b/c"),
			"generation":         pick[any](c, 0, 1, 1<<40),
			"resourceSliceCount": pick[any](c, 1, 2, 1000),
		},
	}
	slice := object{
		"apiVersion": "resource.k8s.io/v1",
		"kind":       "ResourceSlice",
		"metadata":   pick(c, object{"name": "node-1-gpu"}, object{"generateName": "node-1-"}, object{"name": labels(253)}),
		"spec":       spec,
	}
	perDevice := false
	switch c.IntN(5) {
	case 0:
		spec["allNodes"] = true
	case 1:
		spec["nodeSelector"] = validSelector(c, 1)
	case 2:
		spec["perDeviceNodeSelection"] = true
		perDevice = true
	default:
		spec["nodeName"] = pick(c, "node-1", labels(253))
	}
	switch c.IntN(8) {
	case 0:
		spec["sharedCounters"] = repeat(pick(c, 1, 2, 8), func(i int) any { return validCounterSet(c, i) })
	case 1: // no devices
	default:
		spec["devices"] = validDevices(c, perDevice)
		if c.oneIn(6) {
			addPartitionType(c, spec)
		}
	}
	if c.oneIn(6) {
		spec["skipNodeOperations"] = pick(c, list{"*"}, list{"NodeUnprepareResources"},
			list{"NodePrepareResources", "NodeUnprepareResources"}, list{"*", "NodePrepareResources"})
	}
	return slice
}

func repeat(count int, make func(i int) any) list {
	items := list{}
	for i := range count {
		items = append(items, make(i))
	}
	return items
}

func validDevices(c chooser, perDevice bool) list {
	if c.oneIn(12) { // many plain ones
		return repeat(pick(c, 64, 128), func(i int) any {
			device := object{"name": numbered("gpu-", i)}
			if perDevice {
				device["allNodes"] = true
			}
			return device
		})
	}
	return repeat(c.between(1, 3), func(i int) any { return validDevice(c, i, perDevice) })
}

func validDevice(c chooser, number int, perDevice bool) object {
	device := object{"name": pick(c, numbered("gpu-", number), numbered(letters(62), number))}
	if perDevice {
		switch c.IntN(3) {
		case 0:
			device["allNodes"] = true
		case 1:
			device["nodeName"] = "node-1"
		default:
			device["nodeSelector"] = validSelector(c, c.between(1, 2))
		}
	}
	if c.oneIn(2) {
		device["attributes"] = validAttributes(c)
	}
	if c.oneIn(2) {
		device["capacity"] = validCapacity(c, device)
	}
	if c.oneIn(5) {
		device["consumesCounters"] = repeat(c.between(1, 2), func(i int) any {
			consumed := object{"counterSet": numbered("set-", i), "counters": validCounters(c, pick(c, 1, 2, 32))}
			if c.oneIn(3) {
				consumed["compatibilityGroups"] = repeat(c.between(1, 2), func(i int) any { return numbered("group-", i) })
			}
			return consumed
		})
	}
	if c.oneIn(4) {
		device["taints"] = repeat(pick(c, 1, 2, 16), func(i int) any {
			taint := object{"key": pick(c, numbered("example.com/Sick_", i), letters(63)),
				"effect": pick(c, "NoSchedule", "NoExecute", "None")}
			if c.oneIn(2) {
				taint["value"] = pick(c, "", "A.b_c-1", letters(63))
			}
			if c.oneIn(3) {
				taint["timeAdded"] = "2026-01-02T03:04:05Z"
			}
			return taint
		})
	}
	if c.oneIn(5) {
		device["bindingConditions"] = repeat(c.between(1, 4), func(i int) any { return numbered("example.com/ready-", i) })
		device["bindingFailureConditions"] = repeat(c.between(1, 4), func(i int) any { return numbered("failed-", i) })
	}
	if c.oneIn(8) {
		device["bindsToNode"] = pick(c, true, false)
	}
	if c.oneIn(5) {
		device["nodeAllocatableResources"] = validNodeAllocatable(c, device)
	}
	return device
}

func validAttributes(c chooser) object {
	attributes := object{}
	for i := range pick(c, 1, 2, 5, 16) {
		name := pick(c, numbered("a_", i), numbered("example.com/a_", i), numbered(letters(30), i%10)+numbered("", i/10),
			labels(63)+"/"+numbered("x", i))
		switch c.IntN(12) {
		case 0:
			attributes[name] = object{"ints": list{1, -1, 1 << 40}}
		case 1:
			attributes[name] = object{"bools": list{true, false}}
		case 2:
			attributes[name] = object{"strings": list{"", letters(64)}}
		case 3:
			attributes[name] = object{"versions": list{"1.2.3", "0.0.0-a.1+b"}}
		case 4, 5:
			attributes[name] = object{"int": pick[any](c, 0, -1, 1<<62)}
		case 6:
			attributes[name] = object{"bool": pick(c, true, false)}
		case 7, 8:
			attributes[name] = object{"version": pick(c, "1.2.3", "0.0.0-alpha.1+build.01", "10.20.30--", "1.0.0+"+letters(58))}
		default:
			attributes[name] = object{"string": pick(c, "", "model X", letters(64))}
		}
	}
	return attributes
}

// Sets allowMultipleAllocations too where policies need it.
func validCapacity(c chooser, device object) object {
	shared := c.oneIn(2)
	if shared {
		device["allowMultipleAllocations"] = true
	} else if c.oneIn(4) {
		device["allowMultipleAllocations"] = false
	}
	capacity := object{}
	for i := range c.between(1, 3) {
		entry := object{"value": pick[any](c, "10", "10Gi", 16, "0", "1500m", "1e3", "-1", "16Ei")}
		if shared && c.oneIn(2) {
			entry = validPolicy(c)
		}
		capacity[pick(c, numbered("memory", i), numbered("example.com/memory", i))] = entry
	}
	return capacity
}

func validPolicy(c chooser) object {
	return pick(c,
		object{"value": "10", "requestPolicy": object{"default": "1"}},
		object{"value": "10", "requestPolicy": object{}},
		object{"value": "10Gi", "requestPolicy": object{"default": "1Gi", "validValues": list{"1Gi", "2Gi", "10Gi"}}},
		object{"value": "10", "requestPolicy": object{"default": "1", "validValues": list{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}},
		object{"value": "10", "requestPolicy": object{"default": "1", "validRange": object{"min": "1"}}},
		object{"value": "10", "requestPolicy": object{"default": "3", "validRange": object{"min": "1", "max": "9", "step": "2"}}},
		object{"value": "1", "requestPolicy": object{"default": "500m", "validRange": object{"min": "100m", "max": "900m", "step": "100m"}}},
		object{"value": "10", "requestPolicy": object{"default": "10", "validRange": object{"min": "0", "max": "10", "step": "10"}}},
	)
}

func validCounters(c chooser, count int) object {
	counters := object{}
	for i := range count {
		counters[numbered("counter-", i)] = object{"value": pick[any](c, "1", "10Gi", 4, "0", "-1")}
	}
	return counters
}

func validCounterSet(c chooser, number int) object {
	return object{"name": numbered("set-", number), "counters": validCounters(c, pick(c, 1, 2, 32))}
}

func validNodeAllocatable(c chooser, device object) object {
	byDevice := object{"mapping": object{"deviceMultiplier": "2"}}
	resource := pick(c, byDevice,
		object{"overhead": object{"perPod": "1"}},
		object{"overhead": object{"perPod": "0", "perContainer": "1Mi"}, "mapping": object{"deviceMultiplier": "500m"}})
	if capacity, ok := device["capacity"].(object); ok && c.oneIn(2) {
		key := sortedKeys(capacity)[0]
		resource = object{"mapping": object{"capacityKey": key, "capacityMultiplier": "1"}}
	}
	return object{pick(c, "cpu", "memory", "hugepages-2Mi"): resource}
}

func validSelector(c chooser, terms int) object {
	return object{"nodeSelectorTerms": repeat(terms, func(int) any {
		expressions := repeat(c.between(0, 2), func(i int) any {
			key := numbered("example.com/label-", i)
			return pick(c,
				object{"key": key, "operator": "In", "values": list{"a", ""}},
				object{"key": key, "operator": "NotIn", "values": list{"A_1"}},
				object{"key": key, "operator": "Exists"},
				object{"key": key, "operator": "DoesNotExist", "values": list{}},
				object{"key": key, "operator": "Gt", "values": list{"5"}},
				object{"key": key, "operator": "Lt", "values": list{"many"}})
		})
		term := object{"matchExpressions": expressions}
		if c.oneIn(2) {
			term["matchFields"] = list{object{"key": "metadata.name", "operator": pick(c, "In", "NotIn"), "values": list{"node-1"}}}
		}
		return term
	})}
}

// Each device that consumes counters gets the attribute that partitionTypeAttribute names.
func addPartitionType(c chooser, spec object) {
	driver := strings.ToLower(spec["driver"].(string))
	spec["driver"] = driver // the name of the attribute wants a domain in lower case
	domain := pick(c, "other.example.com", driver)
	used := false
	for _, item := range spec["devices"].(list) {
		device := item.(object)
		if _, consumes := device["consumesCounters"]; !consumes {
			continue
		}
		used = true
		if device["attributes"] == nil {
			device["attributes"] = object{}
		}
		name := domain + "/profile"
		if domain == driver && c.oneIn(2) {
			name = "profile"
		}
		device["attributes"].(object)[name] = object{"string": "1g.5gb"}
	}
	if used {
		spec["partitionTypeAttribute"] = domain + "/profile"
	}
}
