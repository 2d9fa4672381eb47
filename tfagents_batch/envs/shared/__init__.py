"""Code used by both the training process and its workers; without TensorFlow."""
