"""Compares backends/nvidia/nvml.h, which is written down anew, with the nvml.h that NVIDIA ships on PyPI.

Every struct, member, constant and function of ours is compared; one that this file does not know fails the test.
Environment: NVML_H is our header; CXX the compiler; NVIDIA_WHEELS a folder with the wheels (see nvidia_wheels.py).
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import nvidia_wheels

# Ours -> theirs.
STRUCTS = {
    "PciInfo": "nvmlPciInfo_t",
    "Memory": "nvmlMemory_t",
    "MemoryV2": "nvmlMemory_v2_t",
    "AddressingMode": "nvmlDeviceAddressingMode_v1_t",
    "Placement": "nvmlGpuInstancePlacement_t",
    "GpuInstanceProfileInfo": "nvmlGpuInstanceProfileInfo_t",
    "GpuInstanceProfileInfoV2": "nvmlGpuInstanceProfileInfo_v2_t",
    "GpuInstanceProfileInfoV3": "nvmlGpuInstanceProfileInfo_v3_t",
    "GpuInstanceInfo": "nvmlGpuInstanceInfo_t",
    "ComputeInstanceProfileInfo": "nvmlComputeInstanceProfileInfo_t",
    "ComputeInstanceProfileInfoV2": "nvmlComputeInstanceProfileInfo_v2_t",
    "ComputeInstanceProfileInfoV3": "nvmlComputeInstanceProfileInfo_v3_t",
    "ComputeInstanceInfo": "nvmlComputeInstanceInfo_t",
    "DeviceAttributes": "nvmlDeviceAttributes_t",
    "EventData": "nvmlEventData_t",
    "ProcessInfoV1": "nvmlProcessInfo_v1_t",
    "ProcessInfo": "nvmlProcessInfo_t",
    "FieldValue": "nvmlFieldValue_t",
    "FabricInfo": "nvmlGpuFabricInfo_t",
    "FabricInfoV2": "nvmlGpuFabricInfo_v2_t",
    "FabricInfoV3": "nvmlGpuFabricInfo_v3_t",
}
# Of a version of a function that the headers no longer declare.
STRUCTS_WITHOUT_A_PEER = {"EventDataV1"}

MEMBERS = {"pci_subsystem_id": "pciSubSystemId", "memory_size_mb": "memorySizeMB"}

CONSTANTS = {
    "kInitNoGpus": "NVML_INIT_FLAG_NO_GPUS",
    "kInitNoAttach": "NVML_INIT_FLAG_NO_ATTACH",
    "kInitForceInit": "NVML_INIT_FLAG_FORCE_INIT",
    "kUuidBytes": "NVML_DEVICE_UUID_V2_BUFFER_SIZE",
    "kNameBytes": "NVML_DEVICE_NAME_V2_BUFFER_SIZE",
    "kVersionBytes": "NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE",
    "kSerialBytes": "NVML_DEVICE_SERIAL_BUFFER_SIZE",
    "kAddressingModeVersion": "nvmlDeviceAddressingMode_v1",
    "kMemoryV2Version": "nvmlMemory_v2",
    "kGpuInstanceProfileInfoV2Version": "nvmlGpuInstanceProfileInfo_v2",
    "kGpuInstanceProfileInfoV3Version": "nvmlGpuInstanceProfileInfo_v3",
    "kGpuInstanceCanP2p": "NVML_GPU_INSTANCE_PROFILE_CAPS_P2P",
    "kComputeInstanceProfileInfoV2Version": "nvmlComputeInstanceProfileInfo_v2",
    "kComputeInstanceProfileInfoV3Version": "nvmlComputeInstanceProfileInfo_v3",
    "kFabricInfoV2Version": "nvmlGpuFabricInfo_v2",
    "kFabricInfoV3Version": "nvmlGpuFabricInfo_v3",
    "kValueUnsignedInt": "NVML_VALUE_TYPE_UNSIGNED_INT",
    "kFieldGpuRecoveryAction": "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
    "kRecoveryNone": "NVML_GPU_RECOVERY_ACTION_NONE",
    "kRecoveryGpuReset": "NVML_GPU_RECOVERY_ACTION_GPU_RESET",
    "kRecoveryNodeReboot": "NVML_GPU_RECOVERY_ACTION_NODE_REBOOT",
    "kRecoveryDrainP2p": "NVML_GPU_RECOVERY_ACTION_DRAIN_P2P",
    "kRecoveryDrainAndReset": "NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET",
    "kRecoveryImexDomain": "NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN",
    "kRecoveryBusReset": "NVML_GPU_RECOVERY_ACTION_BUS_RESET",
    "kRecoverySystemReboot": "NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT",
    "kEventSingleBitEcc": "nvmlEventTypeSingleBitEccError",
    "kEventDoubleBitEcc": "nvmlEventTypeDoubleBitEccError",
    "kEventPState": "nvmlEventTypePState",
    "kEventXid": "nvmlEventTypeXidCriticalError",
    "kEventClock": "nvmlEventTypeClock",
    "kEventMigConfigChange": "nvmlEventMigConfigChange",
    "kEventNonFatalPoison": "nvmlEventTypeNonFatalPoisonError",
    "kEventFatalPoison": "nvmlEventTypeFatalPoisonError",
    "kEventGpuUnavailable": "nvmlEventTypeGpuUnavailableError",
    "kEventGpuRecoveryAction": "nvmlEventTypeGpuRecoveryAction",
    "kEccCorrected": "NVML_MEMORY_ERROR_TYPE_CORRECTED",
    "kEccUncorrected": "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
    "kEccVolatile": "NVML_VOLATILE_ECC",
    "kEccAggregate": "NVML_AGGREGATE_ECC",
    "kGpuInstanceProfileCount": "NVML_GPU_INSTANCE_PROFILE_COUNT",
    "kComputeInstanceProfileCount": "NVML_COMPUTE_INSTANCE_PROFILE_COUNT",
}
# Values that the headers have in comments only.
CONSTANTS_WITHOUT_A_PEER = {"kNoInstance"}

# Counts that have grown between the two; a caller asks up to its own.
GROWN_SINCE_12 = {"kGpuInstanceProfileCount", "kComputeInstanceProfileCount"}

# Takes a pointer to a struct of several versions: ours is the smallest of them.
POINTEE_DIFFERS = {"nvmlDeviceGetGpuFabricInfoV"}

COMPARE = r"""
#include <cstddef>
#include <type_traits>
template <typename T, typename = void> struct Size { static constexpr size_t value = 0; };
template <typename T> struct Size<T, std::void_t<decltype(sizeof(T))>> { static constexpr size_t value = sizeof(T); };
template <> struct Size<void> { static constexpr size_t value = 0; };
template <bool kPointees, typename A, typename B> constexpr bool SameParameter() {
  if (sizeof(A) != sizeof(B) || std::is_pointer_v<A> != std::is_pointer_v<B>) return false;
  if constexpr (kPointees && std::is_pointer_v<A>) {
    using X = std::remove_pointer_t<A>;
    using Y = std::remove_pointer_t<B>;
    return std::is_const_v<X> == std::is_const_v<Y> && Size<X>::value == Size<Y>::value;
  }
  return true;
}
template <bool kPointees, typename R, typename... A, typename S, typename... B>
constexpr bool SameShape(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) return false;
  else return sizeof(R) == sizeof(S) && (SameParameter<kPointees, A, B>() && ...);
}
"""


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def camel(name):
    first, *rest = name.split("_")
    return MEMBERS.get(name, first + "".join(word.capitalize() for word in rest))


class Ours:
    """What our header declares, by its own text."""

    def __init__(self, text):
        text = without_comments(text)
        functions = text[text.index("#define DRA_NVML_FUNCTIONS"):].replace("\\\n", " ")
        text = text[:text.index("#define DRA_NVML_FUNCTIONS")]
        self.structs = {}
        for name, body in re.findall(r"struct (\w+) \{(.*?)\};", text, flags=re.S):
            members = []
            for declaration in body.split(";"):
                words = declaration.split(None, 1)
                if not words:
                    continue
                kind, rest = words
                if kind == "unsigned" and rest.split()[0] == "char":
                    rest = rest.split(None, 1)[1]
                members += [re.sub(r"\[.*?\]", "", member).strip() for member in rest.split(",")]
            self.structs[name] = members
        returns = re.search(r"enum Return[^{]*\{(.*?)\};", text, flags=re.S).group(1)
        self.returns = re.findall(r"(k\w+) = \d+", returns)
        self.constants = []
        for declaration in re.findall(r"inline constexpr [\w:]+ (.*?);", text, flags=re.S):
            self.constants += re.findall(r"(k\w+)\s*=", declaration)
        self.functions = re.findall(r"DRA_NVML_FUNCTION\(\s*(\w+),", functions)


def checks(ours, theirs, grown, skipped):
    """C++ that compiles where everything is the same, and the constants `grown` at least as large.

    What the header `theirs` (its text) has not goes to skipped.
    """
    lines = []

    def has(name):
        if re.search(rf"\b{name}\b", theirs):
            return True
        skipped.add(name)
        return False

    for name, members in ours.structs.items():
        if name in STRUCTS_WITHOUT_A_PEER:
            continue
        peer = STRUCTS[name]
        if not has(peer):
            continue
        lines.append(f'static_assert(sizeof(nvml::{name}) == sizeof({peer}), "size of {name}");')
        for member in members:
            their = camel(member)
            lines.append(f'static_assert(offsetof(nvml::{name}, {member}) == offsetof({peer}, {their}), '
                         f'"offset of {name}.{member}");')
            lines.append(f'static_assert(sizeof(nvml::{name}::{member}) == sizeof((({peer}*)0)->{their}), '
                         f'"size of {name}.{member}");')
    for name in ours.returns:
        peer = "NVML_SUCCESS" if name == "kSuccess" else "NVML_ERROR" + re.sub(r"([A-Z])", r"_\1", name[1:]).upper()
        if has(peer):
            lines.append(f'static_assert(int(nvml::{name}) == int({peer}), "{name}");')
    for name in ours.constants:
        if name in CONSTANTS_WITHOUT_A_PEER:
            continue
        peer = CONSTANTS[name]
        relation = ">=" if name in grown else "=="
        if has(peer):
            lines.append(f'static_assert((unsigned long long)(nvml::{name}) {relation} (unsigned long long)({peer}), '
                         f'"{name}");')
    for name in ours.functions:
        if has(name):
            pointees = "false" if name in POINTEE_DIFFERS else "true"
            lines.append(f'static_assert(SameShape<{pointees}>(ours::{name}, &::{name}), "parameters of {name}");')
    return lines


class NvmlHeader(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.path = pathlib.Path(os.environ["NVML_H"])
        self.ours = Ours(self.path.read_text())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def header(self, package):
        nvidia_wheels.unpack(package, self.folder / package)
        (header,) = (self.folder / package).rglob("nvml.h")
        return header

    def compile(self, header, lines):
        source = self.folder / "check.cc"
        source.write_text(
            f'#include "{self.path}"\n#include "{header}"\n{COMPARE}\n'
            "namespace ours {\n"
            "#define DECLARE(symbol, parameters) constexpr nvml::Return(*symbol) parameters = nullptr;\n"
            "DRA_NVML_FUNCTIONS(DECLARE)\n}\n" + "\n".join(lines) + "\n")
        return subprocess.run(
            [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-Wno-deprecated-declarations", str(source)],
            capture_output=True, text=True, timeout=300, check=False)

    def compare(self, package, grown=()):
        header = self.header(package)
        skipped = set()
        lines = checks(self.ours, without_comments(header.read_text()), grown, skipped)
        result = self.compile(header, lines)
        wrong = [line for line in result.stderr.splitlines() if "error" in line]
        self.assertEqual(wrong, [])
        self.assertEqual(result.returncode, 0, result.stderr)
        return len(lines), skipped

    def test_knows_all_of_our_header(self):
        self.assertGreater(len(self.ours.functions), 40)
        self.assertEqual(set(self.ours.structs), set(STRUCTS) | STRUCTS_WITHOUT_A_PEER)
        self.assertEqual(set(self.ours.constants), set(CONSTANTS) | CONSTANTS_WITHOUT_A_PEER)

    def test_is_the_same_as_api_13(self):
        compared, skipped = self.compare("header-13")
        self.assertGreater(compared, 250)
        self.assertEqual(skipped, set(), "not in NVIDIA's header")

    def test_is_the_same_as_api_12_as_far_as_that_goes(self):
        compared, skipped = self.compare("header-12", GROWN_SINCE_12)
        self.assertGreater(compared, 240)
        print("not in API 12:", ", ".join(sorted(skipped)))

    def test_finds_a_difference(self):
        header = self.header("header-13")
        for wrong in ("sizeof(nvml::Memory) == sizeof(nvmlMemory_v2_t)",
                      "offsetof(nvml::Memory, free) == offsetof(nvmlMemory_t, used)",
                      "int(nvml::kGpuIsLost) == int(NVML_ERROR_RESET_REQUIRED)",
                      "SameShape<true>(ours::nvmlDeviceGetMemoryInfo, &::nvmlDeviceGetMemoryInfo_v2)",
                      "SameShape<true>(ours::nvmlDeviceGetUUID, &::nvmlDeviceGetIndex)"):
            with self.subTest(wrong):
                self.assertNotEqual(self.compile(header, [f"static_assert({wrong});"]).returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
