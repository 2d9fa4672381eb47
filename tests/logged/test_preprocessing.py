"""Tests of runs that learn from rows whose features are normalized."""

import json
import pathlib
import shutil

import numpy as np
import pytest

import tfagents_batch as tfb
from tests.offline import timelines
from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import layout
from tfagents_batch.features.specification import Feature, Specification
from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.offline import manifest, table_reader, timeline
from tfagents_batch.offline.features import specification, twin
from tfagents_batch.offline.features.find import find
from tfagents_batch.offline.features.identify import FeatureSettings
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.scripts import collect
from tfagents_batch.serving.observations import Reader
from tfagents_batch.serving.predictor import Predictor
from tfagents_batch.training.preprocessing import Preprocessing

SMALL = {"network": {"hidden": [8]}, "batch_size": 16}


def walks():
    """Return rows with a heavy-tailed feature 7, and 9, which half of them have."""
    rows, rng = timelines.walks(40, masked=True), np.random.default_rng(0)
    for row in rows:
        for name in {"state_features", "final_state_features"} & row.keys():
            row[name][7] = float(np.exp(3 * rng.normal()))
            if rng.random() < 0.5:
                row[name][9] = 100 * rng.normal() + 5
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the rows' specification and a timeline that has it."""
    folder = tmp_path_factory.mktemp("features")
    with open_rows(walks()) as rows:
        found = find(rows).specification
        specification.write(found, folder / "features.json")
        schema = rows.find_schema()
        timeline.build(rows, schema, TimelineConfig(), folder / "data", features=found)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    options = {"steps": 20, "eval_every": 10, "logdir": folder / "logs"}
    return tfb.train_offline("dqn", folder / "data", settings=SMALL, **options)


def observations(folder):
    """Return all raw states as an agent gets them, and the same, normalized."""
    found = table_reader.partition(folder / "data")
    columns = table_reader.read(found, missing=np.nan)
    given = specification.read(folder / "features.json")
    raw = columns["state"]
    presence = (~np.isnan(raw)).astype(np.int8)
    assert 0 < presence.mean() < 1
    parts = {"state": np.nan_to_num(raw), "presence": presence}
    parts["action_mask"] = columns["mask"].astype(np.int8)
    return parts, twin.normalize(layout(given, found.schema.features), raw)


def test_a_timeline_has_its_specification_and_rows_are_normalized_by_it(folder):
    found = table_reader.partition(folder / "data")
    expected = specification.read(folder / "features.json")
    assert found.manifest["features_sha256"] == expected.sha256
    settings = TableSettings(str(found.folder))
    given, ids = settings.preprocessing()
    assert given == expected and ids == (0, 1, 2, 3, 4, 7, 9)
    normalized, missing = settings._preparation(found)
    columns = normalized(table_reader.read(found, missing=missing))
    np.testing.assert_array_equal(columns["state"], observations(folder)[1])
    assert np.isfinite(columns["next_state"]).all()


def test_agent_and_export_take_raw_features_with_presence(run, folder, tmp_path):
    pytest.importorskip("tf2onnx")
    raw, normalized = observations(folder)
    agent = tfb.load(run.logdir)
    assert set(agent.observation_space.spaces) == {"state", "presence", "action_mask"}
    actions, _ = agent.predict(raw)
    export = tfb.export(run, "onnx", tmp_path / "export")
    predictor = Predictor.load(export.folder)
    answer = predictor.predict(raw)
    np.testing.assert_array_equal(answer["action"], actions)
    # The same network, with the weights of the checkpoint, on the normalized rows.
    weights = [x.numpy() for x in agent._policy.named_variables().values()]
    hidden = np.maximum(normalized @ weights[0] + weights[1], 0)
    np.testing.assert_allclose(
        answer["values"], hidden @ weights[2] + weights[3], atol=1e-4
    )
    observed = Reader(predictor.description).read({"7": 12.0, "0": 1})
    arrays = observed.arrays
    assert arrays["observation_presence"].tolist() == [1, 0, 0, 0, 0, 1, 0]
    assert observed.missing == 5


