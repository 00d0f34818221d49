#pragma once

#include <cstddef>
#include <cstdint>

// NVML as this backend speaks it: the numbers and layouts of NVIDIA's public nvml.h (API 12 and 13, LP64), written down
// anew. test/backends/nvidia/nvml_header_test compares every one of them with the header that the PyPI package
// nvidia-nvml-dev ships. Names are NVML's own without their prefix.
namespace nvml {

enum Return : int32_t {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kAlreadyInitialized = 5,
  kNotFound = 6,
  kInsufficientSize = 7,
  kInsufficientPower = 8,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kIrqIssue = 11,
  kLibraryNotFound = 12,
  kFunctionNotFound = 13,
  kCorruptedInforom = 14,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kOperatingSystem = 17,
  kLibRmVersionMismatch = 18,
  kInUse = 19,
  kMemory = 20,
  kNoData = 21,
  kVgpuEccNotSupported = 22,
  kInsufficientResources = 23,
  kFreqNotSupported = 24,
  kArgumentVersionMismatch = 25,
  kDeprecated = 26,
  kNotReady = 27,
  kGpuNotFound = 28,
  kInvalidState = 29,
  kResetTypeNotSupported = 30,
  kUnknown = 999,
};

struct DeviceHandle;  // opaque
using Device = DeviceHandle*;
struct GpuInstanceHandle;
using GpuInstance = GpuInstanceHandle*;
struct ComputeInstanceHandle;
using ComputeInstance = ComputeInstanceHandle*;
struct EventSetHandle;
using EventSet = EventSetHandle*;

inline constexpr unsigned kInitNoGpus = 1;  // a lost GPU does not fail the init
inline constexpr unsigned kInitNoAttach = 2, kInitForceInit = 4;
inline constexpr size_t kUuidBytes = 96, kNameBytes = 96, kVersionBytes = 80, kSerialBytes = 30;

// A struct's version word.
template <typename T>
constexpr unsigned VersionOf(unsigned version) {
  return static_cast<unsigned>(sizeof(T)) | (version << 24);
}

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];  // "00000000:65:00.0"
};
static_assert(sizeof(PciInfo) == 68);

struct Memory {
  uint64_t total, free, used;  // bytes
};
static_assert(sizeof(Memory) == 24);

struct MemoryV2 {
  unsigned version;
  uint64_t total, reserved, free, used;  // bytes
};
static_assert(sizeof(MemoryV2) == 40);
inline constexpr unsigned kMemoryV2Version = VersionOf<MemoryV2>(2);

struct AddressingMode {
  unsigned version, value;
};
static_assert(sizeof(AddressingMode) == 8);
inline constexpr unsigned kAddressingModeVersion = VersionOf<AddressingMode>(1);

struct Placement {
  unsigned start, size;  // memory slices
};

struct GpuInstanceProfileInfo {
  unsigned id, is_p2p_supported, slice_count, instance_count, multiprocessor_count,
      copy_engine_count, decoder_count, encoder_count, jpeg_count, ofa_count;
  uint64_t memory_size_mb;  // MiB
};
static_assert(sizeof(GpuInstanceProfileInfo) == 48);

struct GpuInstanceProfileInfoV2 {
  unsigned version;
  unsigned id, is_p2p_supported, slice_count, instance_count, multiprocessor_count,
      copy_engine_count, decoder_count, encoder_count, jpeg_count, ofa_count;
  uint64_t memory_size_mb;
  char name[96];
};
static_assert(sizeof(GpuInstanceProfileInfoV2) == 152);
inline constexpr unsigned kGpuInstanceProfileInfoV2Version = VersionOf<GpuInstanceProfileInfoV2>(2);

struct GpuInstanceProfileInfoV3 {
  unsigned version;
  unsigned id, slice_count, instance_count, multiprocessor_count, copy_engine_count, decoder_count,
      encoder_count, jpeg_count, ofa_count;
  uint64_t memory_size_mb;
  char name[96];
  unsigned capabilities;
};
static_assert(sizeof(GpuInstanceProfileInfoV3) == 152);
inline constexpr unsigned kGpuInstanceProfileInfoV3Version = VersionOf<GpuInstanceProfileInfoV3>(3);
inline constexpr unsigned kGpuInstanceCanP2p = 1;  // a capability

