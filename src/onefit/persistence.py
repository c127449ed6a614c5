"""Model files: skops, never pickle, and nothing but the types that a model of ours consists of.

A file holds a fitted pipeline and its metadata as JSON text. What only training needs, the graph
and the predictions on the training rows, is left out.
"""

from __future__ import annotations

import copy
import io
import json
import os
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from onefit._files import is_special, write_aside
from onefit.estimators import ManifoldEstimator

__all__ = ["ModelFileError", "load_model", "save_model"]

_FORMAT = "onefit-model-1"
#: What the arrays of a model file may expand to, and the text that describes its parts, in bytes.
_MAX_BYTES = 4 * 10**9
_MAX_SCHEMA = 32 * 10**6
_ESTIMATORS = (
    "onefit.estimators._classification.LapLogisticRegression",
    "onefit.estimators._classification.LapRLSClassifier",
    "onefit.estimators._classification.LapSVC",
    "onefit.estimators._regression.LapRLSRegressor",
)
#: Types that skops does not know, but that our models have.
_OURS = (*_ESTIMATORS, "onefit.kernels.Kernel", "numpy.dtype", "scipy.sparse._csr.csr_array")
_ALLOWED_TYPES = frozenset(
    {
        *_OURS,
        *(
            f"builtins.{name}"
            for name in ("bool", "dict", "float", "int", "list", "slice", "str", "tuple")
        ),
        *(f"numpy.{name}" for name in ("bool", "bool_", "float64", "int64", "ndarray", "str_")),
        "scipy.sparse._csr.csr_matrix",
        "sklearn.compose._column_transformer.ColumnTransformer",
        "sklearn.impute._base.MissingIndicator",
        "sklearn.impute._base.SimpleImputer",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._encoders.OneHotEncoder",
    }
)
#: Ways of building an object that run nothing but its own unpickling of plain state.
_ALLOWED_LOADERS = frozenset(
    {
        "CachedNode",
        "DTypeNode",
        "DictNode",
        "JsonNode",
        "ListNode",
        "NdArrayNode",
        "ObjectNode",
        "SliceNode",
        "SparseMatrixNode",
        "TupleNode",
        "TypeNode",
    }
)


