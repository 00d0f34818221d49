#pragma once

#include <cstddef>

namespace dra::resource {

// Limits of resource.k8s.io/v1 as the API server of Kubernetes 1.35 and later enforces them.
// Source of each: kubernetes/api:resource/v1/types.go unless the line says otherwise.

// Slices and pools.
inline constexpr size_t kMaxDevicesPerSlice = 128;  // ResourceSliceMaxDevices
inline constexpr size_t kMaxDevicesPerSliceWithTaints =
    64;  // ...WithTaintsOrConsumesCounters; also list attributes
inline constexpr size_t kMaxCounterSetsPerSlice = 8;     // ResourceSliceMaxCounterSets
inline constexpr size_t kMaxCountersPerSet = 32;         // ResourceSliceMaxCountersPerCounterSet
inline constexpr size_t kMaxPoolNameBytes = 253;         // PoolNameMaxLength
inline constexpr size_t kMaxDriverNameBytes = 63;        // DriverNameMaxLength
inline constexpr size_t kNodeSelectorTermsPerSlice = 1;  // exactly; pkg/apis/resource/validation

// Devices.
inline constexpr size_t kMaxAttributesAndCapacities =
    32;  // ResourceSliceMaxAttributesAndCapacitiesPerDevice
inline constexpr size_t kMaxAttributeValues = 48;  // from 1.36: each list item counts
inline constexpr size_t kMaxAttributeValueBytes =
    64;  // DeviceAttributeMaxValueLength; string and version
inline constexpr size_t kMaxIdentifierBytes = 32;  // DeviceMaxIDLength
inline constexpr size_t kMaxDomainBytes = 63;      // DeviceMaxDomainLength
inline constexpr size_t kMaxTaintsPerDevice = 16;  // DeviceTaintsMaxLength, 1.35 (1.34: 4)
inline constexpr size_t kMaxCounterConsumptionsPerDevice =
    2;  // ResourceSliceMaxDeviceCounterConsumptions
inline constexpr size_t kMaxCountersPerConsumption =
    32;  // ResourceSliceMaxCountersPerDeviceCounterConsumption
inline constexpr size_t kMaxCompatibilityGroups = 2;       // KEP-5963, 1.37
inline constexpr size_t kMaxBindingConditions = 4;         // BindingConditionsMaxSize
inline constexpr size_t kMaxBindingFailureConditions = 4;  // BindingFailureConditionsMaxSize
inline constexpr size_t kMaxValidValues = 10;  // CapacityRequestPolicyDiscreteMaxOptions

// Claims and classes.
inline constexpr size_t kMaxRequestsPerClaim = 32;          // DeviceRequestsMaxSize
inline constexpr size_t kMaxConstraintsPerClaim = 32;       // DeviceConstraintsMaxSize
inline constexpr size_t kMaxConfigsPerClaim = 32;           // DeviceConfigMaxSize
inline constexpr size_t kMaxSelectorsPerRequest = 32;       // DeviceSelectorsMaxSize
inline constexpr size_t kMaxFirstAvailable = 8;             // FirstAvailableDeviceRequestMaxSize
inline constexpr size_t kMaxTolerationsPerRequest = 16;     // DeviceTolerationsMaxLength
inline constexpr size_t kMaxAllocationResults = 32;         // AllocationResultsMaxSize
inline constexpr size_t kMaxAllocationConfigs = 64;         // class and claim configs together
inline constexpr size_t kMaxReservedFor = 256;              // ResourceClaimReservedForMaxSize
inline constexpr size_t kMaxOpaqueParametersBytes = 10240;  // OpaqueParametersMaxLength
inline constexpr size_t kMaxCelExpressionBytes = 10240;     // CELSelectorExpressionMaxLength
inline constexpr size_t kMaxCelCost = 1000000;              // CELSelectorExpressionMaxCost

// status.devices of a claim.
inline constexpr size_t kMaxDeviceConditions = 8;           // AllocatedDeviceStatusMaxConditions
inline constexpr size_t kMaxDeviceStatusDataBytes = 10240;  // AllocatedDeviceStatusDataMaxLength
inline constexpr size_t kMaxNetworkIps = 16;                // NetworkDeviceDataMaxIPs
inline constexpr size_t kMaxInterfaceNameBytes = 256;  // NetworkDeviceDataInterfaceNameMaxLength
inline constexpr size_t kMaxHardwareAddressBytes =
    128;                                               // NetworkDeviceDataHardwareAddressMaxLength
inline constexpr size_t kMaxConditionTypeBytes = 316;  // apimachinery meta/v1 Condition
inline constexpr size_t kMaxConditionReasonBytes = 1024;    // apimachinery meta/v1 Condition
inline constexpr size_t kMaxConditionMessageBytes = 32768;  // apimachinery meta/v1 Condition

// Names.
inline constexpr size_t kMaxDnsLabelBytes = 63;       // RFC 1123
inline constexpr size_t kMaxDnsSubdomainBytes = 253;  // RFC 1123
inline constexpr size_t kMaxLabelNameBytes = 63;      // the part after '/'
inline constexpr size_t kMaxLabelValueBytes = 63;

}  // namespace dra::resource
