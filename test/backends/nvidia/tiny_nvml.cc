// Tiny libraries in the place of libnvidia-ml.so.1, one for each TINY_... macro: what the real one's loading can meet.

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
[[maybe_unused]] unsigned init_flags = 99;
}

#if !defined(TINY_NEITHER)
EXPORT const char* nvmlErrorString(int result) { return result == 15 ? "GPU is lost" : "tiny"; }
#endif
EXPORT int nvmlShutdown() { return 0; }

#if defined(TINY_FEW)  // the newest names are missing
EXPORT int nvmlInitWithFlags(unsigned flags) {
  init_flags = flags;
  return 0;
}
EXPORT int nvmlDeviceGetCount(unsigned* count) {
  *count = init_flags;
  return 0;
}
#elif defined(TINY_OLD)
EXPORT int nvmlInit_v2() { return 0; }
#elif defined(TINY_NOT_LOADED)
EXPORT int nvmlInitWithFlags(unsigned) { return 9; }
#elif defined(TINY_MISMATCH)
EXPORT int nvmlInitWithFlags(unsigned) { return 18; }
#elif defined(TINY_UNRESOLVED)  // as a driver whose own libraries do not fit together
extern "C" int tiny_symbol_of_another_driver();
EXPORT int nvmlInitWithFlags(unsigned) { return 0; }
EXPORT int nvmlDeviceGetCount_v2(unsigned*) { return tiny_symbol_of_another_driver(); }
#endif
