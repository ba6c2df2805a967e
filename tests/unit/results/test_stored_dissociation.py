"""Dissociations that earlier versions stored."""

import json
from typing import Any

from tests.run_folders import write_run

import brodmann as bm


def test_a_file_of_an_earlier_version_has_no_mean_over_fewer_tasks(tmp_path: Any) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    path = tmp_path / "run" / "dissociation.json"
    document = json.loads(path.read_text("utf-8"))
    document["per_task"][1] = None
    document["undefined"] = {"b": "its base score is 0"}
    for point in document["curve"]:
        point["per_task"][1] = None
    for name in ("redrawn", "null"):  # which that version did not have
        del document[name]
    path.write_text(json.dumps(document), "utf-8")
    result = bm.Dissociation.load(path)
    assert result.mean is None and result.intervals["mean"] is None
    assert [point["mean"] for point in result.curve] == [None] * 3
    assert result.redrawn is None and result.null is None
