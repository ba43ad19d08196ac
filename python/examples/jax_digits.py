"""Data-parallel training with JAX, a process a rank; gradients are averaged in the network:

torchrun --nproc-per-node 2 jax_digits.py        or any launcher that sets RANK and WORLD_SIZE
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import tributary

DIGITS = Path(__file__).parent / "../../tributary/data/digits.csv"


def logits(parameters, pictures):
    (w1, b1), (w2, b2) = parameters
    return jax.nn.relu(pictures @ w1 + b1) @ w2 + b2


@jax.jit
def gradient(parameters, pictures, labels):
    def loss(parameters):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(parameters, pictures)), labels[:, None], 1).mean()

    return jax.grad(loss)(parameters)


def main() -> None:
    table = np.loadtxt(DIGITS, delimiter=",", dtype=np.float32)
    pictures, labels = table[:, :64] / 16, table[:, 64].astype(np.int32)
    keys = jax.random.split(jax.random.key(1), 2)
    parameters = [
        (jax.random.normal(key, shape) / shape[0] ** 0.5, jnp.zeros(shape[1])) for key, shape in zip(keys, [(64, 256), (256, 10)])
    ]
    flat, unravel = ravel_pytree(parameters)
    with tributary.Communicator("jax-digits") as communicator:
        for step in range(300):
            batch = np.random.default_rng(step).permutation(1437)[:64][communicator.rank :: communicator.size]
            mine, _ = ravel_pytree(gradient(unravel(flat), pictures[batch], labels[batch]))
            # JAX's arrays cannot be written to: this is the one copy.
            average = np.array(mine)
            communicator.all_reduce(average, "avg")
            flat = flat - 0.3 * average
        right = (logits(unravel(flat), pictures[1437:]).argmax(1) == labels[1437:]).mean()
        print(f"rank {communicator.rank}: accuracy {right:.4f}")


main()
