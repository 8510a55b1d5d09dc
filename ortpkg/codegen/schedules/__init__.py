"""From operations of the tensor IR to kernels of the loop IR, by the cost model of the target."""
