/*
 * The contract between dra-driver (the host) and a backend, a shared library that knows one kind
 * of device. C11 and C++20; needs nothing but this file. C++ authors use dra/backend/backend.h.
 *
 * A backend exports one symbol, dra_backend_entry. The host exports none: all it offers is in
 * dra_host.
 *
 * Ownership
 *   Each side frees only what it allocated. A dra_str or a pointer to a struct is borrowed, valid
 *   until the call it came with returns; who needs it longer copies it. Results go into a sink that
 *   belongs to the caller; a sink copies before it returns, and is dead when the hook returns.
 *
 * Structs
 *   struct_size comes first and is set by whoever owns the memory, to sizeof as it was compiled
 *   there. Read a field of a peer's struct only if DRA_HAS says it is there. Structs grow at their
 *   end only, never into padding; nothing is reordered, reused or resized within a major version.
 *   Zero the whole struct before you fill it.
 *
 * Text
 *   UTF-8 without NUL bytes. JSON text is one document, nested at most 64 levels. Kubernetes and
 *   CDI objects have exactly their published shape (resource.k8s.io/v1, CDI 1.1.0), so that a new
 *   upstream field needs no new ABI. Where JSON is optional, an empty dra_str means "none".
 *
 * Errors
 *   A function returns a dra_code and, if it is not DRA_OK, fills `err` (never NULL) with the same
 *   code and a text that names the object and says what to do. The code that was returned counts.
 *   Nothing may be thrown or longjmp'ed out of any function, in either direction.
 *
 * Process
 *   A backend must not fork (run_helper starts child processes), install signal handlers, change
 *   working directory, umask, locale or environment, or end the process.
 *
 * Threads
 *   [serial]      no other hook marked [serial] or [per-claim] runs at the same time
 *   [per-claim]   one at a time, unless the manifest says "parallel": then different claims run at
 *                 the same time, and discover beside them. Two hooks for one claim never overlap.
 *   [any-thread]  at any time, from any thread, also while other hooks run
 *   [in-call]     only during the hook it came with, from any thread
 *   The host calls hooks on its own threads; two calls may come on different ones.
 *
 * Time
 *   Each hook has a limit (below, or "hook_limits" in the manifest); dra_call carries the moment.
 *   The host answers for a hook that overruns with DRA_DEADLINE_EXCEEDED and drops its late result.
 *   The thread stays with the hook; a backend with too many of those gets no more calls. So look
 *   at the deadline, and poll `cancelled` or watch the cancel descriptor.
 */
#ifndef DRA_BACKEND_ABI_H_
#define DRA_BACKEND_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DRA_ABI_MAJOR 1u /* an existing field or its meaning changed: other majors are refused */
#define DRA_ABI_MINOR 1u /* something was appended at the end of a struct */

#if defined(__GNUC__)
#define DRA_EXPORT __attribute__((visibility("default")))
#else
#define DRA_EXPORT
#endif

/* True if the peer's struct is long enough to hold `field`. For pointers to functions, test for
 * NULL as well. */
#define DRA_HAS(ptr, type, field) \
  ((size_t)(ptr)->struct_size >= offsetof(type, field) + sizeof(((type*)0)->field))

/* ---- values ---- */

/* Result of a function: the numbers of gRPC and absl::StatusCode. */
typedef int32_t dra_code;
#define DRA_OK 0
#define DRA_CANCELLED 1 /* the call was cancelled and you noticed */
#define DRA_UNKNOWN 2
#define DRA_INVALID_ARGUMENT 3  /* the user's object is wrong; not retried */
#define DRA_DEADLINE_EXCEEDED 4 /* retried */
#define DRA_NOT_FOUND 5
#define DRA_ALREADY_EXISTS 6
#define DRA_PERMISSION_DENIED 7
#define DRA_RESOURCE_EXHAUSTED 8
#define DRA_FAILED_PRECONDITION 9 /* wrong state; somebody must act */
#define DRA_ABORTED 10            /* conflict: try again */
#define DRA_OUT_OF_RANGE 11
#define DRA_UNIMPLEMENTED 12
#define DRA_INTERNAL 13    /* a fault of the backend or the host */
#define DRA_UNAVAILABLE 14 /* not now (kernel driver not loaded, device resetting); retried */
#define DRA_DATA_LOSS 15
#define DRA_UNAUTHENTICATED 16

