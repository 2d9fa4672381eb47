"""What the training process and its workers both use; never TensorFlow."""
