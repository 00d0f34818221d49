"""Drives the simulated libnvidia-ml.so.1 with NVIDIA's own Python binding (nvidia-ml-py), unmodified.

Environment: NVIDIA_SIMULATED_NVML is the library; NVIDIA_WHEELS a folder with the wheels (see nvidia_wheels.py).
"""
import ctypes
import fcntl
import importlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import unittest

import nvidia_wheels

PROFILES = [
    {"enum": 0, "id": 19, "name": "1g.10gb", "slices": 1, "instances": 7, "memoryMiB": 9984, "multiprocessors": 16,
     "copyEngines": 1, "decoders": 1, "placements": [{"start": start, "size": 1} for start in range(7)]},
    {"enum": 2, "id": 9, "name": "3g.40gb", "slices": 3, "instances": 2, "memoryMiB": 40448, "multiprocessors": 60,
     "copyEngines": 3, "decoders": 3, "placements": [{"start": 0, "size": 4}, {"start": 4, "size": 4}]},
]


def card(index):
    return {
        "uuid": f"GPU-00000000-0000-5000-8000-00000000000{index}", "minor": index, "name": "NVIDIA H100 80GB HBM3",
        "serial": "1650000000000", "brand": 14, "architecture": 9, "computeCapability": "9.0",
        "memoryBytes": 80 << 30, "memoryReservedBytes": 1 << 30, "memoryUsedBytes": 2 << 30,
        "pci": {"bus_id": f"00000000:1{index}:00.0", "device_id": "0x233010de"},
        "migCapable": True, "migProfiles": PROFILES, "processes": [{"pid": 41, "usedBytes": 1024}] if index else [],
    }


