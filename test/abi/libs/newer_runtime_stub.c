/* Stands for the libstdc++ of a newer system while newer_runtime is linked. */
int dra_test_newer_runtime_function(void);
int dra_test_newer_runtime_function(void) { return 1; }
