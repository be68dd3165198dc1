"""What the server counts, for Prometheus. Ids of pods and sessions are not labels: there may be any number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scrubjay.server.tower import Tower


class _TowerCollector(Collector):
    """Looks at the server when it is asked: what costs nothing while nobody does."""

    def __init__(self, tower: Tower) -> None:
        self._tower = tower

    def collect(self) -> Iterable[Metric]:
        tower = self._tower
        pods = GaugeMetricFamily("scrubjay_pods", "Pods by state of their process", labels=["process"])
        for process, count in Counter(known.report.process for known in tower.pods.values()).items():
            pods.add_metric([process], count)
        yield pods
        yield GaugeMetricFamily("scrubjay_runners", "Runners that are connected", value=len(tower.peers))
        yield CounterMetricFamily("scrubjay_received_bytes", "Bytes of tapes from runners", value=tower.received_bytes)
        viewers = sum(pod.viewers for pod in tower.live_pods())
        yield GaugeMetricFamily("scrubjay_viewers", "Live views that are open", value=viewers)
        help_ = "Viewers that had fallen behind and were given a keyframe"
        yield CounterMetricFamily("scrubjay_viewer_resyncs", help_, value=tower.resyncs)
        yield CounterMetricFamily("scrubjay_changes", "Numbered changes of the fleet", value=tower.changes.number)


class Metrics:
    """The figures of one server."""

    def __init__(self, tower: Tower) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(_TowerCollector(tower))

    def encode(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)