class Pynvml(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        nvidia_wheels.unpack("binding", folder.name)
        cls.state_path = pathlib.Path(folder.name) / "state.json"
        os.environ["NVIDIA_SIMULATOR_STATE"] = str(cls.state_path)
        # The binding opens "libnvidia-ml.so.1": the library of that soname that is loaded already.
        ctypes.CDLL(os.environ["NVIDIA_SIMULATED_NVML"])
        sys.path.insert(0, folder.name)
        cls.nvml = importlib.import_module("pynvml")

    def setUp(self):
        self.write({"driver": {"version": "580.126.20", "cuda": "13.0"}, "gpus": [card(0), card(1)]})
        self.nvml.nvmlInit()
        self.addCleanup(self.nvml.nvmlShutdown)

    def write(self, state):
        """In place and under a lock, as the tool does."""
        with open(self.state_path, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(json.dumps(state))

    def change(self, change):
        state = json.loads(self.state_path.read_text())
        change(state)
        self.write(state)

    def raises(self, name):
        return self.assertRaises(getattr(self.nvml, "NVMLError_" + name))

    def test_shows_the_system(self):
        self.assertEqual(self.nvml.nvmlSystemGetDriverVersion(), "580.126.20")
        self.assertEqual(self.nvml.nvmlSystemGetNVMLVersion(), "13.580.126.20")
        self.assertEqual(self.nvml.nvmlSystemGetCudaDriverVersion(), 13000)
        self.assertEqual(self.nvml.nvmlSystemGetCudaDriverVersion_v2(), 13000)

    def test_shows_the_cards(self):
        self.assertEqual(self.nvml.nvmlDeviceGetCount(), 2)
        for index in range(2):
            device = self.nvml.nvmlDeviceGetHandleByIndex(index)
            self.assertEqual(self.nvml.nvmlDeviceGetUUID(device), card(index)["uuid"])
            self.assertEqual(self.nvml.nvmlDeviceGetName(device), "NVIDIA H100 80GB HBM3")
            self.assertEqual(self.nvml.nvmlDeviceGetIndex(device), index)
            self.assertEqual(self.nvml.nvmlDeviceGetMinorNumber(device), index)
            self.assertEqual(self.nvml.nvmlDeviceGetSerial(device), "1650000000000")
            self.assertEqual(self.nvml.nvmlDeviceGetBrand(device), self.nvml.NVML_BRAND_NVIDIA)
            self.assertEqual(self.nvml.nvmlDeviceGetArchitecture(device), self.nvml.NVML_DEVICE_ARCH_HOPPER)
            self.assertEqual(self.nvml.nvmlDeviceGetCudaComputeCapability(device), (9, 0))
            pci = self.nvml.nvmlDeviceGetPciInfo(device)
            self.assertEqual(pci.busId, f"00000000:1{index}:00.0")
            self.assertEqual(pci.bus, 0x10 + index)
            self.assertEqual(pci.pciDeviceId, 0x233010DE)

    def test_shows_memory_in_both_versions(self):
        device = self.nvml.nvmlDeviceGetHandleByIndex(0)
        first = self.nvml.nvmlDeviceGetMemoryInfo(device)
        self.assertEqual((first.total, first.used, first.free), (80 << 30, 3 << 30, 77 << 30))
        second = self.nvml.nvmlDeviceGetMemoryInfo(device, version=self.nvml.nvmlMemory_v2)
        self.assertEqual((second.total, second.reserved, second.used, second.free),
                         (80 << 30, 1 << 30, 2 << 30, 77 << 30))

    def test_finds_cards_and_refuses_others(self):
        uuid = card(1)["uuid"]
        self.assertEqual(self.nvml.nvmlDeviceGetIndex(self.nvml.nvmlDeviceGetHandleByUUID(uuid)), 1)
        self.assertEqual(self.nvml.nvmlDeviceGetIndex(self.nvml.nvmlDeviceGetHandleByPciBusId("0000:11:00.0")), 1)
        with self.raises("NotFound"):
            self.nvml.nvmlDeviceGetHandleByUUID("GPU-none")
        with self.raises("InvalidArgument"):
            self.nvml.nvmlDeviceGetHandleByIndex(2)

    def test_shows_modes_errors_and_fabric(self):
        device = self.nvml.nvmlDeviceGetHandleByIndex(0)
        self.change(lambda state: state["gpus"][0].update(
            ecc={"volatileUncorrected": 5}, remappedRows={"pending": True, "uncorrected": 1},
            fabric={"state": 3, "cliqueId": 4, "healthMask": 2}))
        self.assertEqual(self.nvml.nvmlDeviceGetTotalEccErrors(device, 1, 0), 5)
        self.assertEqual(self.nvml.nvmlDeviceGetRemappedRows(device), (0, 1, 1, 0))
        self.assertEqual(self.nvml.nvmlDeviceGetEccMode(device), [1, 1])
        (field,) = self.nvml.nvmlDeviceGetFieldValues(device, [self.nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        self.assertEqual(field.nvmlReturn, self.nvml.NVML_ERROR_NOT_SUPPORTED)
        self.change(lambda state: state["gpus"][0].update(recoveryAction="drain-p2p"))
        (field,) = self.nvml.nvmlDeviceGetFieldValues(device, [self.nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        self.assertEqual((field.nvmlReturn, field.value.uiVal),
                         (self.nvml.NVML_SUCCESS, self.nvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P))
        fabric = self.nvml.c_nvmlGpuFabricInfoV_t()
        self.nvml.nvmlDeviceGetGpuFabricInfoV(device, ctypes.byref(fabric))
        self.assertEqual((fabric.state, fabric.cliqueId, fabric.healthMask), (3, 4, 2))
        self.assertEqual(self.nvml.nvmlDeviceGetAddressingMode(device), self.nvml.NVML_DEVICE_ADDRESSING_MODE_NONE)
        self.nvml.nvmlDeviceSetPersistenceMode(device, 1)
        self.assertEqual(self.nvml.nvmlDeviceGetPersistenceMode(device), 1)
        with self.raises("NotSupported"):
            self.nvml.nvmlDeviceGetRetiredPagesPendingStatus(device)

    def test_lists_processes(self):
        self.assertEqual(self.nvml.nvmlDeviceGetComputeRunningProcesses(self.nvml.nvmlDeviceGetHandleByIndex(0)), [])
        (process,) = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.nvml.nvmlDeviceGetHandleByIndex(1))
        self.assertEqual((process.pid, process.usedGpuMemory), (41, 1024))

    def test_makes_and_destroys_mig_devices(self):
        nvml = self.nvml
        device = nvml.nvmlDeviceGetHandleByIndex(0)
        self.assertEqual(nvml.nvmlDeviceGetMigMode(device), [0, 0])
        self.assertEqual(nvml.nvmlDeviceSetMigMode(device, 1), nvml.NVML_SUCCESS)
        self.assertEqual(nvml.nvmlDeviceGetMigMode(device), [1, 1])
        self.assertEqual(nvml.nvmlDeviceGetMaxMigDeviceCount(device), 7)
        profile = nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, nvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE)
        self.assertEqual((profile.id, profile.memorySizeMB, profile.instanceCount), (9, 40448, 2))
        self.assertEqual(profile.name, "MIG 3g.40gb")
        count = ctypes.c_uint(2)
        placements = (nvml.c_nvmlGpuInstancePlacement_t * 2)()
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile.id, placements, ctypes.byref(count))
        self.assertEqual([placement.start for placement in placements], [0, 4])

        instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile.id, ctypes.byref(placements[1]))
        compute_profile = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
            instance, nvml.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE, 0)
        self.assertEqual(compute_profile.multiprocessorCount, 60)
        compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, compute_profile.id)
        info = nvml.nvmlComputeInstanceGetInfo(compute)
        mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, 0)
        uuid = nvml.nvmlDeviceGetUUID(mig)
        self.assertTrue(uuid.startswith("MIG-"))
        self.assertEqual(nvml.nvmlDeviceGetUUID(info.device), uuid)
        self.assertEqual(nvml.nvmlDeviceIsMigDeviceHandle(mig).value, 1)
        self.assertEqual(nvml.nvmlDeviceGetName(mig), "NVIDIA H100 80GB HBM3 MIG 3g.40gb")
        self.assertEqual(nvml.nvmlDeviceGetGpuInstanceId(mig), nvml.nvmlGpuInstanceGetInfo(instance).id)
        self.assertEqual(nvml.nvmlDeviceGetAttributes(mig).memorySizeMB, 40448)
        parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
        self.assertEqual(nvml.nvmlDeviceGetUUID(parent), card(0)["uuid"])
        with self.raises("InsufficientResources"):
            nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile.id, ctypes.byref(placements[1]))
        with self.raises("InUse"):
            nvml.nvmlGpuInstanceDestroy(instance)
        with self.raises("NotFound"):
            nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, 1)
        nvml.nvmlComputeInstanceDestroy(compute)
        nvml.nvmlGpuInstanceDestroy(instance)
        with self.raises("InvalidArgument"):
            nvml.nvmlGpuInstanceGetInfo(instance)

    def test_waits_for_events(self):
        nvml = self.nvml
        device = nvml.nvmlDeviceGetHandleByIndex(1)
        events = nvml.nvmlEventSetCreate()
        self.addCleanup(nvml.nvmlEventSetFree, events)
        self.assertTrue(nvml.nvmlDeviceGetSupportedEventTypes(device) & nvml.nvmlEventTypeXidCriticalError)
        nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
        with self.raises("Timeout"):
            nvml.nvmlEventSetWait(events, 1)
        change = threading.Thread(target=self.change, args=(lambda state: state.update(
            events=[{"gpu": card(1)["uuid"], "type": "xid", "value": 79}]),))
        change.start()
        event = nvml.nvmlEventSetWait(events, 10000)
        change.join()
        self.assertEqual((event.eventType, event.eventData), (nvml.nvmlEventTypeXidCriticalError, 79))
        self.assertEqual(nvml.nvmlDeviceGetUUID(event.device), card(1)["uuid"])
        self.assertEqual(event.gpuInstanceId, 0xFFFFFFFF)

    def test_loses_a_card(self):
        device = self.nvml.nvmlDeviceGetHandleByIndex(0)
        self.change(lambda state: state["gpus"][0].update(lost=True))
        with self.raises("GpuIsLost"):
            self.nvml.nvmlDeviceGetUUID(device)
        self.assertEqual(self.nvml.nvmlErrorString(self.nvml.NVML_ERROR_GPU_IS_LOST), "GPU is lost")

    def test_refuses_a_library_that_was_replaced(self):
        self.change(lambda state: state["driver"].update(kernelModule="570.1"))
        self.nvml.nvmlShutdown()
        with self.raises("LibRmVersionMismatch"):
            self.nvml.nvmlInit()
        self.change(lambda state: state["driver"].pop("kernelModule"))
        self.nvml.nvmlInit()


if __name__ == "__main__":
    unittest.main(verbosity=2)
