/* A backend in plain C, built against the header as released with 1.0 (the copy beside this file). It must load and
 * work in every later host of major 1. */
#include <stdio.h>
#include <string.h>

#include "dra/backend/abi.h"

struct dra_backend {
  const dra_host* host;
};
static struct dra_backend g_instance;

static dra_str View(const char* text) {
  dra_str view = {text, strlen(text)};
  return view;
}

static dra_code Create(const dra_host* host, const dra_call* call, const dra_create_args* args,
                       dra_backend** out, dra_error* err) {
  (void)call, (void)args, (void)err;
  g_instance.host = host;
  *out = &g_instance;
  return DRA_OK;
}
static dra_code Destroy(dra_backend* self, const dra_call* call, dra_error* err) {
  (void)self, (void)call, (void)err;
  return DRA_OK;
}
static dra_code Describe(dra_backend* self, const dra_call* call, const dra_describe_args* args,
                         const dra_text_sink* sink, dra_error* err) {
  (void)self, (void)call, (void)args, (void)err;
  sink->set(sink->ctx, View("{\"name\": \"plain-c\", \"version\": \"1.0\"}"));
  return DRA_OK;
}
static dra_code Discover(dra_backend* self, const dra_call* call, const dra_discover_args* args,
                         const dra_discover_sink* sink, dra_error* err) {
  dra_device device;
  (void)self, (void)call, (void)args, (void)err;
  memset(&device, 0, sizeof(device));
  device.struct_size = sizeof(device);
  device.device_json =
      View("{\"name\": \"c0\", \"attributes\": {\"language\": {\"string\": \"C\"}}}");
  device.identity = View("c-serial-0");
  sink->emit_device(sink->ctx, &device);
  return DRA_OK;
}
static dra_code Prepare(dra_backend* self, const dra_call* call, const dra_prepare_args* args,
                        const dra_prepare_sink* sink, dra_error* err) {
  dra_prepared_device device;
  dra_code code = self->host->save_undo(self->host->ctx, call->id, View("c-undo"), err);
  (void)args;
  if (code != DRA_OK) return code;
  memset(&device, 0, sizeof(device));
  device.struct_size = sizeof(device);
  device.index = 0;
  device.edits_json = View("{\"env\": [\"PLAIN_C=1\"]}");
  sink->emit_device(sink->ctx, &device);
  return DRA_OK;
}
static dra_code Unprepare(dra_backend* self, const dra_call* call, const dra_unprepare_args* args,
                          dra_error* err) {
  (void)self, (void)call;
  if (args->undo.size != 0 && (args->undo.size != 6 || memcmp(args->undo.data, "c-undo", 6) != 0)) {
    err->code = DRA_DATA_LOSS;
    snprintf(err->message, sizeof(err->message), "undo has %zu bytes", args->undo.size);
    return DRA_DATA_LOSS;
  }
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
  return &api;
}