/* Borrowed bytes, no NUL promised. `data` may be NULL if `size` is 0. This struct never grows. */
typedef struct dra_str {
  const char* data;
  size_t size;
} dra_str;

/* Owned and zeroed by the caller, filled by the callee. */
typedef struct dra_error {
  uint32_t struct_size;
  dra_code code;
  char message[1024]; /* NUL-terminated UTF-8, cut if longer */
} dra_error;

/* What a call may use of time. Owned by the host, valid until the hook returns. */
typedef struct dra_call {
  uint32_t struct_size;
  int32_t cancel_fd; /* becomes readable (POLLIN) when the call is cancelled; never read or close
                        it; -1: none */
  uint64_t id;       /* names this call to the host's per-call functions; never used twice; not 0 */
  uint64_t deadline_ns; /* CLOCK_MONOTONIC, nanoseconds; 0: none */
  void* ctx;            /* for `cancelled` */
  /* [in-call] 1 if nobody waits for the result any more: undo what is half done and return
   * DRA_CANCELLED. Else 0. */
  int32_t (*cancelled)(void* ctx);
} dra_call;

/* Receives one text (or bytes). Owned by who asks. */
typedef struct dra_text_sink {
  uint32_t struct_size;
  void* ctx;
  void (*set)(void* ctx, dra_str text); /* called once at most, before the function returns */
} dra_text_sink;

/* ---- what the host offers ---- */

typedef struct dra_device_update {
  uint32_t struct_size;
  dra_str claim_uid;
  dra_str pool;        /* pool suffix as given to discover's sink; "" is the node's own pool */
  dra_str device;      /* published name */
  dra_str share_id;    /* "" if the allocation has none */
  dra_str status_json; /* AllocatedDeviceStatus members: conditions, data, networkData */
} dra_device_update;

typedef struct dra_helper_args {
  uint32_t struct_size;
  uint64_t call_id;     /* the running call, whose end and cancellation end the child; 0: none */
  uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: the call's deadline, or 30 s from now */
  const dra_str* argv;  /* argv[0] is an absolute path; no shell, no PATH */
  size_t argc;
} dra_helper_args;

typedef struct dra_helper_sink {
  uint32_t struct_size;
  void* ctx;
  /* exit_code: 0 to 255, or 128 + signal. output: stdout and stderr as they came, at most 64 KiB.
   * Called once on DRA_OK. */
  void (*set)(void* ctx, int32_t exit_code, dra_str output);
} dra_helper_sink;

/*
 * The host's table. Valid from `create` until the process ends; the functions answer
 * DRA_FAILED_PRECONDITION once `destroy` was called, and never crash. All are [any-thread] and may
 * be called from inside hooks and from threads of the backend. Functions with `call_id` work while
 * that call's hook runs (dra_call::id), else DRA_FAILED_PRECONDITION.
 */
