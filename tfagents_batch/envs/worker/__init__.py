"""The worker process, which steps environments; never TensorFlow."""
