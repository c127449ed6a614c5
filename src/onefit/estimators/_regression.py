"""Regression with partly known targets."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import RegressorMixin

from onefit._typing import BoolArray, FloatArray
from onefit.estimators._base import ManifoldEstimator
from onefit.estimators._documented import documented
from onefit.losses import Loss, Square
from onefit.targets import Targets, regression_targets

__all__ = ["LapRLSRegressor"]


@documented
class LapRLSRegressor(RegressorMixin, ManifoldEstimator):
    r"""Laplacian regularised least squares for regression.

    .. math:: \min_f \; \sum_{i \in L} v_i\, (y_i - f(x_i))^2 + \gamma_A \lVert f \rVert_\kappa^2
              + \frac{\gamma_I}{N^2} f' L f

    over labelled rows L and all N rows of the graph, with v_i = 1/l, or proportional to
    ``sample_weight``. Rows whose target is NaN are unlabelled.

    Parameters
    ----------
    {parameters}
    {solver_parameters}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    LapRLSClassifier : The same loss for classes.
    cross_val_decisions : Cross-validation at the price of one fit.

    Examples
    --------
    >>> import numpy as np
    >>> from onefit import LapRLSRegressor
    >>> X = np.linspace(0, 6, 61)[:, None]
    >>> y = np.where(np.arange(61) % 6 == 0, np.sin(X[:, 0]), np.nan)  # 11 labels
    >>> model = LapRLSRegressor(
    ...     kernel_width=1.0, ambient_penalty=1e-4, manifold_penalty=0.1
    ... ).fit(X, y)
    >>> model.predict([[1.5]]).round(2)
    array([1.])
    """

    def _read_targets(self, y: Any, weightless: BoolArray | None = None) -> Targets:
        return regression_targets(y, weightless)

    def _make_loss(self) -> Loss:
        return Square()

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to labelled and unlabelled rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (N, n_features), or dask collection
            All rows. A dask array or data frame needs ``n_components`` and ``graph="anchor"``.
        y : array-like of shape (N,) or (N, q)
            Targets; NaN where unknown.
        sample_weight : array-like of shape (N,), optional
            Weights of the losses; those of unlabelled rows are not used. 0 hides the target of its
            row, which stays in the graph.

        Returns
        -------
        self
        """
        assembled, fit = self._fit(X, y, sample_weight)
        self._read_shape(assembled.targets)
        self.transduction_ = self._predict_from_decisions(fit.values)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predicted targets of new rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Rows (with a precomputed kernel: the kernel between them and all training rows).

        Returns
        -------
        array of shape (n,) or (n, q)
            Real values.
        """
        return self._predict_from_decisions(self._decisions(X))

    def _predict_from_decisions(self, values: FloatArray) -> FloatArray:
        """Predictions in the shape of ``y`` from values of shape (n, q).

        Parameters
        ----------
        values : array of shape (n, q)
            Values of f.
        """
        return values[:, 0] if self._is_flat else values

    def _read_shape(self, targets: Targets) -> None:
        """Take from the targets what shaping predictions needs.

        Parameters
        ----------
        targets : Targets
            What ``y`` said.
        """
        self._is_flat = targets.is_flat

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