typedef struct dra_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  void* ctx; /* first argument of every function */

  /* One line for the log. level: 0 trace, 1 debug, 2 info, 3 warn, 4 error. No tokens, no opaque
   * parameters. Never blocks for long. */
  void (*log)(void* ctx, int32_t level, dra_str text);

  /* Please run discover again, soon. Returns at once; several requests become one. */
  void (*inventory_changed)(void* ctx);
  /* Please run health again, soon. */
  void (*health_changed)(void* ctx);

  /* Stores `undo` (at most 256 KiB, any bytes) with the claim of the running prepare; durable when
   * it returns DRA_OK. Call it before each side effect. The last bytes reach a repeated prepare,
   * unprepare and reconcile_record. Codes: UNAVAILABLE, RESOURCE_EXHAUSTED if the disk does not
   * take it: do not start the side effect. */
  dra_code (*save_undo)(void* ctx, uint64_t call_id, dra_str undo, dra_error* err);

  /* Sets the status of an allocated device (ResourceClaim status.devices), at any time from prepare
   * to unprepare. Delivered later and repeated until the API server has it. Codes: NOT_FOUND if the
   * claim does not hold the device. */
  dra_code (*update_device)(void* ctx, const dra_device_update* update, dra_error* err);

  /* A small durable text for one device identity (as given to discover) and key ([a-z0-9-], <= 63),
   * kept across restarts and reboots. Value: at most 64 KiB. note_get: NOT_FOUND if there is none.
   * Durable when note_put returns. */
  dra_code (*note_get)(void* ctx, dra_str identity, dra_str key, const dra_text_sink* value,
                       dra_error* err);
  dra_code (*note_put)(void* ctx, dra_str identity, dra_str key, dra_str value, dra_error* err);

  /* Who else holds the device, the call's own claim left out: a JSON array as
   * dra_prepare_args::others_json. */
  dra_code (*held)(void* ctx, uint64_t call_id, dra_str pool, dra_str device,
                   const dra_text_sink* claims_json, dra_error* err);

  /* Path of a directory that lives as long as the record of the running call's claim; the same path
   * on the host. */
  dra_code (*claim_dir)(void* ctx, uint64_t call_id, const dra_text_sink* path, dra_error* err);

  /* Stores the bytes (at most 16 MiB) as a read-only executable file named by their content and
   * gives its path, the same on the host. It stays while a claim record names it. */
  dra_code (*shared_file)(void* ctx, uint64_t call_id, dra_str bytes, const dra_text_sink* path,
                          dra_error* err);

  /* Runs a child process: own process group, no inherited descriptors, empty stdin, killed with its
   * group at the deadline. DRA_OK also for an exit code other than 0. Codes: NOT_FOUND (no such
   * program), PERMISSION_DENIED, DEADLINE_EXCEEDED, CANCELLED. */
  dra_code (*run_helper)(void* ctx, const dra_helper_args* args, const dra_helper_sink* sink,
                         dra_error* err);

  /* Please destroy this instance when no hook runs and create a new one. For a vendor library that
   * must be reopened. */
  void (*request_restart)(void* ctx, dra_str reason);

  /* Optional groups by name, NULL if the host does not have it. `id` is NUL-terminated. */
  const void* (*get_extension)(void* ctx, const char* id);

  /* appended in 1.1 and later */
} dra_host;

/* ---- describe, create ---- */

/*
 * The manifest is a JSON object. Unknown members are ignored, absent bools are false.
 *
 *   name            string, required: DNS label; the file should be dra-backend-<name>.so
 *   version         string, required: the backend's own version, shown to operators
 *   min_host_minor  integer: as in dra_backend_api, the greater of both counts
 *   attributes      array of {"name", "type", "description", "volatile": bool}; type is string,
 *                   int, bool, version, strings, ints, bools or versions
 *   config_kinds    array of {"apiVersion": "group/version", "kind", "schema": JSON schema}
 *   hook_limits     object: hook name -> seconds, a number above 0, at most 3600
 *   parallel        bool: prepare and unprepare of different claims may run at the same time
 *   shared_claims   bool: one claim may be reserved for more than one consumer
 *   never_tainted   bool: devices never get taints (128 devices to a slice instead of 64)
 *   no_injection    bool: a device without edits is in order
 *   keeps_undo      bool: calls save_undo
 */
typedef struct dra_describe_args {
  uint32_t struct_size;
} dra_describe_args;

typedef struct dra_create_args {
  uint32_t struct_size;
  dra_str config_json; /* the backend's part of the driver's configuration file, an object; "{}" if
                          there is none */
} dra_create_args;

/* The instance; opaque, what is behind it belongs to the library. */
typedef struct dra_backend dra_backend;

/* ---- discover ---- */

/* What the API server does with fields that a cluster may lack. */
#define DRA_FIELD_UNKNOWN 0 /* not known yet: publish nothing that leans on it */
#define DRA_FIELD_KEPT 1
#define DRA_FIELD_DROPPED 2 /* show another shape, e.g. one device per card, no partitions */

typedef struct dra_discover_args {
  uint32_t struct_size;
  /* DRA_FIELD_... */
  int32_t counters;             /* sharedCounters, consumesCounters */
  int32_t multiple_allocations; /* allowMultipleAllocations, requestPolicy */
  int32_t taints;
  int32_t binding_conditions;
  int32_t list_attributes;
  int32_t node_allocatable; /* nodeAllocatableResources */
  int32_t skip_node_operations;
  /* Array of strings: the identities of the devices that prepared claims hold now. */
  dra_str held_json;
} dra_discover_args;

