// A library that another one needs, as LibTorch's CUDA library needs cuDNN.
int value_of_needed_library() { return 1; }
