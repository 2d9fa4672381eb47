"""Adam as published: epsilon is added to the corrected deviation."""

from __future__ import annotations

import keras
import tensorflow as tf


class Adam(keras.optimizers.Adam):
    """Algorithm 1 of Kingma and Ba 2015 (arXiv:1412.6980).

    m and v are moving means of g and g^2; after step t the weights move by

        - learning_rate * m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon).

    Keras' own adds epsilon to sqrt(v), the variant at the end of their section 2,
    which makes it sqrt(1 / (1 - beta_2^t)) times as large: 30 times in the first step,
    3 times in the hundredth. With the 1e-5 that PPO uses, small gradients then hardly
    count for hundreds of steps; PyTorch and published results have the one above.
    """

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        mean, square = self._momentums[index], self._velocities[index]
        step = tf.cast(self.iterations + 1, tf.float32)
        mean.assign_add((gradient - mean) * (1 - self.beta_1))
        square.assign_add((tf.square(gradient) - square) * (1 - self.beta_2))
        scale = learning_rate / (1 - self.beta_1**step)
        deviation = tf.sqrt(square / (1 - self.beta_2**step))
        variable.assign_sub(scale * mean / (deviation + self.epsilon))