typedef struct dra_device {
  uint32_t struct_size;
  dra_str device_json; /* resource.k8s.io/v1 Device; name: DNS label, at most 63 bytes, stable */
  dra_str identity; /* serial, UUID, PCI address: what stays with the hardware; never a position */
  dra_str pool;     /* suffix of the pool's name; "" is the node's own pool */
  dra_str exclusion_keys_json; /* array of {"key","shape"}: the physical things it stands for;
                                  devices with one key are held together only in equal shapes.
                                  Optional: the device is its own key. */
} dra_device;

typedef struct dra_item_error {
  uint32_t struct_size;
  dra_code code;
  dra_str subject; /* what could not be looked at: "dfl-fme.0 interface_id" */
  dra_str message;
} dra_item_error;

/* Lives for one discover. [in-call]. Items may come in any order; the host sorts. */
typedef struct dra_discover_sink {
  uint32_t struct_size;
  void* ctx;
  void (*emit_device)(void* ctx, const dra_device* device);
  /* One thing could not be looked at; the others still count. */
  void (*emit_error)(void* ctx, const dra_item_error* error);
  /* counter_set_json: resource.k8s.io/v1 CounterSet. */
  void (*emit_counter_set)(void* ctx, dra_str pool, dra_str counter_set_json);
  /* Further ResourceSliceSpec members of the pool's slices, an object. */
  void (*set_slice_fields)(void* ctx, dra_str pool, dra_str fields_json);
  /* What was not emitted may exist all the same: the last good inventory of it stays. Not the same
   * as "no devices". */
  void (*set_partial)(void* ctx, dra_str reason);
} dra_discover_sink;

/* ---- validate ---- */

typedef struct dra_validate_args {
  uint32_t struct_size;
  dra_str parameters_json; /* the opaque parameters, an object */
  dra_str source; /* "FromClass" (an administrator), "FromClaim" (a user), "" if not known */
} dra_validate_args;

/* ---- prepare, unprepare ---- */

typedef struct dra_claim {
  uint32_t struct_size;
  dra_str namespace_name;
  dra_str name;
  dra_str uid;
} dra_claim;

typedef struct dra_prepare_args {
  uint32_t struct_size;
  const dra_claim* claim;
  dra_str reserved_for_json; /* status.reservedFor, an array; may be several consumers, says nothing
                                about "the" pod */
  /* Array, one object for each of our driver's allocation results of this claim (not of all of the
   * pod's), in the claim's order:
   *
   *   result    DeviceRequestAllocationResult; adminAccess true: look, never reset or reconfigure
   *   identity  as given to discover
   *   configs   array, lowest precedence first, of
   *             {"source": "FromClass" or "FromClaim", "request", "parameters"}
   */
  dra_str devices_json;
  dra_str saved_undo; /* what the last save_undo or set_undo of this claim stored; "" if nothing */
  /* Array of {"claimUID","device","shareID","adminAccess"}: other claims on the same device or
   * exclusion key. */
  dra_str others_json;
} dra_prepare_args;

typedef struct dra_prepared_device {
  uint32_t struct_size;
  uint32_t index;     /* position in devices_json */
  dra_str edits_json; /* CDI containerEdits of this device; "" if none */
  dra_str
      status_json; /* AllocatedDeviceStatus members (conditions, data, networkData); "" if none */
} dra_prepared_device;

/* Lives for one prepare. [in-call] */
typedef struct dra_prepare_sink {
  uint32_t struct_size;
  void* ctx;
  /* Exactly once for each element of devices_json. */
  void (*emit_device)(void* ctx, const dra_prepared_device* device);
  /* CDI containerEdits for each container that uses the claim. */
  void (*set_claim_edits)(void* ctx, dra_str edits_json);
  /* Replaces the saved undo, with the record that the host writes after prepare. */
  void (*set_undo)(void* ctx, dra_str undo);
} dra_prepare_sink;

typedef struct dra_unprepare_args {
  uint32_t struct_size;
  const dra_claim* claim;
  dra_str devices_json; /* as prepare got it, from the record */
  dra_str undo;         /* the last saved undo; "" if none or lost */
  dra_str others_json;
} dra_unprepare_args;

/* ---- reconcile ---- */

typedef struct dra_reconcile_args {
  uint32_t struct_size;
  int32_t same_boot; /* 1: the node has not rebooted since the record was written */
  const dra_claim* claim;
  dra_str devices_json;
  dra_str undo;
  dra_str others_json;
} dra_reconcile_args;

