#include "loader/library.h"

#include <boost/dll/shared_library.hpp>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "loader/keep_forever.h"
#include "loader/library_file.h"

namespace dra::loader {
namespace {

constexpr char kEntry[] = "dra_backend_entry";

// What the person at the node can do about the linker's complaint.
absl::string_view Advice(absl::string_view linker_text) {
  const std::string text(linker_text);
  if (text.find("GLIBCXX_") != std::string::npos || text.find("CXXABI_") != std::string::npos ||
      text.find("GLIBC_") != std::string::npos) {
    return "it was built on a newer system: build it on the image's base (Debian 12) or link "
           "libstdc++ statically";
  }
  if (text.find("undefined symbol") != std::string::npos) {
    return "link the library that has the symbol, or open vendor libraries with dlopen at run time";
  }
  if (text.find("cannot open shared object file") != std::string::npos) {
    return "install the library it needs into the image, or open it with dlopen at run time";
  }
  return "see the linker's text";
}

// The linker gives the old code for a path it has loaded before, whatever lies there now: the first file that was loaded
// from a path is remembered. A file that the linker refused is not: it is judged anew when it has changed.
class LoadedFiles {
 public:
  static LoadedFiles& OfProcess() {
    static auto* const files = new LoadedFiles();
    return *files;
  }
  absl::Status CheckSame(const std::string& path, const FileIdentity& file) {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find(path);
    if (found == loaded_.end() || found->second == file) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "backend ", path,
        ": the file was replaced since this process loaded it, the old code would run: "
        "restart the process"));
  }
  void Remember(const std::string& path, const FileIdentity& file) {
    const std::lock_guard lock(mutex_);
    loaded_.emplace(path, file);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, FileIdentity> loaded_;
};

// Boost's constructor with an error_code forgets dlerror's text, so the throwing one is called and caught here.
absl::StatusOr<dra_backend_entry_fn> FindEntry(const std::string& path, const FileIdentity& file) {
  // Static initialisers of the library run in the constructor, and may throw anything.
  try {
    // rtld_now: a missing symbol is a refusal now, not a kill at the first call. rtld_local: a backend's own protobuf
    // never meets ours.
    auto library = std::make_unique<boost::dll::shared_library>(
        boost::dll::fs::path(path),
        boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
    LoadedFiles::OfProcess().Remember(path, file);
    dra_backend_entry_fn entry = nullptr;
    if (library->has(kEntry)) entry = &library->get<const dra_backend_api*(uint32_t)>(kEntry);
    // Never unloaded: thread-local destructors and threads of a backend may run later.
    KeepForever(std::move(library));
    if (entry == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("backend ", path, ": exports no ", kEntry,
                       ": it is no backend, or lacks DRA_BACKEND(...) or "
                       "the export map of dra_add_backend()"));
    }
    return entry;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": cannot be loaded: ", text, ": ", Advice(text)));
  } catch (...) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backend ", path, ": threw while it was loaded: its static initialisers must not throw"));
  }
}

}  // namespace

absl::Status CheckTable(const dra_backend_api* api, absl::string_view path) {
  if (api == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": does not speak backend interface ", DRA_ABI_MAJOR, ".",
                     DRA_ABI_MINOR, ": use a build for this release of dra-driver"));
  }
  // The first four fields have the same place in every major version.
  if (!DRA_HAS(api, dra_backend_api, min_host_minor)) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": its table has ", api->struct_size,
                     " bytes, too few to name a version: "
                     "rebuild it; struct_size must be sizeof(dra_backend_api)"));
  }
  const std::string theirs = absl::StrCat(api->abi_major, ".", api->abi_minor);
  const std::string ours = absl::StrCat(DRA_ABI_MAJOR, ".", DRA_ABI_MINOR);
  if (api->abi_major != DRA_ABI_MAJOR) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": speaks backend interface ", theirs,
                     ", this dra-driver speaks ", ours, ": ",
                     api->abi_major > DRA_ABI_MAJOR ? "update dra-driver"
                                                    : "rebuild the backend with this SDK"));
  }
  if (api->min_host_minor > DRA_ABI_MINOR) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backend ", path, ": needs backend interface ", DRA_ABI_MAJOR, ".", api->min_host_minor,
        " or newer, this dra-driver has ", ours, ": update dra-driver"));
  }
  if (!DRA_HAS(api, dra_backend_api, get_extension)) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": its table has ", api->struct_size, " bytes, interface ",
                     theirs, " has at least ", sizeof(dra_backend_api),
                     ": rebuild it; struct_size must be "
                     "sizeof(dra_backend_api)"));
  }
  std::string missing;
  const auto need = [&](bool present, absl::string_view name) {
    if (!present) absl::StrAppend(&missing, missing.empty() ? "" : ", ", name);
  };
  need(api->create != nullptr, "create");
  need(api->destroy != nullptr, "destroy");
  need(api->describe != nullptr, "describe");
  need(api->discover != nullptr, "discover");
  need(api->prepare != nullptr, "prepare");
  need(api->unprepare != nullptr, "unprepare");
  const int reconcile = (api->reconcile_begin != nullptr) + (api->reconcile_record != nullptr) +
                        (api->reconcile_end != nullptr);
  if (reconcile != 0 && reconcile != 3) {
    need(api->reconcile_begin != nullptr, "reconcile_begin");
    need(api->reconcile_record != nullptr, "reconcile_record");
    need(api->reconcile_end != nullptr, "reconcile_end");
  }
  if (!missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backend ", path, ": required functions are NULL: ", missing, ": fill them in its table"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Library> OpenLibrary(absl::string_view path) {
  Library library;
  library.path = std::string(path);
  DRA_ASSIGN_OR_RETURN(library.file, InspectLibraryFile(path));
  DRA_RETURN_IF_ERROR(LoadedFiles::OfProcess().CheckSame(library.path, library.file));
  DRA_ASSIGN_OR_RETURN(const dra_backend_entry_fn entry, FindEntry(library.path, library.file));
  try {
    library.api = entry(DRA_ABI_MAJOR);
  } catch (...) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": threw in ", kEntry, ": it must only return its table"));
  }
  DRA_RETURN_IF_ERROR(CheckTable(library.api, path));
  return library;
}

}  // namespace dra::loader