struct GpuInstanceInfo {
  Device device;
  unsigned id, profile_id;
  Placement placement;
};
static_assert(sizeof(GpuInstanceInfo) == 24);

struct ComputeInstanceProfileInfo {
  unsigned id, slice_count, instance_count, multiprocessor_count, shared_copy_engine_count,
      shared_decoder_count, shared_encoder_count, shared_jpeg_count, shared_ofa_count;
};
static_assert(sizeof(ComputeInstanceProfileInfo) == 36);

struct ComputeInstanceProfileInfoV2 {
  unsigned version;
  unsigned id, slice_count, instance_count, multiprocessor_count, shared_copy_engine_count,
      shared_decoder_count, shared_encoder_count, shared_jpeg_count, shared_ofa_count;
  char name[96];
};
static_assert(sizeof(ComputeInstanceProfileInfoV2) == 136);
inline constexpr unsigned kComputeInstanceProfileInfoV2Version =
    VersionOf<ComputeInstanceProfileInfoV2>(2);

struct ComputeInstanceProfileInfoV3 {
  unsigned version;
  unsigned id, slice_count, instance_count, multiprocessor_count, shared_copy_engine_count,
      shared_decoder_count, shared_encoder_count, shared_jpeg_count, shared_ofa_count;
  char name[96];
  unsigned capabilities;
};
static_assert(sizeof(ComputeInstanceProfileInfoV3) == 140);
inline constexpr unsigned kComputeInstanceProfileInfoV3Version =
    VersionOf<ComputeInstanceProfileInfoV3>(3);

struct ComputeInstanceInfo {
  Device device;  // the MIG device
  GpuInstance gpu_instance;
  unsigned id, profile_id;
  Placement placement;
};
static_assert(sizeof(ComputeInstanceInfo) == 32);

struct DeviceAttributes {
  unsigned multiprocessor_count, shared_copy_engine_count, shared_decoder_count,
      shared_encoder_count, shared_jpeg_count, shared_ofa_count, gpu_instance_slice_count,
      compute_instance_slice_count;
  uint64_t memory_size_mb;
};
static_assert(sizeof(DeviceAttributes) == 40);

struct EventData {
  Device device;
  uint64_t event_type, event_data;                // of an XID event: the XID
  unsigned gpu_instance_id, compute_instance_id;  // kNoInstance where not of a MIG device
};
static_assert(sizeof(EventData) == 32);
inline constexpr unsigned kNoInstance = 0xFFFFFFFFu;

// What nvmlEventSetWait, without a version, fills.
struct EventDataV1 {
  Device device;
  uint64_t event_type, event_data;
};

struct ProcessInfoV1 {
  unsigned pid;
  uint64_t used_gpu_memory;  // bytes
};
static_assert(sizeof(ProcessInfoV1) == 16);

struct ProcessInfo {
  unsigned pid;
  uint64_t used_gpu_memory;                       // bytes
  unsigned gpu_instance_id, compute_instance_id;  // kNoInstance where not of a MIG device
};
static_assert(sizeof(ProcessInfo) == 24);

struct FabricInfo {
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;
};
static_assert(sizeof(FabricInfo) == 28);

struct FabricInfoV2 {
  unsigned version;
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;  // 0 not supported, 1 not started, 2 in progress, 3 completed
  unsigned health_mask;
};
static_assert(sizeof(FabricInfoV2) == 36);
inline constexpr unsigned kFabricInfoV2Version = VersionOf<FabricInfoV2>(2);

struct FabricInfoV3 {
  unsigned version;
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
  unsigned char health_summary;  // 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity
};
static_assert(sizeof(FabricInfoV3) == 40);
inline constexpr unsigned kFabricInfoV3Version = VersionOf<FabricInfoV3>(3);