#define DRA_RECONCILE_TRUE 0            /* the hardware is as the record says */
#define DRA_RECONCILE_TRUE_WITH_EDITS 1 /* so it is, but the edits are others now: emit them */
#define DRA_RECONCILE_REDO 2            /* prepare the claim again before a container uses it */
#define DRA_RECONCILE_LOST 3            /* cannot be had again: the device is gone */

/* Lives for one reconcile_record. [in-call] */
typedef struct dra_reconcile_sink {
  uint32_t struct_size;
  void* ctx;
  void (*set_verdict)(void* ctx, int32_t verdict); /* exactly once */
  /* With TRUE_WITH_EDITS, once for each device. */
  void (*emit_device_edits)(void* ctx, uint32_t index, dra_str edits_json);
  void (*set_claim_edits)(void* ctx, dra_str edits_json);
} dra_reconcile_sink;

typedef struct dra_reconcile_bound_args {
  uint32_t struct_size;
} dra_reconcile_bound_args;

/* ---- busy, health ---- */

typedef struct dra_busy_args {
  uint32_t struct_size;
  dra_str pool;
  dra_str device;   /* published name */
  dra_str identity; /* as given to discover */
} dra_busy_args;

#define DRA_BUSY_IDLE 0
#define DRA_BUSY_BUSY 1
#define DRA_BUSY_UNKNOWN 2 /* keeps the device as if busy */

typedef struct dra_busy_sink {
  uint32_t struct_size;
  void* ctx;
  void (*set)(void* ctx, int32_t busy);
} dra_busy_sink;

typedef struct dra_health_args {
  uint32_t struct_size;
} dra_health_args;

#define DRA_HEALTH_UNKNOWN 0
#define DRA_HEALTH_HEALTHY 1
#define DRA_HEALTH_UNHEALTHY 2

/* How bad a fault is; the operator decides which taint follows. Since 1.1. */
#define DRA_SEVERITY_UNSET 0    /* not said: no new work */
#define DRA_SEVERITY_MINOR 1    /* to be known: what runs goes on, new work may come */
#define DRA_SEVERITY_MAJOR 2    /* no new work */
#define DRA_SEVERITY_CRITICAL 3 /* what runs on the device has lost it */

typedef struct dra_device_health {
  uint32_t struct_size;
  int32_t state;       /* DRA_HEALTH_... */
  dra_str pool;        /* suffix */
  dra_str device;      /* published name */
  dra_str fault_class; /* "" or a label name such as "ecc-uncorrectable", at most 63 bytes */
  dra_str message;     /* for people */
  dra_str remedy;      /* what a person or controller should do */
  dra_str clears_with; /* the evidence that clears it, e.g. "reset" */
  /* since 1.1 */
  int32_t severity; /* DRA_SEVERITY_..., of DRA_HEALTH_UNHEALTHY; one not known counts as unset */
  int32_t reserved; /* 0. So that the struct grows with its next field */
} dra_device_health;

/* Lives for one health. [in-call]. A device that is not emitted is unknown, not healthy. */
typedef struct dra_health_sink {
  uint32_t struct_size;
  void* ctx;
  void (*emit)(void* ctx, const dra_device_health* health);
} dra_health_sink;

/* ---- what a backend offers ---- */

/*
 * The backend's table; static, valid while the library is loaded (libraries stay loaded for the
 * process). The first four fields have the same place in every major version. Required: create,
 * destroy, describe, discover, prepare, unprepare. The others may be NULL.
 */