class ModelFileError(ValueError):
    """A file that is no model of ours, or not a safe one; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def save_model(model: Pipeline, path: str | os.PathLike[str], metadata: Mapping[str, Any]) -> None:
    """Write a fitted model, beside the wanted place first, so that no half of it can be found.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline that ends in an estimator of this package.
    path : path-like
        Where to.
    metadata : mapping
        What JSON can hold.
    """
    with write_aside(path) as aside:
        write_model(model, aside, metadata)


def write_model(model: Pipeline, path: Path, metadata: Mapping[str, Any]) -> None:
    """Write a model file in place, and check that it can be loaded.

    Parameters
    ----------
    model, path, metadata
        As in :func:`save_model`.
    """
    content = {
        "format": _FORMAT,
        "metadata": json.dumps(metadata, allow_nan=False),
        "model": _compact(model),
    }
    _skops().dump(content, path, compression=zipfile.ZIP_DEFLATED)
    _check_types(path, path.read_bytes())


def load_model(path: str | os.PathLike[str]) -> tuple[Pipeline, dict[str, Any]]:
    """Read a model and its metadata; nothing in the file is executed.

    Parameters
    ----------
    path : path-like
        A file that :func:`save_model` wrote.

    Returns
    -------
    model : Pipeline
        As fitted, without ``graph_`` and ``transduction_``.
    metadata : dict
        As saved.
    """
    load = _skops().loads
    try:
        if is_special(Path(path)):
            raise ModelFileError(f"{path}: is a device or a pipe; expected a model file.")
        data = Path(path).read_bytes()  # once: what is checked is what is loaded
    except (OSError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        what = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{path}: cannot be read ({what}).") from error
    _check_types(path, data)
    try:
        with warnings.catch_warnings():
            # The caller compares versions by the metadata.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            content = load(data, trusted=list(_OURS))
        return _checked_content(path, content)
    except ModelFileError:
        raise
    except Exception as error:  # a crafted file can fail in any way
        raise _damaged(path, error) from error


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("model files need skops; install it with onefit[all].") from error
    return skops.io


def _compact(model: Pipeline) -> Pipeline:
    """A copy of the pipeline without what only training needs."""
    name, final = model.steps[-1]
    small = copy.copy(model)
    small.steps = [*model.steps[:-1], (name, final.compact())]
    return small


def _check_types(path: str | os.PathLike[str], data: bytes) -> None:
    """Refuse a file that names any type, or any way of building it, that no model of ours has."""
    schema = _read_schema(path, data)
    strangers = sorted(
        {
            kind if kind not in _ALLOWED_TYPES else f"{kind} by {loader}"
            for kind, loader in _declared(schema)
            if kind not in _ALLOWED_TYPES
            or loader not in _ALLOWED_LOADERS
            # Any other way could set its arrays unchecked.
            or (kind.startswith("scipy.") and loader != "SparseMatrixNode")
        }
    )
    if strangers:
        shown = ", ".join(strangers[:5]) + (", ..." if len(strangers) > 5 else "")
        raise ModelFileError(
            f"{path}: refused, because it holds types that no onefit model has: {shown}."
        )


def _read_schema(path: str | os.PathLike[str], data: bytes) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_size(path, archive.getinfo("schema.json").file_size, _MAX_SCHEMA)
            schema = json.loads(archive.read("schema.json"))
            _check_arrays(path, archive, schema)
            return schema
    except ModelFileError:
        raise
    except Exception as error:  # a crafted file can fail in any way
        raise ModelFileError(
            f"{path}: is no model file; expected one that onefit select wrote."
        ) from error


def _check_size(path: str | os.PathLike[str], size: int, limit: int) -> None:
    if size > limit:
        raise ModelFileError(f"{path}: refused, because it expands to {size:,} bytes.")


def _check_arrays(path: str | os.PathLike[str], archive: zipfile.ZipFile, schema: Any) -> None:
    """Refuse arrays that are too large; one that is named many times is loaded many times."""
    named = Counter(str(node["file"]) for node in _nodes(schema) if "file" in node)
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    size = sum(n * sizes.get(name, 0) for name, n in named.items())
    _check_size(path, size, _MAX_BYTES)
    for name, n in named.items():
        # A sparse matrix is an archive again.
        if name in sizes and (content := archive.read(name)).startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(content)) as inner:
                size += n * sum(info.file_size for info in inner.infolist())
            _check_size(path, size, _MAX_BYTES)
            _check_sparse(path, content)


def _check_sparse(path: str | os.PathLike[str], content: bytes) -> None:
    """Refuse a sparse matrix whose indices lead out of it: compiled code would follow them."""
    try:
        matrix: Any = sp.load_npz(io.BytesIO(content))
        if matrix.format != "csr":
            raise ValueError(f"a sparse matrix is {matrix.format}; expected csr")
        matrix.check_format(full_check=True)
    except Exception as error:  # a crafted file can fail in any way
        raise _damaged(path, error) from error


def _damaged(path: str | os.PathLike[str], error: Exception) -> ModelFileError:
    return ModelFileError(f"{path}: is damaged ({type(error).__name__}: {error}).")


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects of a skops schema, however deep."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _declared(schema: Any) -> Iterator[tuple[str, str]]:
    """Types and loaders that a skops schema names."""
    for node in _nodes(schema):
        if "__loader__" in node or "__class__" in node:
            yield f"{node.get('__module__')}.{node.get('__class__')}", str(node.get("__loader__"))


def _checked_content(path: str | os.PathLike[str], content: Any) -> tuple[Pipeline, dict[str, Any]]:
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ModelFileError(f"{path}: is a skops file, but no onefit model.")
    model, metadata = content.get("model"), json.loads(content.get("metadata") or "null")
    if not isinstance(model, Pipeline) or not isinstance(model.steps[-1][1], ManifoldEstimator):
        raise ModelFileError(f"{path}: does not hold a pipeline that ends in a onefit estimator.")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("columns"), dict):
        raise ModelFileError(f"{path}: lacks the list of columns; was it written by onefit?")
    check_is_fitted(model.steps[-1][1], ["support_", "dual_coef_", "intercept_"])
    _check_expansion(model.steps[-1][1])
    return model, metadata


def _check_expansion(final: Any) -> None:
    """Raise unless the arrays that predictions consist of are finite and fit each other."""
    c, q = len(final.support_), len(final.intercept_)
    expected = {"dual_coef_": (c, q), "intercept_": (q,)}
    if final.kernel != "precomputed":
        expected["X_fit_"] = (c, final.n_features_in_)
    for name, shape in expected.items():
        array: Any = getattr(final, name)
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
        if not np.isfinite(array.data if hasattr(array, "indptr") else array).all():
            raise ValueError(f"{name} has values that are not finite")