// What nvmlDeviceGetFieldValues is asked and answers. `field_id` is the caller's, `nvml_return` that of this field alone.
struct FieldValue {
  unsigned field_id, scope_id;
  int64_t timestamp, latency_usec;
  unsigned value_type;
  Return nvml_return;
  uint64_t value;  // the bytes of a union: of an unsigned int the first four
};
static_assert(sizeof(FieldValue) == 40);
inline constexpr unsigned kValueUnsignedInt = 1;  // a value_type
inline constexpr unsigned kFieldGpuRecoveryAction = 230;
// What the field answers. The last three are of API 13.
inline constexpr unsigned kRecoveryNone = 0, kRecoveryGpuReset = 1, kRecoveryNodeReboot = 2,
                          kRecoveryDrainP2p = 3, kRecoveryDrainAndReset = 4,
                          kRecoveryImexDomain = 5, kRecoveryBusReset = 6, kRecoverySystemReboot = 7;

inline constexpr uint64_t kEventSingleBitEcc = 0x1, kEventDoubleBitEcc = 0x2, kEventPState = 0x4,
                          kEventXid = 0x8, kEventClock = 0x10, kEventMigConfigChange = 0x100,
                          kEventNonFatalPoison = 0x1000, kEventFatalPoison = 0x2000,
                          kEventGpuUnavailable = 0x4000, kEventGpuRecoveryAction = 0x8000;

// Memory error types and counters of nvmlDeviceGetTotalEccErrors.
inline constexpr unsigned kEccCorrected = 0, kEccUncorrected = 1;
inline constexpr unsigned kEccVolatile = 0, kEccAggregate = 1;

// The GPU instance profiles: index into nvmlDeviceGetGpuInstanceProfileInfo, not GpuInstanceProfileInfo::id.
inline constexpr unsigned kGpuInstanceProfileCount = 0x12;
inline constexpr unsigned kComputeInstanceProfileCount = 0x9;

}  // namespace nvml

