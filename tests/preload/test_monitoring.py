# SPDX-License-Identifier: Apache-2.0
"""examples/monitoring: the dashboard and the alert rules use metrics that the library writes."""
import json
import re
import shutil
import subprocess

import pytest
import yaml

from conftest import SOURCE
from reportkit import process, report, stall
from test_report_files import written  # noqa: F401

FOLDER = SOURCE / "examples" / "monitoring"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
VARIABLES = {"$__rate_interval": "5m", "$job_id": ".*", "$instance": ".*", "$rank": ".*"}
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (Debian: prometheus)")


def expressions():
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def names_in(text):
    """Names of metrics, without those of recording rules, which contain colons."""
    return set(re.findall(r"(?<![\w:])gpufeed_\w+(?!\w*:)", text))


def test_each_metric_is_one_that_the_report_writes(written):
    text = written("prometheus", process(7, 3) + stall(1, 2000), report(7, 3))
    known = set(re.findall(r"^# TYPE (\w+) ", text, re.M))
    assert len(known) > 15
    used = names_in("\n".join(expressions() + [json.dumps(DASHBOARD["templating"])] + [rule["expr"] for rule in RULES]))
    assert {"gpufeed_info", "gpufeed_gpu_seconds_total"} <= used <= known
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    assert set(re.findall(r"\bgpufeed:[\w:]+", " ".join(rule["expr"] for rule in RULES))) <= recorded


def test_dashboard_is_whole():
    panels = DASHBOARD["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    places = [(cell["y"] + row, cell["x"] + column) for cell in (panel["gridPos"] for panel in panels)
              for row in range(cell["h"]) for column in range(cell["w"])]
    assert len(set(places)) == len(places), "two panels overlap"
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in panels)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert {name.strip("$") for text in expressions() for name in re.findall(r"\$\w+", text)} <= variables | {"__rate_interval"}


def test_each_alert_names_the_rank_or_the_file():
    for rule in RULES:
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert "$labels." in rule["annotations"]["summary"]


def promtool(*words):
    done = subprocess.run([PROMTOOL, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_reads_the_rules_and_the_dashboard(tmp_path):
    promtool("check", "rules", FOLDER / "alerts.yaml")
    rules = []
    for number, text in enumerate(expressions()):
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        rules.append({"record": f"panel:{number}", "expr": text})
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "panels.yaml")


def series(name, values, **labels):
    labels = {"instance": "host", "rank": "0", "pid": "7", **labels}
    return {"series": name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}", "values": values}


# Series of a job whose process does well, and what makes one alert fire. Values are those of each minute.
WELL = [series("gpufeed_info", "1+0x60", job_id="12"), series("gpufeed_run_seconds", "1000+60x60"),
        series("gpufeed_gpu_seconds_total", "0+6x60", state="empty", device="0"),
        series("gpufeed_gpu_seconds_total", "0+54x60", state="queued", device="0"),
        series("gpufeed_stall_seconds_total", "0+0.1x60", cause="purge"), series("gpufeed_steps_total", "1+60x60"),
        series("gpufeed_step_seconds_total", "0+60x60"), series("gpufeed_memory_headroom_bytes", "8000000000+0x60"),
        series("gpufeed_staging_ring_waits_total", "0+1x60"), series("gpufeed_log_dropped_lines_total", "0+0x60")]
SLOW = [entry for rank in "123" for entry in (series("gpufeed_info", "1+0x60", job_id="12", rank=rank), series("gpufeed_steps_total", "1+60x60", rank=rank),
                                              series("gpufeed_step_seconds_total", f"0+{60 if rank < '3' else 90}x60", rank=rank))]
SICK = {
    "GpufeedGpuEmpty": [series("gpufeed_gpu_seconds_total", "0+60x60", state="empty", device="0")],
    "GpufeedStalls": [series("gpufeed_stall_seconds_total", "0+12x60", cause="purge")],
    "GpufeedStepsStopped": [series("gpufeed_steps_total", "1+0x60")],
    "GpufeedRankIsSlow": SLOW,
    "GpufeedMemoryShort": [series("gpufeed_memory_headroom_bytes", "500000000+0x60")],
    "GpufeedRingTooSmall": [series("gpufeed_staging_ring_waits_total", "0+6000x60")],
    "GpufeedLogIsIncomplete": [series("gpufeed_log_dropped_lines_total", "0+1x60")],
    "GpufeedProcessIsGone": [series("node_textfile_mtime_seconds", "0+0x60", file="gpufeed.7.prom")],
}


@needs_promtool
def test_each_alert_fires_when_it_should_and_no_other(tmp_path):
    alerts = [rule["alert"] for rule in RULES if "alert" in rule]
    assert set(alerts) == set(SICK)
    cases = []
    for name, changed in {"": [], **SICK}.items():
        replaced = {one["series"] for one in changed}
        found = [one for one in WELL if one["series"] not in replaced] + changed
        cases.append({"interval": "1m", "input_series": found, "promql_expr_test": [
            {"expr": f'count by (alertname) (ALERTS{{alertstate="firing"}})', "eval_time": "50m",
             "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else []}]})
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yaml")], "evaluation_interval": "1m", "tests": cases}))
    promtool("test", "rules", tmp_path / "test.yaml")
