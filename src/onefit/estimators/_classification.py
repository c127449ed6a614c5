"""Classification with partly known labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.base import ClassifierMixin

from onefit._typing import BoolArray, FloatArray, GraphWidth
from onefit.blocks import by_block
from onefit.estimators._base import ManifoldEstimator
from onefit.estimators._documented import documented
from onefit.losses import HuberizedHinge, Logistic, Loss, Square, SquaredHinge
from onefit.targets import Targets, class_codes, class_targets, class_weight_array
from onefit.validation import PENALTY_LIMITS, check_choice, check_number

__all__ = ["LapLogisticRegression", "LapRLSClassifier", "LapSVC"]

#: Narrower than rounding at the corner of the hinge, a band holds no margins.
_HINGE_LIMITS = (float(np.finfo(np.float64).eps), PENALTY_LIMITS[1])


class _ManifoldClassifier(ClassifierMixin, ManifoldEstimator):
    """Two classes by the sign of f; more by one f against the rest each, from one basis."""

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "gaussian",
        kernel_width: float | Literal["median"] = "median",
        ambient_penalty: float = 1e-3,
        manifold_penalty: float = 10.0,
        n_neighbors: int = 8,
        graph_width: float | GraphWidth = "median",
        kernel_params: Mapping[str, Any] | None = None,
        graph: Any = "knn",
        graph_weights: str = "heat",
        laplacian: str = "unnormalized",
        laplacian_power: int = 1,
        neighbors: str = "auto",
        n_anchors: int = 500,
        n_components: int | Literal["auto"] | None = None,
        landmarks: str = "uniform",
        memory_limit: float | None = None,
        fit_intercept: bool = False,
        class_weight: str | Mapping[Any, float] | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel=kernel,
            kernel_width=kernel_width,
            ambient_penalty=ambient_penalty,
            manifold_penalty=manifold_penalty,
            n_neighbors=n_neighbors,
            graph_width=graph_width,
            kernel_params=kernel_params,
            graph=graph,
            graph_weights=graph_weights,
            laplacian=laplacian,
            laplacian_power=laplacian_power,
            neighbors=neighbors,
            n_anchors=n_anchors,
            n_components=n_components,
            landmarks=landmarks,
            memory_limit=memory_limit,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def _read_targets(self, y: Any, weightless: BoolArray | None = None) -> Targets:
        return class_targets(y, weightless)

    def _make_class_weight(self, targets: Targets) -> str | FloatArray | None:
        return class_weight_array(self.class_weight, targets.class_names)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to labelled and unlabelled rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (N, n_features), or dask collection
            All rows. A dask array or data frame needs ``n_components`` and ``graph="anchor"``.
        y : array-like of shape (N,)
            Class labels; -1 where unknown (None or NaN in arrays of strings or objects).
        sample_weight : array-like of shape (N,), optional
            Weights of the losses; those of unlabelled rows are not used. 0 hides the label of its
            row, which stays in the graph.

        Returns
        -------
        self
        """
        assembled, fit = self._fit(X, y, sample_weight)
        self._read_shape(assembled.targets)
        self.transduction_ = self._predict_from_decisions(fit.values)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Decision values f(x).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Rows (with a precomputed kernel: the kernel between them and all training rows).

        Returns
        -------
        array of shape (n,) or (n, n_classes)
            Positive for ``classes_[1]`` with two classes; one column each with more.
        """
        values = self._decisions(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Predicted classes of new rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            As in :meth:`decision_function`.

        Returns
        -------
        array of shape (n,)
            Entries of ``classes_``.
        """
        return self._predict_from_decisions(self._decisions(X))

    def _predict_from_decisions(self, values: FloatArray) -> np.ndarray[Any, Any]:
        """Classes of given decision values of shape (n, q).

        Parameters
        ----------
        values : array of shape (n, q)
            Decision values, with q = 1 for two classes.
        """
        return by_block(partial(_names, self.classes_), values, self.classes_[:0])

    def _read_shape(self, targets: Targets) -> None:
        """Take from the targets what turning decisions to predictions needs.

        Parameters
        ----------
        targets : Targets
            What ``y`` said.
        """
        self.classes_ = targets.class_names


@documented
class LapRLSClassifier(_ManifoldClassifier):
    r"""Laplacian regularised least squares for classification.

    .. math:: \min_f \; \sum_{i \in L} v_i\, (y_i - f(x_i))^2 + \gamma_A \lVert f \rVert_\kappa^2
              + \frac{\gamma_I}{N^2} f' L f, \qquad y_i = \pm 1,

    over labelled rows L and all N rows of the graph. The label -1 marks unlabelled rows. More than
    two classes are fitted one against the rest, all from one factorisation.

    Parameters
    ----------
    {parameters}
    class_weight : dict, "balanced" or None, default=None
        Factors of the losses by class; "balanced" weighs classes inversely to their counts among
        the labelled rows.
    {solver_parameters}

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    {attributes}

    See Also
    --------
    LapSVC : With the hinge loss.
    cross_val_decisions : Cross-validation at the price of one fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from onefit import LapRLSClassifier
    >>> X, truth = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.full(200, -1)
    >>> y[:6] = truth[:6]                                        # six labels
    >>> model = LapRLSClassifier(kernel_width=0.1, manifold_penalty=100.0).fit(X, y)
    >>> float(np.mean(model.transduction_ == truth))
    1.0
    """

    def _make_loss(self) -> Loss:
        return Square()


