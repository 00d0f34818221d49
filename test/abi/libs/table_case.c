/* One library for each way a table can be wrong; CASE_... says which. Everything else is in order. */
#include <string.h>

#include "dra/backend/abi.h"

static dra_code Create(const dra_host* host, const dra_call* call, const dra_create_args* args,
                       dra_backend** out, dra_error* err) {
  (void)host, (void)call, (void)args, (void)err;
  static int instance;
  *out = (dra_backend*)&instance;
  return DRA_OK;
}
static dra_code Destroy(dra_backend* self, const dra_call* call, dra_error* err) {
  (void)self, (void)call, (void)err;
  return DRA_OK;
}
static dra_code Describe(dra_backend* self, const dra_call* call, const dra_describe_args* args,
                         const dra_text_sink* sink, dra_error* err) {
  (void)self, (void)call, (void)args, (void)err;
#if defined(CASE_JUNK_MANIFEST)
  const char* text = "{\"name\": \"Not A Label\", \"version\": \"1\"}";
#else
  const char* text = "{\"name\": \"case\", \"version\": \"1.0\"}";
#endif
  dra_str view = {text, strlen(text)};
  sink->set(sink->ctx, view);
  return DRA_OK;
}
static dra_code Discover(dra_backend* self, const dra_call* call, const dra_discover_args* args,
                         const dra_discover_sink* sink, dra_error* err) {
  (void)self, (void)call, (void)args, (void)sink, (void)err;
  return DRA_OK;
}
static dra_code Prepare(dra_backend* self, const dra_call* call, const dra_prepare_args* args,
                        const dra_prepare_sink* sink, dra_error* err) {
  (void)self, (void)call, (void)args, (void)sink, (void)err;
  return DRA_OK;
}
static dra_code Unprepare(dra_backend* self, const dra_call* call, const dra_unprepare_args* args,
                          dra_error* err) {
  (void)self, (void)call, (void)args, (void)err;
  return DRA_OK;
}

const dra_backend_api* dra_backend_entry(uint32_t host_major) {
  static dra_backend_api api;
  (void)host_major;
  api.struct_size = sizeof(api);
  api.abi_major = DRA_ABI_MAJOR;
  api.abi_minor = DRA_ABI_MINOR;
  api.create = Create;
  api.destroy = Destroy;
  api.describe = Describe;
  api.discover = Discover;
  api.prepare = Prepare;
  api.unprepare = Unprepare;
#if defined(CASE_OTHER_MAJOR)
  api.abi_major = 9;
  api.abi_minor = 4;
#elif defined(CASE_OLDER_MAJOR)
  api.abi_major = 0;
  api.abi_minor = 9;
#elif defined(CASE_NEWER_HOST)
  api.abi_minor = 9;
  api.min_host_minor = 9;
#elif defined(CASE_SHORT_STRUCT)
  api.struct_size = offsetof(dra_backend_api, prepare);
#elif defined(CASE_TINY_STRUCT)
  api.struct_size = 4;
#elif defined(CASE_MISSING_FUNCTION)
  api.unprepare = NULL;
#elif defined(CASE_NULL_TABLE)
  return NULL;
#endif
  return &api;
}
