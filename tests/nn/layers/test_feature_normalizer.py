import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.features.specification import Feature, Specification
from tfagents_batch.nn.layers.feature_normalizer import FeatureNormalizer
from tfagents_batch.offline.features import twin
from tfagents_batch.serving import onnx, saved_model

RNG = np.random.default_rng(0)
FEATURES = {
    0: Feature("BINARY"),
    1: Feature("PROBABILITY", mean=-3.5, stddev=2.5),
    2: Feature("CONTINUOUS", mean=1e3, stddev=1e-3),
    3: Feature("BOXCOX", 0.271687, -1e-5, -0.357799, 1.0),
    4: Feature("ENUM", possible_values=(12, 4, 2)),
    5: Feature("QUANTILE", quantiles=(0.0, 80.0, 100.0)),
    6: Feature("QUANTILE", quantiles=(1.0,)),
    7: Feature("CONTINUOUS_ACTION", min_value=-5, max_value=10),
    8: Feature("DISCRETE_ACTION"),
    9: Feature("DO_NOT_PREPROCESS"),
    10: Feature("CLIP_LOG", mean=-2.0, stddev=0.01),
    11: Feature("BOXCOX", -5.0, 3.0, 0.1, 0.01),
    12: Feature("QUANTILE", quantiles=tuple(np.sort(RNG.normal(size=21)))),
}


def inputs(rows=3000):
    """Return raw values of every magnitude, those at edges, and their presence."""
    shape = rows, len(FEATURES)
    values = RNG.normal(size=shape) * np.exp(RNG.normal(0, 4, shape))
    values[:500] = RNG.integers(-2, 14, (500, shape[1]))
    values[500:503] = np.reshape([1e9, -1e9, 3e38], (3, 1))
    values[600:2000, 2] = 1000 + RNG.normal(size=1400) * 1e-3
    values[600:2000, 5] = RNG.uniform(-20, 120, 1400)
    values[:2000, 1] = np.clip(RNG.normal(0.3, 0.4, 2000), 0, 1)  # and exactly 0 and 1
    values[:3, 5] = 0, 80, 100  # quantiles
    values[:21, 12] = FEATURES[12].quantiles
    return values.astype(np.float32), RNG.integers(0, 2, shape).astype(np.int8)


def differences(found, expected):
    return np.abs(found.astype(np.float64) - expected).max()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("as_zero", [False, True])
def test_layer_and_twin_agree(as_zero, version):
    given = Specification(FEATURES, missing_as_zero=as_zero, version=version)
    layer = FeatureNormalizer(given)
    values, presence = inputs()
    expected = twin.normalize(layer.layout, values, presence)
    assert np.isfinite(expected).all() and expected.shape[1] == 15
    for call in (layer, tf.function(layer, jit_compile=True, autograph=False)):
        found = call(tf.constant(values), tf.constant(presence)).numpy()
        assert found.dtype == np.float32
        assert differences(found, expected) <= 1e-6
    values[presence == 0] = np.nan
    assert differences(layer(values).numpy(), expected) <= 1e-6
    assert layer.weights and not layer.trainable_weights


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("module", [onnx, saved_model])
def test_exports_of_the_layer_agree_with_the_twin(module, version, tmp_path):
    if module is onnx:
        pytest.importorskip("tf2onnx")
    layer = FeatureNormalizer(Specification(FEATURES, version=version))
    kinds = {"values": tf.float32, "presence": tf.int8}
    specs = {k: tf.TensorSpec([None, 13], x, k) for k, x in kinds.items()}

    def function(given):
        return {"normalized": layer(given["values"], given["presence"])}

    path = tmp_path / module.write(function, specs, tmp_path)
    values, presence = inputs()
    given = {"values": values, "presence": presence}
    found = module.load(path)(given)["normalized"]
    assert differences(found, twin.normalize(layer.layout, values, presence)) <= 1e-6


def test_columns_without_a_feature_are_left_out():
    given = Specification({5: Feature("BINARY"), 9: Feature("DO_NOT_PREPROCESS")})
    layer = FeatureNormalizer(given, ids=(2, 9, 5))
    np.testing.assert_array_equal(layer(tf.constant([[7.0, 8.0, 0.0]])), [[0, 8]])
