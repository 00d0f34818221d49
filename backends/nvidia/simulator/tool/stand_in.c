// A library of the simulated driver root that only has to be there: its soname is overwritten when a tree is made. No
// libc, so that it loads in any image.
__attribute__((visibility("default"))) const char nvidia_simulator_stand_in[] =
    "stand-in of dra-nvidia-simulator: does nothing";