typedef struct dra_backend_api {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor; /* of the header it was compiled with */
  uint32_t
      min_host_minor; /* the oldest host it works with: a host with a smaller minor refuses it */

  /* [serial] 30 s. Makes an instance. *out is set only on DRA_OK. `host` stays valid for the
   * process. May be repeated after a failure, and after destroy. Do not look for hardware here: a
   * node without it must still unprepare. INVALID_ARGUMENT: the configuration is wrong, with its
   * path. UNAVAILABLE: retried. */
  dra_code (*create)(const dra_host* host, const dra_call* call, const dra_create_args* args,
                     dra_backend** out, dra_error* err);

  /* [serial] 30 s. Joins the instance's threads and frees it, whatever it returns. Called when no
   * hook runs. Claims stay prepared: containers go on. */
  dra_code (*destroy)(dra_backend* self, const dra_call* call, dra_error* err);

  /* [any-thread] 5 s. Gives the manifest. self may be NULL: before create, so that the library can
   * be listed. With self the answer may depend on the configuration, the name apart. Touches no
   * hardware; the same answer each time. */
  dra_code (*describe)(dra_backend* self, const dra_call* call, const dra_describe_args* args,
                       const dra_text_sink* sink, dra_error* err);

  /* [serial] 30 s. Emits every device of this node. A fault of one thing goes to emit_error. An
   * error returned means that nothing could be looked at: the last good inventory stays; no devices
   * and DRA_OK means that there are none. UNAVAILABLE: kernel driver not there yet, asked again.
   * Repeated at will; must not change hardware. */
  dra_code (*discover)(dra_backend* self, const dra_call* call, const dra_discover_args* args,
                       const dra_discover_sink* sink, dra_error* err);

  /* [any-thread] 5 s. Optional. One opaque configuration: DRA_OK, or INVALID_ARGUMENT with the path
   * in the text. Strict: unknown and duplicate keys are errors. Touches no hardware: also used at
   * admission. NULL: the host compares apiVersion and kind with the manifest. */
  dra_code (*validate_config)(dra_backend* self, const dra_call* call,
                              const dra_validate_args* args, dra_error* err);

  /* [per-claim] 40 s. Makes the devices of a claim ready and emits edits. Repeatable: the kubelet
   * asks again after each pod failure and after restarts, perhaps of another process; use
   * saved_undo. On an error, undo what was done; what cannot be undone stays in the saved undo. No
   * configuration, no change of hardware. */
  dra_code (*prepare)(dra_backend* self, const dra_call* call, const dra_prepare_args* args,
                      const dra_prepare_sink* sink, dra_error* err);

  /* [per-claim] 40 s. Takes back what prepare did, with the undo; restores what a configuration
   * changed, unless others_json still needs it. Must work when the device is gone, when undo is
   * empty, and when it was done before: DRA_OK then. An error keeps the pod from ending and is
   * retried. Read recorded configs leniently. */
  dra_code (*unprepare)(dra_backend* self, const dra_call* call, const dra_unprepare_args* args,
                        dra_error* err);

  /* [serial, no prepare or unprepare runs] 60 s each. Optional, all three or none. After start, the
   * host tells every record it has: begin, then record for each, then end. What is configured on
   * the hardware and was named by no record is left over and can be destroyed in `end`. If `record`
   * fails for one claim, that claim's hardware must stay. NULL: records of this boot are true,
   * those of another boot are done again. */
  dra_code (*reconcile_begin)(dra_backend* self, const dra_call* call,
                              const dra_reconcile_bound_args* args, dra_error* err);
  dra_code (*reconcile_record)(dra_backend* self, const dra_call* call,
                               const dra_reconcile_args* args, const dra_reconcile_sink* sink,
                               dra_error* err);
  dra_code (*reconcile_end)(dra_backend* self, const dra_call* call,
                            const dra_reconcile_bound_args* args, dra_error* err);

  /* [any-thread] 5 s. Optional. What the hardware itself says: does anything use the device? Sink:
   * exactly one answer. */
  dra_code (*busy)(dra_backend* self, const dra_call* call, const dra_busy_args* args,
                   const dra_busy_sink* sink, dra_error* err);

  /* [any-thread] 10 s. Optional; NULL: health is not advertised. The present state of every device,
   * never a history: a device that is well again is emitted as healthy. */
  dra_code (*health)(dra_backend* self, const dra_call* call, const dra_health_args* args,
                     const dra_health_sink* sink, dra_error* err);

  /* [any-thread] Optional groups by name; NULL function or NULL answer: none. The answer is static.
   */
  const void* (*get_extension)(const char* id);

  /* appended in 1.1 and later */
} dra_backend_api;

/*
 * The one exported symbol. Returns the table for `host_major`; a library that does not speak it
 * returns its own newest table (the host reads the first four fields and refuses it with both
 * versions in the text) or NULL. Called before anything else, from any thread; does no work.
 */
DRA_EXPORT const dra_backend_api* dra_backend_entry(uint32_t host_major);
typedef const dra_backend_api* (*dra_backend_entry_fn)(uint32_t host_major);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DRA_BACKEND_ABI_H_ */
