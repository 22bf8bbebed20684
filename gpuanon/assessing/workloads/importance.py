"""Importance weights: for covariate shift, w(x) = q(x) / p(x), and for transfer learning.

Training rows come from p, predictions are wanted under q, and the conditional distribution of the response given x is
the same.  The weighted empirical risk ``(1/n) Σ w(x_i) loss(f(x_i), y_i)`` then converges to the risk under q (eq. 2
of [1]).

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, section 2.
.. [2] S. Bickel, C. Sawade, T. Scheffer (2009), Transfer learning by distribution matching, NIPS 21.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows


def nonparametric_weights(
    x: Host,
    p_rows: Host,
    q_rows: Host,
    *,
    p_weights: Host | None = None,
    q_weights: Host | None = None,
    unseen: float = 0.0,
) -> Host:
    """Ratio of the shares of each row's cell in two samples.

    Parameters
    ----------
    x : (n, d) discrete rows to be weighted
    p_rows, q_rows : samples of the distribution that the rows come from, and of the one that is wanted
    p_weights, q_weights : sample weights, or None for all 1
    unseen : weight of a row whose cell is not in `p_rows` at all, where the ratio has no denominator

    Returns
    -------
    (n,) weights, at least 0; 0 for a cell that is not in `q_rows`

    Notes
    -----
    When `x` is `p_rows` itself, the weighted rows have the cell shares of `q_rows` exactly, but for cells of
    `q_rows` that `p_rows` lacks: nothing can be weighted up from nothing.
    """
    x, p_rows, q_rows = _same_columns(x, p_rows, q_rows)
    cells = equal_rows(np.concatenate([x, p_rows, q_rows]))
    count = int(cells.max()) + 1
    of_x, of_p, of_q = np.split(cells, [len(x), len(x) + len(p_rows)])
    p, q = _shares(of_p, p_weights, count), _shares(of_q, q_weights, count)
    ratio = np.divide(q, p, out=np.full(count, float(unseen)), where=p > 0)
    return np.asarray(ratio[of_x])


def logistic_weights(
    x: Host,
    p_rows: Host,
    q_rows: Host,
    *,
    p_weights: Host | None = None,
    q_weights: Host | None = None,
    penalty: float = 1e-4,
) -> Host:
    """Odds of a logistic regression of "comes from q", times the class ratio.

    By Bayes' rule ``q(x)/p(x) = P(q|x)/P(p|x) · P(p)/P(q)``; the log-odds are taken to be linear in the columns, so
    code categories as dummies.

    Parameters
    ----------
    x, p_rows, q_rows, p_weights, q_weights : as in `nonparametric_weights`, columns numeric
    penalty : of the squared coefficients of the standardised columns, for each unit of weight: keeps the odds finite
        where the samples can be told apart

    Returns
    -------
    (n,) weights, above 0
    """
    from sklearn.linear_model import LogisticRegression

    x, p_rows, q_rows = _same_columns(x, p_rows, q_rows)
    rows, market, weights = _distinct(
        p_rows, q_rows, _or_ones(p_weights, len(p_rows)), _or_ones(q_weights, len(q_rows))
    )
    centre = weights @ rows
    scale = np.sqrt(weights @ (rows - centre) ** 2)
    scale[scale == 0] = 1.0
    model = LogisticRegression(C=1 / penalty, max_iter=500, tol=1e-8)
    model.fit((rows - centre) / scale, market, sample_weight=weights)
    return np.asarray(np.exp(model.decision_function((x.astype(np.float64) - centre) / scale)))


def _distinct(p_rows: Host, q_rows: Host, p_weights: Host, q_weights: Host) -> tuple[Host, Host, Host]:
    """Each distinct row of each sample once, which sample it is of, and its weight.

    Both samples have the total weight ½: the class ratio is then 1, and a large sample does not drown a small one.
    """
    both = np.concatenate([p_rows, q_rows]).astype(np.float64)
    sample = np.repeat([0, 1], [len(p_rows), len(q_rows)])
    weights = np.concatenate([p_weights / p_weights.sum(), q_weights / q_weights.sum()]) / 2
    classes = equal_rows(both, sample)
    first = np.unique(classes, return_index=True)[1]
    return both[first], sample[first], np.bincount(classes, weights)


def _same_columns(*tables: Host) -> tuple[Host, ...]:
    """Two-dimensional tables of the same width, with at least one row each."""
    tables = tuple(np.asarray(table) for table in tables)
    if len({table.shape[1:] for table in tables}) != 1 or tables[0].ndim != 2 or not all(len(t) for t in tables):
        raise ParameterError("weights: tables with records and the same columns are needed")
    return tables


def _or_ones(weights: Host | None, n: int) -> Host:
    return np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)


def _shares(cells: Host, weights: Host | None, count: int) -> Host:
    """Share of each cell."""
    totals = np.bincount(cells, weights, minlength=count)
    return np.asarray(totals / totals.sum())


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

    ``w(x, y | t) = p(x, y | t) / Σ_t' p(t') p(x, y | t') · q(x | t) / p(x | t)``   (section 2 of [1], after [2])

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
