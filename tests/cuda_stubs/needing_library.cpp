// A library that needs another one, as LibTorch's CUDA library needs cuDNN.
int value_of_needed_library();
int value_of_needing_library() { return value_of_needed_library(); }
