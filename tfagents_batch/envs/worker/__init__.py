"""Worker process, which steps environments without TensorFlow."""