// Every function that the backend calls and the simulator exports: DRA_NVML_FUNCTION(symbol, parameters). All return
// nvml::Return, but nvmlErrorString.
#define DRA_NVML_FUNCTIONS(DRA_NVML_FUNCTION)                                                      \
  DRA_NVML_FUNCTION(nvmlInitWithFlags, (unsigned flags))                                           \
  DRA_NVML_FUNCTION(nvmlShutdown, ())                                                              \
  DRA_NVML_FUNCTION(nvmlSystemGetDriverVersion, (char* version, unsigned length))                  \
  DRA_NVML_FUNCTION(nvmlSystemGetNVMLVersion, (char* version, unsigned length))                    \
  DRA_NVML_FUNCTION(nvmlSystemGetCudaDriverVersion_v2, (int* version))                             \
  DRA_NVML_FUNCTION(nvmlDeviceGetCount_v2, (unsigned* count))                                      \
  DRA_NVML_FUNCTION(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvml::Device* device))         \
  DRA_NVML_FUNCTION(nvmlDeviceGetHandleByUUID, (const char* uuid, nvml::Device* device))           \
  DRA_NVML_FUNCTION(nvmlDeviceGetHandleByPciBusId_v2, (const char* bus_id, nvml::Device* device))  \
  DRA_NVML_FUNCTION(nvmlDeviceGetIndex, (nvml::Device device, unsigned* index))                    \
  DRA_NVML_FUNCTION(nvmlDeviceGetMinorNumber, (nvml::Device device, unsigned* minor))              \
  DRA_NVML_FUNCTION(nvmlDeviceGetUUID, (nvml::Device device, char* uuid, unsigned length))         \
  DRA_NVML_FUNCTION(nvmlDeviceGetName, (nvml::Device device, char* name, unsigned length))         \
  DRA_NVML_FUNCTION(nvmlDeviceGetSerial, (nvml::Device device, char* serial, unsigned length))     \
  DRA_NVML_FUNCTION(nvmlDeviceGetPciInfo_v3, (nvml::Device device, nvml::PciInfo * pci))           \
  DRA_NVML_FUNCTION(nvmlDeviceGetMemoryInfo, (nvml::Device device, nvml::Memory * memory))         \
  DRA_NVML_FUNCTION(nvmlDeviceGetCudaComputeCapability,                                            \
                    (nvml::Device device, int* major, int* minor))                                 \
  DRA_NVML_FUNCTION(nvmlDeviceGetArchitecture, (nvml::Device device, unsigned* architecture))      \
  DRA_NVML_FUNCTION(nvmlDeviceGetBrand, (nvml::Device device, unsigned* brand))                    \
  DRA_NVML_FUNCTION(nvmlDeviceGetAddressingMode,                                                   \
                    (nvml::Device device, nvml::AddressingMode * mode))                            \
  DRA_NVML_FUNCTION(nvmlDeviceGetVirtualizationMode, (nvml::Device device, unsigned* mode))        \
  DRA_NVML_FUNCTION(nvmlDeviceGetMigMode,                                                          \
                    (nvml::Device device, unsigned* current, unsigned* pending))                   \
  DRA_NVML_FUNCTION(nvmlDeviceSetMigMode,                                                          \
                    (nvml::Device device, unsigned mode, nvml::Return* activation))                \
  DRA_NVML_FUNCTION(nvmlDeviceGetMaxMigDeviceCount, (nvml::Device device, unsigned* count))        \
  DRA_NVML_FUNCTION(nvmlDeviceGetMigDeviceHandleByIndex,                                           \
                    (nvml::Device device, unsigned index, nvml::Device* mig))                      \
  DRA_NVML_FUNCTION(nvmlDeviceIsMigDeviceHandle, (nvml::Device device, unsigned* is_mig))          \
  DRA_NVML_FUNCTION(nvmlDeviceGetGpuInstanceId, (nvml::Device mig, unsigned* id))                  \
  DRA_NVML_FUNCTION(nvmlDeviceGetComputeInstanceId, (nvml::Device mig, unsigned* id))              \
  DRA_NVML_FUNCTION(nvmlDeviceGetDeviceHandleFromMigDeviceHandle,                                  \
                    (nvml::Device mig, nvml::Device * parent))                                     \
  DRA_NVML_FUNCTION(nvmlDeviceGetAttributes_v2,                                                    \
                    (nvml::Device mig, nvml::DeviceAttributes * attributes))                       \
  DRA_NVML_FUNCTION(nvmlDeviceGetGpuInstanceProfileInfo,                                           \
                    (nvml::Device device, unsigned profile, nvml::GpuInstanceProfileInfo* info))   \
  DRA_NVML_FUNCTION(nvmlDeviceGetGpuInstanceProfileInfoV,                                          \
                    (nvml::Device device, unsigned profile, nvml::GpuInstanceProfileInfoV2* info)) \
  DRA_NVML_FUNCTION(                                                                               \
      nvmlDeviceGetGpuInstancePossiblePlacements_v2,                                               \
      (nvml::Device device, unsigned profile_id, nvml::Placement* placements, unsigned* count))    \
  DRA_NVML_FUNCTION(nvmlDeviceGetGpuInstanceRemainingCapacity,                                     \
                    (nvml::Device device, unsigned profile_id, unsigned* count))                   \
  DRA_NVML_FUNCTION(nvmlDeviceCreateGpuInstance,                                                   \
                    (nvml::Device device, unsigned profile_id, nvml::GpuInstance* instance))       \
  DRA_NVML_FUNCTION(nvmlDeviceCreateGpuInstanceWithPlacement,                                      \
                    (nvml::Device device, unsigned profile_id, const nvml::Placement* placement,   \
                     nvml::GpuInstance* instance))                                                 \
  DRA_NVML_FUNCTION(nvmlDeviceGetGpuInstances, (nvml::Device device, unsigned profile_id,          \
                                                nvml::GpuInstance* instances, unsigned* count))    \
  DRA_NVML_FUNCTION(nvmlDeviceGetGpuInstanceById,                                                  \
                    (nvml::Device device, unsigned id, nvml::GpuInstance* instance))               \
  DRA_NVML_FUNCTION(nvmlGpuInstanceGetInfo,                                                        \
                    (nvml::GpuInstance instance, nvml::GpuInstanceInfo * info))                    \
  DRA_NVML_FUNCTION(nvmlGpuInstanceDestroy, (nvml::GpuInstance instance))                          \
  DRA_NVML_FUNCTION(nvmlGpuInstanceGetComputeInstanceProfileInfo,                                  \
                    (nvml::GpuInstance instance, unsigned profile, unsigned engine_profile,        \
                     nvml::ComputeInstanceProfileInfo* info))                                      \
  DRA_NVML_FUNCTION(                                                                               \
      nvmlGpuInstanceCreateComputeInstance,                                                        \
      (nvml::GpuInstance instance, unsigned profile_id, nvml::ComputeInstance* compute_instance))  \
  DRA_NVML_FUNCTION(nvmlGpuInstanceGetComputeInstances,                                            \
                    (nvml::GpuInstance instance, unsigned profile_id,                              \
                     nvml::ComputeInstance* instances, unsigned* count))                           \
  DRA_NVML_FUNCTION(                                                                               \
      nvmlGpuInstanceGetComputeInstanceById,                                                       \
      (nvml::GpuInstance instance, unsigned id, nvml::ComputeInstance* compute_instance))          \
  DRA_NVML_FUNCTION(nvmlComputeInstanceGetInfo_v2,                                                 \
                    (nvml::ComputeInstance instance, nvml::ComputeInstanceInfo * info))            \
  DRA_NVML_FUNCTION(nvmlComputeInstanceDestroy, (nvml::ComputeInstance instance))                  \
  DRA_NVML_FUNCTION(nvmlEventSetCreate, (nvml::EventSet * set))                                    \
  DRA_NVML_FUNCTION(nvmlEventSetFree, (nvml::EventSet set))                                        \
  DRA_NVML_FUNCTION(nvmlDeviceGetSupportedEventTypes,                                              \
                    (nvml::Device device, unsigned long long* types))                              \
  DRA_NVML_FUNCTION(nvmlDeviceRegisterEvents,                                                      \
                    (nvml::Device device, unsigned long long types, nvml::EventSet set))           \
  DRA_NVML_FUNCTION(nvmlEventSetWait_v2,                                                           \
                    (nvml::EventSet set, nvml::EventData * data, unsigned timeout_ms))             \
  DRA_NVML_FUNCTION(nvmlDeviceGetGpuFabricInfoV, (nvml::Device device, nvml::FabricInfoV2 * info)) \
  DRA_NVML_FUNCTION(nvmlDeviceGetRemappedRows,                                                     \
                    (nvml::Device device, unsigned* corrected, unsigned* uncorrected,              \
                     unsigned* pending, unsigned* failed))                                         \
  DRA_NVML_FUNCTION(nvmlDeviceGetRetiredPagesPendingStatus,                                        \
                    (nvml::Device device, unsigned* pending))                                      \
  DRA_NVML_FUNCTION(nvmlDeviceGetTotalEccErrors, (nvml::Device device, unsigned type,              \
                                                  unsigned counter, unsigned long long* count))    \
  DRA_NVML_FUNCTION(nvmlDeviceGetFieldValues,                                                      \
                    (nvml::Device device, int count, nvml::FieldValue* values))                    \
  DRA_NVML_FUNCTION(nvmlDeviceGetEccMode,                                                          \
                    (nvml::Device device, unsigned* current, unsigned* pending))                   \
  DRA_NVML_FUNCTION(nvmlDeviceGetPersistenceMode, (nvml::Device device, unsigned* mode))           \
  DRA_NVML_FUNCTION(nvmlDeviceSetPersistenceMode, (nvml::Device device, unsigned mode))            \
  DRA_NVML_FUNCTION(nvmlDeviceGetComputeMode, (nvml::Device device, unsigned* mode))               \
  DRA_NVML_FUNCTION(nvmlDeviceSetComputeMode, (nvml::Device device, unsigned mode))