@documented
class LapSVC(_ManifoldClassifier):
    r"""Laplacian support vector machine.

    .. math:: \min_f \; \sum_{i \in L} v_i\, \ell(y_i f(x_i)) + \gamma_A \lVert f \rVert_\kappa^2
              + \frac{\gamma_I}{N^2} f' L f, \qquad y_i = \pm 1,

    with the hinge loss rounded over a band of half-width h around its corner, or the squared hinge
    loss. The label -1 marks unlabelled rows.

    Parameters
    ----------
    {parameters}
    class_weight : dict, "balanced" or None, default=None
        Factors of the losses by class; "balanced" weighs classes inversely to their counts among
        the labelled rows.
    loss : {"huberized_hinge", "squared_hinge"}, default="huberized_hinge"
        The loss.
    hinge_width : float, default=0.01
        Half-width h of the band in which the huberised hinge is rounded.
    {solver_parameters}

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    {attributes}

    See Also
    --------
    LapRLSClassifier : With the square loss, whose cross-validation has a closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from onefit import LapSVC
    >>> X, truth = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.full(200, -1)
    >>> y[:6] = truth[:6]                                        # six labels
    >>> model = LapSVC(kernel_width=0.1, manifold_penalty=100.0).fit(X, y)
    >>> float(np.mean(model.transduction_ == truth))
    1.0
    """

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "gaussian",
        kernel_width: float | Literal["median"] = "median",
        ambient_penalty: float = 1e-3,
        manifold_penalty: float = 10.0,
        n_neighbors: int = 8,
        graph_width: float | GraphWidth = "median",
        kernel_params: Mapping[str, Any] | None = None,
        graph: Any = "knn",
        graph_weights: str = "heat",
        laplacian: str = "unnormalized",
        laplacian_power: int = 1,
        neighbors: str = "auto",
        n_anchors: int = 500,
        n_components: int | Literal["auto"] | None = None,
        landmarks: str = "uniform",
        memory_limit: float | None = None,
        fit_intercept: bool = False,
        class_weight: str | Mapping[Any, float] | None = None,
        loss: str = "huberized_hinge",
        hinge_width: float = 0.01,
        tol: float = 1e-8,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel=kernel,
            kernel_width=kernel_width,
            ambient_penalty=ambient_penalty,
            manifold_penalty=manifold_penalty,
            n_neighbors=n_neighbors,
            graph_width=graph_width,
            kernel_params=kernel_params,
            graph=graph,
            graph_weights=graph_weights,
            laplacian=laplacian,
            laplacian_power=laplacian_power,
            neighbors=neighbors,
            n_anchors=n_anchors,
            n_components=n_components,
            landmarks=landmarks,
            memory_limit=memory_limit,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
        )
        self.loss = loss
        self.hinge_width = hinge_width

    _losses: ClassVar[tuple[str, ...]] = ("huberized_hinge", "squared_hinge")

    def _make_loss(self) -> Loss:
        check_choice("loss", self.loss, self._losses)
        check_number("hinge_width", self.hinge_width, limits=_HINGE_LIMITS)
        if self.loss == "squared_hinge":
            return SquaredHinge()
        return HuberizedHinge(float(self.hinge_width))


@documented
class LapLogisticRegression(_ManifoldClassifier):
    r"""Laplacian kernel logistic regression.

    .. math:: \min_f \; \sum_{i \in L} v_i \ln(1 + e^{-y_i f(x_i)})
              + \gamma_A \lVert f \rVert_\kappa^2 + \frac{\gamma_I}{N^2} f' L f,
              \qquad y_i = \pm 1,

    over labelled rows L and all N rows of the graph. The label -1 marks unlabelled rows.

    Parameters
    ----------
    {parameters}
    class_weight : dict, "balanced" or None, default=None
        Factors of the losses by class; "balanced" weighs classes inversely to their counts among
        the labelled rows.
    {solver_parameters}

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    {attributes}

    See Also
    --------
    LapRLSClassifier : With the square loss, whose cross-validation has a closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from onefit import LapLogisticRegression
    >>> X, truth = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.full(200, -1)
    >>> y[:6] = truth[:6]                                        # six labels
    >>> model = LapLogisticRegression(kernel_width=0.1, manifold_penalty=100.0).fit(X, y)
    >>> float(np.mean(model.transduction_ == truth))
    1.0
    """

    def _make_loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities 1 / (1 + exp(-f)); normalised over classes when there are more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            As in :meth:`decision_function`.

        Returns
        -------
        array of shape (n, n_classes)
            One column for each entry of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Class probabilities on a logarithmic scale.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            As in :meth:`decision_function`.

        Returns
        -------
        array of shape (n, n_classes)
            One column for each entry of ``classes_``.
        """
        return self._log_proba_from_decisions(self._decisions(X))

    def _log_proba_from_decisions(self, values: FloatArray) -> FloatArray:
        """Logarithms of probabilities from given decision values.

        Parameters
        ----------
        values : array of shape (n, q)
            Decision values, with q = 1 for two classes.
        """
        return by_block(_log_probabilities, values, np.empty((0, len(self.classes_))))


def _names(classes: np.ndarray[Any, Any], values: FloatArray) -> np.ndarray[Any, Any]:
    return classes[class_codes(values)]


def _log_probabilities(values: FloatArray) -> FloatArray:
    if values.shape[1] == 1:
        return log_expit(np.hstack([-values, values]))
    logarithms = log_expit(values)
    return logarithms - logsumexp(logarithms, axis=1, keepdims=True)
