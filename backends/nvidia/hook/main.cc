// The createContainer hook of the NVIDIA backend: makes the driver's links and the loader's cache in the root of a
// container whose mounts are in place and whose program has not started, and keeps NVIDIA's libraries in it from making
// device nodes. The runtime runs it in the container's mount namespace before the root is changed, so that host and
// container are both there; the container's state comes on stdin.
// Source: opencontainers/runtime-spec: runtime.md, config.md (POSIX-platform hooks).
//
//   dra-nvidia-hook [--ldconfig PROGRAM] [--library-directory DIRECTORY]... [--link PATH TARGET]...
//
// PROGRAM is the host's; the other paths are the container's. May run again on the same root. Exit code 1 with one line
// on stderr, which the runtime shows, if the container cannot use the driver as it is.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "device_parameters.h"
#include "error.h"
#include "loader_cache.h"
#include "nlohmann/json.hpp"
#include "root_dir.h"

namespace nvidia_hook {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxState = 16 << 20;  // annotations are in it

struct Link {
  std::string path, target;
};
struct Arguments {
  std::string ldconfig;
  std::vector<std::string> library_directories;
  std::vector<Link> links;
};

Arguments ReadArguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] {
      if (++i >= argc) throw Error(option + " lacks a value");
      return std::string(argv[i]);
    };
    if (option == "--ldconfig") {
      arguments.ldconfig = value();
    } else if (option == "--library-directory") {
      arguments.library_directories.push_back(value());
    } else if (option == "--link") {
      const std::string path = value();
      arguments.links.push_back({path, value()});
    } else {
      throw Error("unknown argument \"" + option + "\"");
    }
  }
  // A name that begins with '-' would be an option of ldconfig.
  for (const std::string& directory : arguments.library_directories) {
    if (directory.empty() || directory[0] != '/')
      throw Error("--library-directory \"" + directory + "\" is no absolute path");
  }
  return arguments;
}

std::string ReadStdin() {
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(STDIN_FILENO, part, sizeof(part))) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail("read the container's state from stdin");
    text.append(part, static_cast<size_t>(got));
    if (text.size() > kMaxState) throw Error("the container's state on stdin is over 16 MiB");
  }
  return text;
}

Json Parse(const std::string& text, const std::string& what) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) throw Error(what + " is no JSON object");
  return value;
}

std::string Text(const Json& object, const char* key, const std::string& what) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string() || found->get_ref<const std::string&>().empty())
    throw Error(what + " has no " + key);
  return found->get<std::string>();
}

std::string ContainerRoot() {
  const std::string bundle =
      Text(Parse(ReadStdin(), "the container's state"), "bundle", "the container's state");
  const std::string path = bundle + "/config.json";
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail("read " + path);
  const Json config = Parse({std::istreambuf_iterator<char>(file), {}}, path);
  const auto root = config.find("root");
  if (root == config.end() || !root->is_object()) throw Error(path + " has no root");
  const std::string root_path = Text(*root, "path", path + ": root");
  return root_path[0] == '/' ? root_path : bundle + "/" + root_path;
}

void Run(int argc, char** argv) {
  const Arguments arguments = ReadArguments(argc, argv);
  const RootDir root(ContainerRoot());
  for (const Link& link : arguments.links) root.MakeLink(link.path, link.target);
  StopDeviceNodeMaking(root);
  UpdateLoaderCache(root, arguments.ldconfig, arguments.library_directories);
}

}  // namespace
}  // namespace nvidia_hook

int main(int argc, char** argv) {
  try {
    nvidia_hook::Run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dra-nvidia-hook: %s\n", error.what());
    return 1;
  }
}
