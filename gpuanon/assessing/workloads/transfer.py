"""Transfer learning: weights that let the training rows of all tasks serve one of them."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.workloads.importance import nonparametric_weights
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows


def transfer_weights(
    x: Host,
    y: Host,
    task: Host,
    target: int,
    *,
    q_rows: Host | None = None,
    q_weights: Host | None = None,
    method: str = "nonparametric",
    penalty: float = 1e-4,
) -> Host:
    """Weights under which the pooled rows of all tasks follow the test distribution of task `target`.

    ``w(x, y | t) = p(x, y | t) / Σ_t' p(t') p(x, y | t') · q(x | t) / p(x | t)``   (section 2 of [1])

    The first factor carries rows of other tasks over, the second is the covariate shift of the task itself.  With
    ``P(t | x, y) = p(t) p(x, y | t) / Σ_t' p(t') p(x, y | t')`` the first factor is ``P(t | x, y) / p(t)``.

    Parameters
    ----------
    x : (n, d) predictors of the pooled training rows (discrete for the nonparametric method)
    y : (n,) responses (discrete for the nonparametric method)
    task : (n,) task of each row
    target : the task t
    q_rows : predictors of the test sample of the task; None for no shift between training and test
    q_weights : sample weights of `q_rows`
    method : ``"nonparametric"`` (shares of the cells of (x, y)) or ``"logistic"`` (multinomial regression of the task
        on x and y; the shift of x by logistic regression as well)
    penalty : of the logistic coefficients, see `logistic_weights`

    Returns
    -------
    (n,) weights, at least 0

    References
    ----------
    .. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity; after S. Bickel,
       C. Sawade, T. Scheffer (2009), Transfer learning by distribution matching, NIPS 21.
    """
    x, y, task = np.asarray(x), np.asarray(y), np.asarray(task)
    mine = task == target
    if not mine.any():
        raise ParameterError(f"target: no training row belongs to the task {target}")
    pooled = np.column_stack([x, y])
    if method == "nonparametric":
        cells = equal_rows(pooled)
        share = np.bincount(cells, mine) / np.bincount(cells)  # P(t | x, y)
        carried = share[cells] / mine.mean()
    elif method == "logistic":
        carried = _task_probability(pooled, task, target, penalty) / mine.mean()
    else:
        raise ParameterError(f"method: nonparametric or logistic is allowed, got {method!r}")
    if q_rows is None:
        return np.asarray(carried)
    if method == "nonparametric":
        return np.asarray(carried * nonparametric_weights(x, x[mine], q_rows, q_weights=q_weights))
    from gpuanon.assessing.workloads.importance import logistic_weights

    return np.asarray(carried * logistic_weights(x, x[mine], q_rows, q_weights=q_weights, penalty=penalty))


def _task_probability(rows: Host, task: Host, target: int, penalty: float) -> Host:
    """P(t | x, y) by multinomial logistic regression."""
    from sklearn.linear_model import LogisticRegression

    if (task == target).all():
        return np.ones(len(rows))
    scale = rows.std(axis=0)
    standard = (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    model = LogisticRegression(C=1 / (penalty * len(rows)), max_iter=500, tol=1e-8).fit(standard, task)
    return np.asarray(model.predict_proba(standard)[:, model.classes_ == target][:, 0])
