"""The distributions of SciPy that ours are compared with, in float64, from the same parameters.

A reference takes an action space and the parameters, [N, size] each, [size] if independent. Its
methods are:

log_prob(sample)  log-densities [N] of samples of ours, [N, A] or [N]
entropy()         entropies [N] in nats
kl(other)         KL(self || other) [N] in nats, for a reference of the same class
statistics()      by name some of the statistics of ours, [N, *]
p_values(sample)  of the hypotheses that samples [S, A] or [S] are from the first of N = 1
"""

import itertools

import numpy as np
import tensorflow as tf
from scipy import integrate, special, stats


class Normal:
    """Independent normal distributions."""

    def __init__(self, space, parameters):
        mean, log_std = parameters
        self.normal = stats.norm(mean, np.exp(log_std) + 0 * mean)

    def log_prob(self, sample):
        return self.normal.logpdf(sample).sum(-1)

    def entropy(self):
        return self.normal.entropy().sum(-1)

    def kl(self, other):
        (mean, std), (to_mean, to_std) = (
            (one.normal.mean(), one.normal.std()) for one in (self, other)
        )
        ratio = std / to_std
        terms = ratio**2 - 1 - 2 * np.log(ratio) + ((mean - to_mean) / to_std) ** 2
        return 0.5 * terms.sum(-1)

    def statistics(self):
        return {"mode": self.normal.mean(), "std": self.normal.std()}

    def p_values(self, sample):
        """Of the hypotheses that each dimension of samples [N, A] is from here."""
        columns = zip(sample.T, self.normal.mean()[0], self.normal.std()[0], strict=True)
        return [stats.kstest(column, stats.norm(*both).cdf).pvalue for column, *both in columns]


def log_slope(u):
    """Logarithm of the derivative of tanh."""
    return 2 * np.log(2) - 2 * np.logaddexp(u, -u)


@np.vectorize
def mean_log_slope(mean, std):
    """Its expectation by quadrature over a normal distribution, in pieces around the kink at 0."""
    kinks = {float(np.clip((kink - mean) / std, -12, 12)) for kink in (-8, -2, 0, 2, 8)}
    return sum(
        integrate.quad(
            lambda x: log_slope(mean + std * x) * stats.norm.pdf(x), *ends, epsabs=1e-11
        )[0]
        for ends in itertools.pairwise(sorted(kinks | {-12.0, 12.0}))
    )


class Squashed(Normal):
    """Normal distributions through tanh, scaled to the bounds of a Box; samples are unsquashed."""

    def __init__(self, space, parameters):
        super().__init__(space, parameters)
        low, high = np.float64(space.low), np.float64(space.high)
        self.log_scale = np.log((high - low) / 2).ravel()

    def log_prob(self, sample):
        return super().log_prob(sample) - (log_slope(sample) + self.log_scale).sum(-1)

    def entropy(self):
        slopes = mean_log_slope(self.normal.mean(), self.normal.std())
        return super().entropy() + (slopes + self.log_scale).sum(-1)


class Beta:
    """Independent Beta distributions with concentrations 1 + softplus."""

    def __init__(self, space, parameters):
        self.a, self.b = (1 + np.logaddexp(0, one) for one in parameters)

    @property
    def beta(self):
        return stats.beta(self.a, self.b)

    def log_prob(self, sample):
        return self.beta.logpdf(sample).sum(-1)

    def entropy(self):
        return self.beta.entropy().sum(-1)

    def kl(self, other):
        a, b, c, d = self.a, self.b, other.a, other.b
        log, log1m = (special.digamma(one) - special.digamma(a + b) for one in (a, b))
        normalizers = special.betaln(c, d) - special.betaln(a, b)
        return (normalizers + (a - c) * log + (b - d) * log1m).sum(-1)

    def statistics(self):
        return {"mode": (self.a - 1) / (self.a + self.b - 2), "std": self.beta.std()}

    def p_values(self, sample):
        columns = zip(sample.T, self.a[0], self.b[0], strict=True)
        return [stats.kstest(column, stats.beta(a, b).cdf).pvalue for column, a, b in columns]


class Categories:
    """Independent categorical distributions over numbers of categories, one after another."""

    def __init__(self, space, parameters, mask=None):
        (logits,) = parameters
        if mask is not None:
            logits = np.where(mask, logits, -np.inf)
        self.sizes = self.sizes_of(space)
        parts = np.split(logits, np.cumsum(self.sizes)[:-1], axis=-1)
        self.log_probs = [special.log_softmax(part, axis=-1) for part in parts]

    def sizes_of(self, space):
        return np.ravel(space.nvec) if hasattr(space, "nvec") else [space.n]

    def log_prob(self, sample):
        columns = sample.reshape(len(sample), -1).T
        return sum(
            np.take_along_axis(part, column[:, None], axis=-1)[:, 0]
            for part, column in zip(self.log_probs, columns, strict=True)
        )

    def entropy(self):
        return sum(stats.entropy(np.exp(part), axis=-1) for part in self.log_probs)

    def kl(self, other):
        pairs = zip(self.log_probs, other.log_probs, strict=True)
        return sum(special.rel_entr(np.exp(one), np.exp(two)).sum(-1) for one, two in pairs)

    def statistics(self):
        return {"probability": np.exp(np.concatenate(self.log_probs, axis=-1))}

    def p_values(self, sample):
        """Of the hypothesis that samples [N, A] are from here, dependences included."""
        probability = np.ones(1)
        for part in self.log_probs:
            probability = np.multiply.outer(probability, np.exp(part[0])).ravel()
        columns = tuple(sample.reshape(len(sample), -1).T)
        index = np.ravel_multi_index(columns, self.sizes)
        counts, expected = np.bincount(index, minlength=len(probability)), len(sample) * probability
        assert not counts[expected == 0].any()
        return [stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue]


class Bits(Categories):
    """Independent bits, as categories 0 and 1."""

    def __init__(self, space, parameters):
        (logits,) = parameters
        super().__init__(space, [np.stack([0 * logits, logits], axis=-1).reshape(len(logits), -1)])

    def sizes_of(self, space):
        return [2] * int(np.prod(space.shape))

    def statistics(self):
        return {"probability": super().statistics()["probability"][:, 1::2]}


def gradients(function, *arguments):
    """Gradients of the sum of a function of ours by its arguments."""
    variables = [tf.Variable(argument) for argument in arguments]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(function(*variables))
    return tape.gradient(total, variables)
