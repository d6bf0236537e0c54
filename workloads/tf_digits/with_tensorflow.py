"""The networks in TensorFlow: convolutions, gradients and updates by its own operations, each step one graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import mirrored
from workloads.tf_digits.networks import Network, Weights

tf = mirrored.imported()


class Trainer:
    """A network that learns by stochastic gradient descent; gradients are the mean over all ranks that have met."""

    def __init__(self, network: Network, weights: Weights, learning_rate: float, momentum: float, world: int) -> None:
        self._network, self._world = network, world
        self._rate, self._momentum = learning_rate, momentum
        self._weights = [tf.Variable(_theirs(network, weight)) for weight in weights]
        self._moved = [tf.Variable(tf.zeros_like(weight)) for weight in self._weights]
        pictures = tf.TensorSpec((None, network.side, network.side, network.colours), tf.uint8)
        labels = tf.TensorSpec((None,), tf.uint8)
        self._step = tf.function(self._learn, autograph=False, input_signature=(pictures, labels))
        self._test = tf.function(self._evaluate, autograph=False, input_signature=(pictures, labels))
        self._sum = tf.function(lambda own: mirrored.run(lambda one: mirrored.summed([one])[0], own), autograph=False)

    def trace(self) -> None:
        """Make the graphs of a step and of a test."""
        self._step.get_concrete_function()
        self._test.get_concrete_function()
        self.total([0.0])

    def learn(self, pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Any:
        """Take a step; gives the mean loss of these rows on this rank, which may not be known yet."""
        return self._step(_pictures(pixels), labels)

    def evaluate(self, pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> tuple[int, float]:
        """Of how many rows the class is found, and the sum of their losses."""
        right, loss = self._test(_pictures(pixels), labels)
        return int(right), float(loss)

    def total(self, numbers: list[float]) -> list[float]:
        """The sums of numbers over all ranks."""
        return [float(one) for one in self._sum(tf.constant(numbers, tf.float64))]

    def weights(self) -> Weights:
        """As :mod:`networks` has them."""
        return [_ours(self._network, variable.numpy()) for variable in self._weights]

    def _learn(self, pictures: Any, labels: Any) -> Any:
        return mirrored.run(self._replica, pictures, labels)

    def _replica(self, pictures: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(_losses(self._scores(pictures), labels))
        gradients = mirrored.summed(tape.gradient(loss, self._weights))
        for weight, moved, gradient in zip(self._weights, self._moved, gradients, strict=True):
            moved.assign(self._momentum * moved + gradient / self._world)
            weight.assign_sub(self._rate * moved)
        return loss

    def _evaluate(self, pictures: Any, labels: Any) -> Any:
        scores = self._scores(pictures)
        found = tf.argmax(scores, 1, output_type=tf.int32) == tf.cast(labels, tf.int32)
        return tf.reduce_sum(tf.cast(found, tf.int32)), tf.reduce_sum(_losses(scores, labels))

    def _scores(self, pictures: Any) -> Any:
        nn, convolutions = tf.nn, len(self._network.convolutions)
        pairs = list(zip(self._weights[::2], self._weights[1::2], strict=True))
        made = (tf.cast(pictures, tf.float32) - 127.5) / 127.5
        padding = "SAME" if self._network.same else "VALID"
        for weight, bias in pairs[:convolutions]:
            made = nn.max_pool2d(nn.relu(nn.conv2d(made, weight, 1, padding) + bias), 2, 2, "VALID")
        side, channels = self._network.last
        made = tf.reshape(made, (-1, side * side * channels))
        for weight, bias in pairs[convolutions:-1]:
            made = nn.relu(tf.matmul(made, weight) + bias)
        weight, bias = pairs[-1]
        return tf.matmul(made, weight) + bias


def _losses(scores: Any, labels: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels, tf.int32), logits=scores)


def _pictures(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return pixels if pixels.ndim == 4 else pixels[..., None]


def _theirs(network: Network, weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Torch's layout -> TensorFlow's: colours are the last axis of pictures and of what a convolution gives."""
    side, channels = network.last
    inputs = side * side * channels
    made: NDArray[np.float32] = weight.T
    if weight.ndim == 4:
        made = weight.transpose(2, 3, 1, 0)
    elif weight.shape[-1] == inputs and weight.ndim == 2:
        made = weight.reshape(-1, channels, side, side).transpose(2, 3, 1, 0).reshape(inputs, -1)
    return made


def _ours(network: Network, weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """The other way round."""
    side, channels = network.last
    inputs = side * side * channels
    made: NDArray[np.float32] = weight.T
    if weight.ndim == 4:
        made = weight.transpose(3, 2, 0, 1)
    elif weight.shape[0] == inputs and weight.ndim == 2:
        made = weight.reshape(side, side, channels, -1).transpose(3, 2, 0, 1).reshape(-1, inputs)
    return made