def test_the_hash_is_in_run_and_export_and_another_one_is_refused(
    run, folder, tmp_path
):
    expected = specification.read(folder / "features.json").sha256
    export = tfb.export(run, "saved_model", tmp_path / "export").folder
    described = json.loads((export / "export.json").read_text())
    assert described["features_sha256"] == expected
    assert specification.read(export / "features.json").sha256 == expected
    with pytest.raises(UserError, match="litert, which has no float64"):
        tfb.export(run, "litert", tmp_path / "lite")
    path = pathlib.Path(run.logdir, "run.json")
    text = path.read_text()
    content = json.loads(text)
    assert content["features"]["sha256"] == expected
    content["features"]["specification"]["n"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"has the hash .*, but the run was trained"):
        tfb.load(run.logdir)
    path.write_text(text)


def test_other_features_are_refused_when_a_run_goes_on(run, folder, tmp_path):
    with open_rows(walks()) as rows:
        other = find(rows, FeatureSettings(allowlist=(0, 1, 2, 3, 4, 7))).specification
    specification.write(other, tmp_path / "other.json")
    options = {"steps": 20, "logdir": tmp_path, "settings": SMALL, "eval_every": 0}
    changed = {"features": str(tmp_path / "other.json")}
    with pytest.raises(UserError, match=r"init_from: .* normalized by .* this run's"):
        tfb.train_offline(
            "dqn", folder / "data", init_from=run.logdir, table=changed, **options
        )
    assert tfb.train(resume=run.logdir, steps=30).step == 30
    mine = tmp_path / "mine.json"
    mine.write_text((folder / "features.json").read_text())
    table = {"features": str(mine)}
    again = tfb.train_offline("dqn", folder / "data", table=table, **options)
    specification.write(other, mine)
    with pytest.raises(UserError, match=r"in the run .* features are normalized by"):
        tfb.train(resume=again.logdir, steps=30)


def test_a_changed_specification_of_a_timeline_is_refused(folder, tmp_path):
    data = shutil.copytree(folder / "data", tmp_path / "data")
    found = manifest.newest(data) / manifest.FEATURES
    found.write_text(found.read_text().replace('"n": ', '"n": 1'))
    with pytest.raises(UserError, match=r"_features.json has the hash .* changed"):
        tfb.train_offline("dqn", data, steps=4, logdir=tmp_path)


def test_a_specification_of_other_rows_is_refused(folder, tmp_path):
    lost = Specification({77: Feature("BINARY")})
    specification.write(lost, tmp_path / "lost.json")
    table = {"features": str(tmp_path / "lost.json")}
    with pytest.raises(UserError, match="has the features 77, which the rows do not"):
        tfb.train_offline("dqn", folder / "data", steps=4, table=table)


def test_an_agent_plays_in_the_environment_that_was_logged(tmp_path):
    rows = tmp_path / "rows"
    collect.main(["--env=CartPole-v1", "--rows=600", f"--output={rows}"])
    with open_rows(rows) as opened:
        found = find(opened).specification
        timeline.build(
            opened, opened.find_schema(), TimelineConfig(), tmp_path / "data"
        )
    assert "BINARY" not in {x.feature_type for x in found.features.values()}
    specification.write(found, tmp_path / "features.json")
    run = tfb.train_offline(
        "dqn",
        tmp_path / "data",
        env="CartPole-v1",
        steps=10,
        eval_every=10,
        eval_episodes=2,
        logdir=tmp_path / "logs",
        settings=SMALL,
        table={"features": str(tmp_path / "features.json")},
    )
    assert run.metrics["eval/return_mean"] > 0
    agent = tfb.load(run.logdir)
    assert agent.observation_space.shape == (4,)
    assert agent.predict(np.zeros([3, 4], np.float32))[0].shape == (3,)
    assert tfb.evaluate(run.logdir, episodes=2).mean_return > 0


def test_a_run_notes_log_odds_that_an_old_specification_does_not_standardize():
    kinds = {1: "PROBABILITY", 2: "CLIP_LOG", 3: "BINARY"}
    features = {i: Feature(kind) for i, kind in kinds.items()}
    (line,) = Preprocessing(Specification(features, version=1)).remarks()
    assert "has version 1, which does not standardize the features 1, 2" in line
    plain = Specification({3: features[3]}, version=1)
    for other in Specification(features), plain, None:
        assert not Preprocessing(other).remarks()
